#include "model/finite_scan.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace elastiq {
namespace {

// A value is finite unless all its exponent bits are set. Blocks are copied because file data may
// be unaligned; the copy stays in the first-level cache.
template <class Bits>
NonFinite scan(std::span<const std::byte> bytes, Bits exponent) {
  constexpr std::size_t kBlock = 4096 / sizeof(Bits);
  std::array<Bits, kBlock> block;
  NonFinite found;
  const std::size_t total = bytes.size() / sizeof(Bits);
  for (std::size_t at = 0; at < total; at += kBlock) {
    const std::size_t n = std::min(kBlock, total - at);
    std::memcpy(block.data(), bytes.data() + at * sizeof(Bits), n * sizeof(Bits));
    Bits any = 0;
    for (std::size_t i = 0; i < n; ++i) {
      any = static_cast<Bits>(any | static_cast<Bits>((block[i] & exponent) == exponent));
    }
    if (any == 0) continue;
    for (std::size_t i = 0; i < n; ++i) {
      if ((block[i] & exponent) != exponent) continue;
      if (found.count++ == 0) found.first = at + i;
    }
  }
  return found;
}

}  // namespace

NonFinite scan_non_finite(DType type, std::span<const std::byte> bytes) {
  if (type == DType::kF32) return scan<std::uint32_t>(bytes, 0x7f800000u);
  if (type == DType::kF16) return scan<std::uint16_t>(bytes, 0x7c00u);
  return scan<std::uint16_t>(bytes, 0x7f80u);
}

}  // namespace elastiq
