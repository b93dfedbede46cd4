#pragma once

namespace elastiq {

/// Arithmetic of the float decoder's matrix products; norms, softmax and residuals are always
/// float32. kBf16 rounds both operands to bfloat16 and accumulates in float32: faster only on CPUs
/// whose bfloat16 instructions outrun their float32 ones, so it is the user's choice.
enum class MatmulType { kF32, kBf16 };

/// "f32" or "bf16".
inline const char* matmul_type_name(MatmulType type) {
  return type == MatmulType::kBf16 ? "bf16" : "f32";
}

}  // namespace elastiq
