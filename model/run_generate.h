#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "model/sampler.h"

namespace elastiq {

struct GenerateOptions {
  std::filesystem::path package;
  std::string prompt;
  enum class Form { kPlain, kChat } form = Form::kPlain;
  int max_tokens = 128;
  SamplingOptions sampling;
  std::uint64_t seed = 1;
  std::vector<std::string> stop;  ///< The text ends before the first of these words.
  int threads = 2;
  std::string isa;  ///< "": the best.
};

/// Continues a prompt. `on_text` gets the new text in pieces of whole UTF-8 characters, as soon as
/// no stop word can take them back. Greedy text is the same on every machine and thread count.
/// Result  {"prompt", "text", "tokens", "stopped": "eos"|"stop"|"max_tokens"|"context",
///          "prompt_tokens", "speed": {"prefill_tps", "decode_tps"}}.
Result<Json> run_generate(const GenerateOptions& options,
                          const std::function<void(const std::string&)>& on_text);

}  // namespace elastiq
