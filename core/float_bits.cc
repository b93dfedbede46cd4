#include "core/float_bits.h"

#include <cstring>

namespace elastiq {

float f16_to_f32(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // Subnormal: mantissa * 2^-24, exact in float.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

std::uint16_t f32_to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // >= 65520
  if (magnitude < 0x38800000u) {
    // Below 2^-14: adding 0.5 aligns the last half bit with the last float bit, and the addition
    // rounds to even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

std::uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

Status widen_to_f32(DType type, std::span<const std::byte> bytes, std::span<float> out) {
  if (bytes.size() != out.size() * dtype_bytes(type)) {
    return Error{ErrorCode::kInvalidArgument, "widen_to_f32", "byte count does not match", 0};
  }
  if (type == DType::kF32) {
    if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return ok_status();
  }
  if (type != DType::kF16 && type != DType::kBf16) {
    return Error{ErrorCode::kUnsupportedType, std::string(dtype_name(type)),
                 "a weight is F32, F16 or BF16", 0};
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, bytes.data() + 2 * i, 2);
    out[i] = type == DType::kF16 ? f16_to_f32(half) : bf16_to_f32(half);
  }
  return ok_status();
}

Status narrow_from_f32(DType type, std::span<const float> values, std::span<std::byte> out) {
  if (out.size() != values.size() * dtype_bytes(type)) {
    return Error{ErrorCode::kInvalidArgument, "narrow_from_f32", "byte count does not match", 0};
  }
  if (type == DType::kF32) {
    if (!values.empty()) std::memcpy(out.data(), values.data(), out.size());
    return ok_status();
  }
  if (type != DType::kF16 && type != DType::kBf16) {
    return Error{ErrorCode::kUnsupportedType, std::string(dtype_name(type)),
                 "a weight is F32, F16 or BF16", 0};
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t half = type == DType::kF16 ? f32_to_f16(values[i]) : f32_to_bf16(values[i]);
    std::memcpy(out.data() + 2 * i, &half, 2);
  }
  return ok_status();
}

}  // namespace elastiq
