#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace elastiq {

/// The pattern of Hugging Face's ByteLevel pre-tokenizer (use_regex), from GPT-2's encoder.py.
inline constexpr const char* kByteLevelPattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/// Code point that stands for a byte in byte-level vocabularies: printable Latin-1 stands for
/// itself, the 68 others are numbered from U+0100. Source: bytes_to_unicode of GPT-2's encoder.py.
constexpr std::array<std::uint16_t, 256> byte_level_alphabet() {
  std::array<std::uint16_t, 256> table{};
  std::uint16_t next = 256;
  for (std::uint16_t b = 0; b < 256; ++b) {
    const bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    table[b] = printable ? b : next++;
  }
  return table;
}

/// Appends a code point below U+0800 as UTF-8.
inline void append_short_utf8(std::uint16_t code_point, std::string& out) {
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
    return;
  }
  out += static_cast<char>(0xc0 | (code_point >> 6));
  out += static_cast<char>(0x80 | (code_point & 0x3f));
}

}  // namespace elastiq
