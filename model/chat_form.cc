#include "model/chat_form.h"

namespace elastiq {
namespace {

constexpr const char* kStart = "<|im_start|>";
constexpr const char* kEnd = "<|im_end|>";

/// The literal after "<|im_start|>system" up to "<|im_end|>", or empty when the template has none
/// or computes it.
std::string default_system(const std::string& text) {
  const std::string open = std::string(kStart) + "system";
  const std::size_t at = text.find(open);
  if (at == std::string::npos) return "";
  std::size_t from = at + open.size();
  const std::size_t end = text.find(kEnd, from);
  if (end == std::string::npos) return "";
  // The line end is a real one or Jinja's escape.
  if (text.compare(from, 2, "\\n") == 0) {
    from += 2;
  } else if (text.compare(from, 1, "\n") == 0) {
    from += 1;
  }
  const std::string system = text.substr(from, end - from);
  return system.find_first_of("{}'\"\\") == std::string::npos ? system : "";
}

std::string message(const std::string& role, const std::string& text) {
  return kStart + role + "\n" + text + kEnd + "\n";
}

}  // namespace

Result<std::string> chat_prompt(const std::string& chat_template, const std::string& question) {
  if (chat_template.empty()) {
    return Error{ErrorCode::kUnsupportedType, "--chat", "the package has no chat template"};
  }
  const bool is_chatml = chat_template.find(kStart) != std::string::npos &&
                         chat_template.find(kEnd) != std::string::npos;
  if (!is_chatml) {
    return Error{ErrorCode::kUnsupportedType, "--chat",
                 "the package's chat template is not of ChatML form (<|im_start|> ... <|im_end|>)"};
  }
  const std::string system = default_system(chat_template);
  std::string prompt = system.empty() ? "" : message("system", system);
  prompt += message("user", question);
  return prompt + kStart + "assistant\n";
}

}  // namespace elastiq
