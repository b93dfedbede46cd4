#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "core/error.h"
#include "core/json.h"

namespace elastiq {

struct GenerateOptions {
  std::filesystem::path package;
  std::string prompt;
  enum class Form { kPlain, kChat } form = Form::kPlain;
  int max_tokens = 128;
  double temperature = 0;  ///< 0: greedy.
  int top_k = 40;          ///< With a temperature; 0: all.
  std::uint64_t seed = 1;
  int threads = 2;
};

/// Continues a prompt. `on_text` gets the new text in pieces of whole UTF-8 characters.
/// Result  {"prompt", "text", "tokens", "stopped": "eos"|"max_tokens"|"context", "speed"}.
Result<Json> run_generate(const GenerateOptions& options,
                          const std::function<void(const std::string&)>& on_text);

/// Index of the next token: the largest logit (the first of equals) at temperature 0, else drawn
/// from the top_k largest. uniform in [0, 1).
std::uint32_t pick_token(std::span<const float> logits, double temperature, int top_k,
                         double uniform);

}  // namespace elastiq
