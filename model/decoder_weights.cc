// Weights of a checkpoint as float32 tensors, and the check that a decoder can run on them.
#include <fmt/format.h>

#include <utility>

#include "core/float_bits.h"
#include "core/quantized_matrix.h"
#include "kernels/elq_layout.h"
#include "model/decoder.h"

namespace elastiq {
namespace {

std::span<float> values_of(torch::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

Result<torch::Tensor> widened(const std::string& name, DType dtype,
                              const std::vector<std::uint64_t>& shape,
                              std::span<const std::byte> bytes) {
  const std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  torch::Tensor out = torch::empty(sizes, torch::kFloat32);
  Status status = widen_to_f32(dtype, bytes, values_of(out));
  if (!status.ok()) {
    Error error = std::move(status).error();
    error.subject = name;
    return error;
  }
  return out;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

using Shape = std::vector<std::int64_t>;

struct Expectation {
  std::uint32_t role = 0;
  Shape shape;
  enum class Presence { kRequired, kOptional } presence = Presence::kRequired;
};

Status check_one(const Weights& weights, const Expectation& expected, std::int64_t layer,
                 const std::string& subject) {
  const std::string name = tensor_name(expected.role, layer);
  const auto found = weights.find(name);
  if (found == weights.end()) {
    if (expected.presence == Expectation::Presence::kOptional) return ok_status();
    return Error{ErrorCode::kMissing, subject, fmt::format("tensor '{}' is missing", name), 0};
  }
  const Shape shape = found->second.sizes().vec();
  if (shape == expected.shape) return ok_status();
  return Error{ErrorCode::kInconsistent, subject,
               fmt::format("tensor '{}' has shape {}, config.json asks for {}", name,
                           shape_text(shape), shape_text(expected.shape)),
               0};
}

std::vector<Expectation> block_tensors(const ModelConfig& c) {
  const std::int64_t q = c.heads * c.head_dim;
  const std::int64_t kv = c.kv_heads * c.head_dim;
  std::vector<Expectation> expected = {
      {ELQ_ROLE_ATTN_NORM, {c.hidden}},   {ELQ_ROLE_MLP_NORM, {c.hidden}},
      {ELQ_ROLE_Q, {q, c.hidden}},        {ELQ_ROLE_K, {kv, c.hidden}},
      {ELQ_ROLE_V, {kv, c.hidden}},       {ELQ_ROLE_O, {c.hidden, q}},
      {ELQ_ROLE_GATE, {c.ffn, c.hidden}}, {ELQ_ROLE_UP, {c.ffn, c.hidden}},
      {ELQ_ROLE_DOWN, {c.hidden, c.ffn}}};
  const std::size_t required = expected.size();
  for (std::size_t i = 0; i < required; ++i) {
    if (expected[i].shape.size() != 2) continue;
    expected.push_back({expected[i].role + ELQ_ROLE_BIAS,
                        {expected[i].shape[0]},
                        Expectation::Presence::kOptional});
  }
  return expected;
}

}  // namespace

Result<Weights> load_weights(const ModelTensors& tensors) {
  Weights weights;
  for (const ModelTensor& tensor : tensors.tensors) {
    const TensorView& view = *tensor.view;
    ELQ_TRY(values, widened(view.name, view.dtype, view.shape, view.bytes));
    weights.emplace(tensor_name(tensor.role, tensor.layer), std::move(values));
  }
  return weights;
}

Result<Weights> load_weights(const QuantizedCheckpoint& checkpoint) {
  Weights weights;
  for (const auto& [name, plain] : checkpoint.plain) {
    ELQ_TRY(values, widened(name, plain.dtype, plain.shape, plain.bytes));
    weights.emplace(name, std::move(values));
  }
  for (const auto& [name, matrix] : checkpoint.matrices) {
    ELQ_CHECK(check_matrix(matrix, name));
    torch::Tensor values = torch::empty({matrix.rows, matrix.cols}, torch::kFloat32);
    const auto width = static_cast<std::size_t>(matrix.cols);
    for (std::int64_t row = 0; row < matrix.rows; ++row) {
      const std::size_t first = static_cast<std::size_t>(row) * width;
      dequantize_row(matrix, row, values_of(values).subspan(first, width));
    }
    weights.insert_or_assign(name, std::move(values));
  }
  return weights;
}

Status check_weights(const ModelConfig& config, const Weights& weights,
                     const std::string& subject) {
  const Shape table = {config.vocab, config.hidden};
  const auto optional = Expectation::Presence::kOptional;
  ELQ_CHECK(check_one(weights, {ELQ_ROLE_EMBED, table}, -1, subject));
  ELQ_CHECK(check_one(weights, {ELQ_ROLE_HEAD, table, optional}, -1, subject));
  ELQ_CHECK(check_one(weights, {ELQ_ROLE_FINAL_NORM, {config.hidden}}, -1, subject));
  const std::vector<Expectation> expected = block_tensors(config);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    for (const Expectation& one : expected) {
      ELQ_CHECK(check_one(weights, one, layer, subject));
    }
  }
  return ok_status();
}

}  // namespace elastiq
