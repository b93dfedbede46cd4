#include "model/continuation_text.h"

#include <algorithm>

#include "core/file.h"

namespace elastiq {
namespace {

constexpr std::size_t kLongestCharacter = 4;

// Continuation bytes of both ends: after any lead byte one of them is valid.
bool can_become_character(std::string_view bytes) {
  for (const char fill : {'\x80', '\xbf'}) {
    std::string longer(bytes);
    while (longer.size() < kLongestCharacter) {
      longer += fill;
      if (find_invalid_utf8(longer) == std::string::npos) return true;
    }
  }
  return false;
}

}  // namespace

std::string continuation_text(const Tokenizer& tokenizer, const std::vector<std::uint32_t>& tokens,
                              std::size_t prompt_bytes) {
  const std::string whole = tokenizer.decode(tokens);
  return whole.substr(std::min(prompt_bytes, whole.size()));
}

std::string whole_characters(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t bad = std::min(find_invalid_utf8(text), text.size());
    out.append(text.substr(0, bad));
    text.remove_prefix(bad);
    if (text.empty() || can_become_character(text)) break;
    out.append("\xef\xbf\xbd");
    text.remove_prefix(1);
  }
  return out;
}

}  // namespace elastiq
