#include "qat/student.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/elq_layout.h"
#include "model/tensor_roles.h"
#include "qat/fake_quant_coding.h"

namespace elastiq {

namespace {

// A factor of e^4 either way: far beyond what training moves, and finite for every float scale.
constexpr float kLogBound = 4.0f;

std::vector<std::string> names_of(const ModelConfig& config,
                                  std::initializer_list<std::uint32_t> roles) {
  std::vector<std::string> names;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    for (const std::uint32_t role : roles) names.push_back(tensor_name(role, layer));
  }
  return names;
}

std::span<const float> values_of(const torch::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

void add_logs(AdamW& adam, const std::string& name, const torch::Tensor& logs, double rate) {
  if (logs.numel() == 0) return;
  adam.add({.name = name, .value = logs, .rate = rate, .low = -kLogBound, .high = kLogBound});
}

void add_matrix(AdamW& adam, const std::string& name, QuantParameters& p,
                const QatOptions& options) {
  add_logs(adam, name + ".row_log", p.row_log, options.scale_rate);
  add_logs(adam, name + ".group_log", p.group_log, options.scale_rate);
  add_logs(adam, name + ".kept_log", p.kept_log, options.kept_rate);
  if (p.kept_values.numel() > 0) {
    adam.add({.name = name + ".kept_values",
              .value = p.kept_values,
              .rate = options.kept_rate,
              .low = -128.0f / coding::kInt8Unit,
              .high = 1.0f});
  }
  if (p.latent.numel() > 0) {
    const LatentRange range = latent_range(p.scheme);
    adam.add({.name = name + ".latent",
              .value = p.latent,
              .rate = options.code_rate,
              .low = range.low,
              .high = range.high});
  }
}

/// |log of the scale's change| of every group, from the coded values.
void collect_drift(const QuantParameters& p, double& sum, double& largest, std::int64_t& count) {
  const coding::Scales scales(p);
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const float row_scale = scales.row(row);
    const float* row_start = p.row_start.data_ptr<float>();
    for (std::int64_t g = 0; g < p.groups(); ++g) {
      const float now = scales.group(row_scale, row, g).step();
      float start = p.row_start.numel() > 0 ? row_start[row] : 1.0f;
      if (p.group_start.numel() > 0) start *= p.group_start.data_ptr<float>()[row * p.groups() + g];
      if (now == 0.0f || start == 0.0f) continue;
      const double drift =
          std::fabs(std::log(static_cast<double>(now) / (2.0 * static_cast<double>(start))));
      sum += drift;
      largest = std::max(largest, drift);
      ++count;
    }
  }
}

}  // namespace

Result<Student> Student::make(const QuantizedCheckpoint& checkpoint, const ModelConfig& config) {
  Student student;
  ELQ_TRY(weights, load_weights(checkpoint));
  ELQ_CHECK(check_weights(config, weights, "quantized checkpoint"));
  student.weights_ = std::move(weights);
  for (const std::string& name : names_of(config, {ELQ_ROLE_Q, ELQ_ROLE_K, ELQ_ROLE_V, ELQ_ROLE_O,
                                                   ELQ_ROLE_GATE, ELQ_ROLE_UP, ELQ_ROLE_DOWN})) {
    const auto found = checkpoint.matrices.find(name);
    if (found == checkpoint.matrices.end()) continue;
    ELQ_TRY(parameters, quant_parameters(found->second, name));
    student.matrices_.emplace(name, std::move(parameters));
    student.weights_.erase(name);
  }
  if (student.matrices_.empty()) {
    return Error{ErrorCode::kInvalidArgument, "quantized checkpoint",
                 "no matrix of a block is quantized: nothing to train"};
  }
  std::vector<std::string> norms = names_of(config, {ELQ_ROLE_ATTN_NORM, ELQ_ROLE_MLP_NORM});
  norms.push_back(tensor_name(ELQ_ROLE_FINAL_NORM, -1));
  for (const std::string& name : norms) {
    const torch::Tensor start = student.weights_.at(name);
    student.norms_[name] = {start, torch::zeros_like(start).set_requires_grad(true)};
  }
  return student;
}

