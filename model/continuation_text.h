#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer.h"

namespace elastiq {

/// The text that tokens add to that of a prompt. Decoded on its own a continuation would lose its
/// first space in a SentencePiece vocabulary, as if it began a text.
/// tokens: the prompt's and what follows. prompt_bytes: size of the decoded prompt.
std::string continuation_text(const Tokenizer& tokenizer, const std::vector<std::uint32_t>& tokens,
                              std::size_t prompt_bytes);

/// The text in whole characters: what can become a character with more bytes is cut from the end,
/// every other byte that is not UTF-8 becomes U+FFFD. The result for a longer text begins with
/// that for a shorter one.
std::string whole_characters(std::string_view text);

}  // namespace elastiq
