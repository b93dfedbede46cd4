#include "core/crc32c.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

#include <array>
#include <cstring>

namespace elastiq {
namespace {

using Table = std::array<std::array<std::uint32_t, 256>, 8>;

// table[k][b]: remainder of byte b followed by k zero bytes, so that 8 bytes take 8 independent
// look-ups.
constexpr Table make_table() {
  Table table{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0x82f63b78u : 0u);
    table[0][b] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t b = 0; b < 256; ++b) {
      const std::uint32_t last = table[k - 1][b];
      table[k][b] = (last >> 8) ^ table[0][last & 255u];
    }
  }
  return table;
}

constexpr Table kTable = make_table();

std::uint32_t portable(std::uint32_t crc, std::span<const std::byte> bytes) {
  const std::byte* p = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; p += 8, left -= 8) {
    std::uint64_t word = 0;
    for (unsigned i = 0; i < 8; ++i) word |= std::to_integer<std::uint64_t>(p[i]) << (8 * i);
    word ^= crc;
    crc = 0;
    for (unsigned i = 0; i < 8; ++i) crc ^= kTable[7 - i][(word >> (8 * i)) & 255u];
  }
  for (; left > 0; ++p, --left) {
    crc = (crc >> 8) ^ kTable[0][(crc ^ std::to_integer<std::uint32_t>(*p)) & 255u];
  }
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t sse42(std::uint32_t crc,
                                                      std::span<const std::byte> bytes) {
  const std::byte* p = bytes.data();
  std::size_t left = bytes.size();
  std::uint64_t state = crc;
  for (; left >= 8; p += 8, left -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, p, sizeof word);
    state = _mm_crc32_u64(state, word);
  }
  crc = static_cast<std::uint32_t>(state);
  for (; left > 0; ++p, --left) crc = _mm_crc32_u8(crc, std::to_integer<std::uint8_t>(*p));
  return crc;
}
#endif

}  // namespace

std::uint32_t crc32c(std::uint32_t crc, std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return ~sse42(~crc, bytes);
#endif
  return crc32c_portable(crc, bytes);
}

std::uint32_t crc32c_portable(std::uint32_t crc, std::span<const std::byte> bytes) {
  return ~portable(~crc, bytes);
}

}  // namespace elastiq
