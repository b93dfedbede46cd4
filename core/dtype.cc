#include "core/dtype.h"

#include <array>

namespace elastiq {
namespace {

struct DTypeRow {
  DType type;
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array kTypes = {
    DTypeRow{DType::kF64, "F64", 8},        DTypeRow{DType::kF32, "F32", 4},
    DTypeRow{DType::kF16, "F16", 2},        DTypeRow{DType::kBf16, "BF16", 2},
    DTypeRow{DType::kF8E4M3, "F8_E4M3", 1}, DTypeRow{DType::kF8E5M2, "F8_E5M2", 1},
    DTypeRow{DType::kI64, "I64", 8},        DTypeRow{DType::kI32, "I32", 4},
    DTypeRow{DType::kI16, "I16", 2},        DTypeRow{DType::kI8, "I8", 1},
    DTypeRow{DType::kU64, "U64", 8},        DTypeRow{DType::kU32, "U32", 4},
    DTypeRow{DType::kU16, "U16", 2},        DTypeRow{DType::kU8, "U8", 1},
    DTypeRow{DType::kBool, "BOOL", 1},
};

}  // namespace

std::string_view dtype_name(DType type) {
  return kTypes[static_cast<std::size_t>(type)].name;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeRow& row : kTypes) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

std::size_t dtype_bytes(DType type) {
  return kTypes[static_cast<std::size_t>(type)].bytes;
}

bool is_weight_dtype(DType type) {
  return type == DType::kF32 || type == DType::kF16 || type == DType::kBf16;
}

}  // namespace elastiq
