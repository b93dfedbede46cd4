#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.h"

namespace elastiq {

struct ValueScan {
  std::uint64_t non_finite = 0;        ///< NaN and infinity.
  std::uint64_t first_non_finite = 0;  ///< Element index.
  std::uint64_t subnormal = 0;         ///< Below the smallest normal number, zeros not counted.
};

/// What is unusual among F32, F16 or BF16 elements, at the speed of memory.
ValueScan scan_values(DType type, std::span<const std::byte> bytes);

}  // namespace elastiq
