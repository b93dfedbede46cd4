#include "quantize/run_tensor.h"

#include <numeric>

#include "core/float_bits.h"
#include "quantize/rtn.h"

namespace elastiq {
namespace {

double ratio(double part, double whole) {
  return whole > 0.0 ? part / whole : 0.0;
}

MatrixInput matrix_input(const PlanEntry& entry, std::span<const float> weights,
                         std::span<const float> importance) {
  return {entry.tensor.name, weights, entry.tensor.rows, entry.tensor.cols, importance};
}

/// The entry's plan line with the bytes of the kept columns that were really chosen.
Json plan_line(const PlanEntry& entry, const RtnResult& result) {
  PlanEntry exact = entry;
  const auto kept = static_cast<std::int64_t>(result.matrix.kept_index.size());
  const MatrixBytes bytes = packed_bytes(*entry.scheme, entry.tensor.rows, entry.tensor.cols, kept);
  exact.bytes = bytes.codes + bytes.scales + bytes.kept;
  Json line = plan_json({exact})[0];
  line["layer"] = entry.tensor.layer;
  line["kept"] = kept;
  return line;
}

void add_figures(const RtnResult& result, Json& line) {
  const Distortion& d = result.distortion;
  line["relative_error"] = ratio(d.error, d.energy);
  line["relative_weighted_error"] = ratio(d.weighted_error, d.weighted_energy);
  line["largest_error"] = d.largest_error;
  line["zero_groups"] = result.zero_groups;
  line["equal_importance_groups"] = result.equal_groups;
}

}  // namespace

Result<std::vector<float>> float_weights(const TensorView& view) {
  std::vector<float> weights(static_cast<std::size_t>(view.elements()));
  ELQ_CHECK(widen_to_f32(view.dtype, view.bytes, weights));
  return weights;
}

Result<QuantizedTensor> quantize_tensor_rtn(const PlanEntry& entry, std::span<const float> weights,
                                            std::span<const float> importance, ThreadPool& pool) {
  ELQ_TRY(rtn, quantize_rtn(matrix_input(entry, weights, importance), *entry.scheme, pool));
  QuantizedTensor result;
  result.figures = plan_line(entry, rtn);
  result.figures["method"] = "rtn";
  add_figures(rtn, result.figures);
  result.matrix = std::move(rtn.matrix);
  return result;
}

Result<QuantizedTensor> quantize_tensor_gptq(const PlanEntry& entry, std::span<const float> weights,
                                             const TensorMoments& moments,
                                             const GptqOptions& options, ThreadPool& pool) {
  const GptqInput input{matrix_input(entry, weights, {}), moments.second_moment, moments.drift};
  ELQ_TRY(gptq, quantize_gptq(input, *entry.scheme, options, pool));
  QuantizedTensor result;
  result.figures = plan_line(entry, gptq.quantized);
  result.figures["method"] = "gptq";
  result.figures["path"] = path_name(gptq.path);
  result.figures["damping"] = gptq.damping;
  result.figures["relative_loss"] = ratio(gptq.loss, gptq.energy);
  result.figures["relative_rtn_loss"] = ratio(gptq.rtn_loss, gptq.energy);
  result.figures["dead_columns"] = gptq.dead_columns;
  add_figures(gptq.quantized, result.figures);
  result.matrix = std::move(gptq.quantized.matrix);
  return result;
}

std::vector<double> tied_second_moment(std::span<const float> head, std::int64_t cols) {
  std::vector<double> result(head.begin(), head.end());
  const auto n = static_cast<std::size_t>(cols);
  double sum = 0.0;
  for (std::size_t j = 0; j < n; ++j) sum += result[j * (n + 1)];
  const double lookup = kLookupShare * sum / static_cast<double>(n);
  for (std::size_t j = 0; j < n; ++j) result[j * (n + 1)] += lookup;
  return result;
}

std::vector<float> tied_importance(std::span<const float> head) {
  const double sum = std::accumulate(head.begin(), head.end(), 0.0);
  const double lookup = kLookupShare * sum / static_cast<double>(head.size());
  std::vector<float> result;
  for (const float value : head) {
    result.push_back(static_cast<float>(static_cast<double>(value) + lookup));
  }
  return result;
}

}  // namespace elastiq
