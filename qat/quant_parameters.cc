#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/float_bits.h"
#include "qat/fake_quant.h"
#include "qat/fake_quant_coding.h"

namespace elastiq {

namespace {

torch::Tensor leaf(torch::IntArrayRef shape) {
  return torch::zeros(shape).set_requires_grad(true);
}

torch::Tensor from_floats(const std::vector<float>& values, torch::IntArrayRef shape) {
  torch::Tensor tensor = torch::empty(shape);
  std::copy(values.begin(), values.end(), tensor.data_ptr<float>());
  return tensor;
}

std::vector<float> group_starts(const QuantizedMatrix& m) {
  std::vector<float> starts(m.u8_scales.begin(), m.u8_scales.end());
  for (const std::uint16_t half : m.f16_scales) starts.push_back(f16_to_f32(half));
  return starts;
}

void set_scales(QuantParameters& p, const QuantizedMatrix& m) {
  const std::vector<float> starts = group_starts(m);
  const std::int64_t per_row = starts.empty() ? 0 : m.groups();
  const auto row_scales = static_cast<std::int64_t>(m.row_scales.size());
  p.row_start = from_floats(m.row_scales, {row_scales});
  p.row_log = leaf({row_scales});
  p.group_start = from_floats(starts, {m.rows, per_row});
  p.group_log = leaf({m.rows, per_row});
}

void set_kept(QuantParameters& p, const QuantizedMatrix& m) {
  const auto kept = static_cast<std::int64_t>(m.kept_index.size());
  p.kept_index = m.kept_index;
  p.kept_start = from_floats(m.kept_scales, {kept});
  p.kept_log = leaf({kept});
  p.kept_values = torch::empty({kept, m.rows});
  std::transform(m.kept_values.begin(), m.kept_values.end(), p.kept_values.data_ptr<float>(),
                 [](std::int8_t v) { return static_cast<float>(v) / coding::kInt8Unit; });
  p.kept_values.set_requires_grad(true);
}

void write_group_scales(const QuantParameters& p, QuantizedMatrix& m) {
  const coding::Scales scales(p);
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const float row_scale = scales.row(row);
    if (p.scheme.scale != ScaleMode::kF16) m.row_scales.push_back(row_scale);
    for (std::int64_t g = 0; g < p.groups(); ++g) {
      const float value = scales.group(row_scale, row, g).multiplier.value;
      if (p.scheme.scale == ScaleMode::kU8) m.u8_scales.push_back(static_cast<std::uint8_t>(value));
      if (p.scheme.scale == ScaleMode::kF16) m.f16_scales.push_back(f32_to_f16(value));
    }
  }
}

void write_kept(const QuantParameters& p, QuantizedMatrix& m) {
  m.kept_index = p.kept_index;
  for (std::int64_t k = 0; k < p.kept_start.numel(); ++k) {
    m.kept_scales.push_back(
        coding::trained_scale(p.kept_start.data_ptr<float>()[k], p.kept_log.data_ptr<float>()[k]));
  }
  for (std::int64_t i = 0; i < p.kept_values.numel(); ++i) {
    m.kept_values.push_back(
        static_cast<std::int8_t>(coding::code_int8(p.kept_values.data_ptr<float>()[i]).value));
  }
}

}  // namespace

Result<QuantParameters> quant_parameters(const QuantizedMatrix& matrix, const std::string& name) {
  ELQ_CHECK(check_matrix(matrix, name));
  QuantParameters p;
  p.scheme = matrix.scheme;
  p.rows = matrix.rows;
  p.cols = matrix.cols;
  p.codes = torch::empty({matrix.rows, matrix.cols}, torch::kUInt8);
  std::copy(matrix.codes.begin(), matrix.codes.end(), p.codes.data_ptr<std::uint8_t>());
  set_scales(p, matrix);
  set_kept(p, matrix);
  p.latent = torch::empty({0, 0});
  return p;
}

LatentRange latent_range(const Scheme& scheme) {
  const coding::Grid grid(scheme);
  return {-grid.zero - 0.5f, grid.last - grid.zero + 0.5f};
}

float latent_margin(double rate, std::int64_t steps) {
  constexpr double kMost = 0.25;
  return static_cast<float>(std::min(kMost, rate * std::sqrt(static_cast<double>(steps))));
}

Status add_latent(QuantParameters& p, std::span<const float> original, float margin,
                  const std::string& name) {
  if (!(margin >= 0.0f && margin <= 0.5f) ||
      original.size() != static_cast<std::size_t>(p.rows * p.cols)) {
    return Error{ErrorCode::kInvalidArgument, name,
                 fmt::format("margin {} and {} weights; allowed 0 to 0.5 and {}", margin,
                             original.size(), p.rows * p.cols)};
  }
  // On the edge itself a tie may round to the neighbour.
  constexpr float kOffTheEdge = 0x1p-10f;
  const float reach = 0.5f - std::max(margin, kOffTheEdge);
  const auto bad =
      std::find_if_not(original.begin(), original.end(), [](float w) { return std::isfinite(w); });
  if (bad != original.end()) {
    return Error{ErrorCode::kNonFinite, name,
                 fmt::format("weight {} is {}", bad - original.begin(), *bad)};
  }
  torch::NoGradGuard no_grad;
  p.latent = torch::empty({p.rows, p.cols});
  const coding::Grid grid(p.scheme);
  const coding::Scales scales(p);
  const float shift = grid.zero - grid.z2 / 2;
  const std::int64_t width = p.group_columns();
  float* latent = p.latent.data_ptr<float>();
  const std::uint8_t* codes = p.codes.data_ptr<std::uint8_t>();
  at::parallel_for(0, p.rows, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * p.cols; i < end * p.cols; ++i) {
      const std::int64_t row = i / p.cols;
      const float step = scales.group(scales.row(row), row, i % p.cols / width).step();
      const float index = static_cast<float>(codes[i]) - grid.zero;
      const float weight =
          step == 0.0f ? index : original[static_cast<std::size_t>(i)] / step - shift;
      latent[i] = std::clamp(weight, index - reach, index + reach);
    }
  });
  // Codes of kept columns are 0 and stay so: they have no gradient.
  p.latent.set_requires_grad(true);
  return ok_status();
}

QuantizedMatrix to_quantized_matrix(const QuantParameters& p) {
  QuantizedMatrix m;
  m.scheme = p.scheme;
  m.rows = p.rows;
  m.cols = p.cols;
  const coding::Grid grid(p.scheme);
  m.codes.assign(p.codes.data_ptr<std::uint8_t>(),
                 p.codes.data_ptr<std::uint8_t>() + p.rows * p.cols);
  const float* latent = p.latent.data_ptr<float>();
  for (std::int64_t i = 0; i < p.latent.numel(); ++i) {
    m.codes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(grid.code(latent[i]));
  }
  write_group_scales(p, m);
  write_kept(p, m);
  return m;
}

}  // namespace elastiq