Status Student::add_latents(const Weights& original, float margin) {
  for (auto& [name, p] : matrices_) {
    const auto found = original.find(name);
    if (found == original.end() || found->second.numel() != p.rows * p.cols) {
      return Error{ErrorCode::kInconsistent, name,
                   "the float model has no tensor of this name and shape"};
    }
    ELQ_CHECK(add_latent(p, values_of(found->second), margin, name));
  }
  return ok_status();
}

void Student::add_parameters(AdamW& adam, const QatOptions& options) {
  for (auto& [name, p] : matrices_) add_matrix(adam, name, p, options);
  for (auto& [name, norm] : norms_) {
    adam.add({.name = name, .value = norm.change, .rate = options.norm_rate});
  }
}

const Weights& Student::begin_step() {
  flips_ = 0;
  for (auto& [name, p] : matrices_) computed_[name] = fake_quantize(p, &flips_);
  for (auto& [name, norm] : norms_) computed_[name] = norm.start * (norm.change + 1.0);
  for (auto& [name, tensor] : computed_) weights_[name] = tensor.detach().set_requires_grad(true);
  return weights_;
}

void Student::end_step() {
  for (auto& [name, tensor] : computed_) {
    torch::Tensor& leaf = weights_.at(name);
    if (leaf.grad().defined()) tensor.backward(leaf.grad());
    leaf = torch::Tensor();
    tensor = torch::Tensor();
  }
}

double Student::flip_rate() const {
  std::int64_t codes = 0;
  for (const auto& [name, p] : matrices_) {
    codes += p.rows * (p.cols - static_cast<std::int64_t>(p.kept_index.size()));
  }
  return static_cast<double>(flips_) / static_cast<double>(codes);
}

Json Student::drift(const QuantizedCheckpoint& start) const {
  double sum = 0;
  double largest = 0;
  std::int64_t count = 0;
  std::int64_t changed = 0;
  std::int64_t codes = 0;
  for (const auto& [name, p] : matrices_) {
    collect_drift(p, sum, largest, count);
    const std::vector<std::uint8_t>& before = start.matrices.at(name).codes;
    const std::vector<std::uint8_t> now = to_quantized_matrix(p).codes;
    for (std::size_t i = 0; i < now.size(); ++i) changed += now[i] != before[i] ? 1 : 0;
    codes += p.rows * (p.cols - static_cast<std::int64_t>(p.kept_index.size()));
  }
  return {{"scale_mean", count == 0 ? 0.0 : sum / static_cast<double>(count)},
          {"scale_max", largest},
          {"codes_changed", static_cast<double>(changed) / static_cast<double>(codes)}};
}

std::map<std::string, torch::Tensor> Student::codes() const {
  std::map<std::string, torch::Tensor> codes;
  for (const auto& [name, p] : matrices_) {
    if (p.latent.numel() > 0) codes[name + ".codes"] = p.codes;
  }
  return codes;
}

void Student::write_to(QuantizedCheckpoint& checkpoint) const {
  for (const auto& [name, p] : matrices_) checkpoint.matrices[name] = to_quantized_matrix(p);
  torch::NoGradGuard no_grad;
  for (const auto& [name, norm] : norms_) {
    const torch::Tensor gain = norm.start * (norm.change + 1.0);
    QuantizedCheckpoint::Plain& plain = checkpoint.plain[name];
    plain.dtype = DType::kF32;
    plain.shape = {static_cast<std::uint64_t>(gain.numel())};
    plain.bytes.resize(sizeof(float) * static_cast<std::size_t>(gain.numel()));
    std::memcpy(plain.bytes.data(), gain.data_ptr<float>(), plain.bytes.size());
  }
}

}  // namespace elastiq
