#pragma once

#include <string>

#include "core/error.h"

namespace elastiq {

/// A question in the form of the model's chat template, up to where the answer begins.
///
/// Chat templates are Jinja programs. Only those of ChatML form are known here: the template writes
/// <|im_start|>ROLE, a line end, the text, <|im_end|> and a line end. A system text that the
/// template itself gives when the conversation has none is taken over. Errors  kUnsupportedType: no
/// template, or one of another form.
Result<std::string> chat_prompt(const std::string& chat_template, const std::string& question);

}  // namespace elastiq
