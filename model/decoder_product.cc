#include "model/decoder_product.h"

namespace elastiq {
namespace {

/// Below this many multiplications the conversion to oneDNN's tensors costs more than it saves
/// (measured).
constexpr std::int64_t kWorthwhile = std::int64_t{1} << 28;

}  // namespace

torch::Tensor product_transposed(const torch::Tensor& a, const torch::Tensor& b) {
  const bool large = a.size(0) * a.size(1) * b.size(0) >= kWorthwhile;
  if (torch::GradMode::is_enabled() || !large || !at::globalContext().hasMKLDNN()) {
    return torch::mm(a, b.t());
  }
  return torch::mkldnn_linear(a.to(torch::kFloat32).contiguous().to_mkldnn(), b.contiguous(), {})
      .to_dense();
}

}  // namespace elastiq
