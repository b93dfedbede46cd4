#pragma once

#include <torch/torch.h>

namespace elastiq {

/// a [m, k] times b [n, k] transposed, in float32.
///
/// Without gradients large products go through oneDNN: Debian's OpenBLAS 0.3.21 has no usable
/// kernel for the newest CPUs (it falls back to SSE3 there: 22 against 77 GFLOP/s measured). With
/// gradients, or small, torch::mm.
torch::Tensor product_transposed(const torch::Tensor& a, const torch::Tensor& b);

}  // namespace elastiq
