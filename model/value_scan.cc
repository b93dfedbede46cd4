#include "model/value_scan.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace elastiq {
namespace {

// A value is finite unless all its exponent bits are set, and subnormal when none is but one of the
// mantissa. Blocks are copied because file data may be unaligned; the copy stays in the first-level
// cache, and a block's count fits the element type.
template <class Bits>
ValueScan scan(std::span<const std::byte> bytes, Bits exponent, Bits mantissa) {
  constexpr std::size_t kBlock = 4096 / sizeof(Bits);
  std::array<Bits, kBlock> block;
  ValueScan found;
  const std::size_t total = bytes.size() / sizeof(Bits);
  for (std::size_t at = 0; at < total; at += kBlock) {
    const std::size_t n = std::min(kBlock, total - at);
    std::memcpy(block.data(), bytes.data() + at * sizeof(Bits), n * sizeof(Bits));
    Bits any = 0;
    Bits subnormal = 0;
    for (std::size_t i = 0; i < n; ++i) {
      any = static_cast<Bits>(any | static_cast<Bits>((block[i] & exponent) == exponent));
      const bool small = (block[i] & exponent) == 0 && (block[i] & mantissa) != 0;
      subnormal = static_cast<Bits>(subnormal + static_cast<Bits>(small));
    }
    found.subnormal += subnormal;
    if (any == 0) continue;
    for (std::size_t i = 0; i < n; ++i) {
      if ((block[i] & exponent) != exponent) continue;
      if (found.non_finite++ == 0) found.first_non_finite = at + i;
    }
  }
  return found;
}

}  // namespace

ValueScan scan_values(DType type, std::span<const std::byte> bytes) {
  if (type == DType::kF32) return scan<std::uint32_t>(bytes, 0x7f800000u, 0x007fffffu);
  if (type == DType::kF16) return scan<std::uint16_t>(bytes, 0x7c00u, 0x03ffu);
  return scan<std::uint16_t>(bytes, 0x7f80u, 0x007fu);
}

}  // namespace elastiq
