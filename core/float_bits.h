#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "core/dtype.h"
#include "core/error.h"

namespace elastiq {

/// Exact widening of IEEE half bits; subnormals and NaN payloads included.
float f16_to_f32(std::uint16_t bits);

/// To nearest, ties to even; overflow becomes infinity, NaN stays NaN.
std::uint16_t f32_to_f16(float value);

/// Exact widening.
inline float bf16_to_f32(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// To nearest, ties to even; NaN stays NaN (quiet).
std::uint16_t f32_to_bf16(float value);

/// Widens F32, F16 or BF16 elements to float. bytes.size() = out.size() * dtype_bytes(type).
/// Errors  kUnsupportedType for other types, kInvalidArgument for a wrong size.
Status widen_to_f32(DType type, std::span<const std::byte> bytes, std::span<float> out);

/// Narrows floats to F32, F16 or BF16, to nearest, ties to even; the inverse of widen_to_f32 where
/// exact.
Status narrow_from_f32(DType type, std::span<const float> values, std::span<std::byte> out);

}  // namespace elastiq
