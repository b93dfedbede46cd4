#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.h"

namespace elastiq {

struct NonFinite {
  std::uint64_t count = 0;
  std::uint64_t first = 0;  ///< Element index of the first one.
};

/// NaN and infinity among F32, F16 or BF16 elements, at the speed of memory.
NonFinite scan_non_finite(DType type, std::span<const std::byte> bytes);

}  // namespace elastiq
