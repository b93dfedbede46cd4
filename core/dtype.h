#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace elastiq {

/// Element types of checkpoint tensors. Source: safetensors' type names.
enum class DType : std::uint8_t {
  kF64,
  kF32,
  kF16,
  kBf16,
  kF8E4M3,
  kF8E5M2,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool
};

/// The safetensors name, e.g. "BF16".
std::string_view dtype_name(DType type);
std::optional<DType> dtype_from_name(std::string_view name);
std::size_t dtype_bytes(DType type);

/// F32, F16 or BF16: the types a weight may have.
bool is_weight_dtype(DType type);

}  // namespace elastiq
