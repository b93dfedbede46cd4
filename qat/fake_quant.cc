#include "qat/fake_quant.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "qat/fake_quant_coding.h"

namespace elastiq {

namespace {

using coding::Coded;
using coding::Grid;
using coding::Scale;
using coding::Scales;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Rows per task: enough work to pay for its start.
std::int64_t row_grain(const QuantParameters& p) {
  return std::max<std::int64_t>(1, (1 << 15) / p.cols);
}

/// New codes of n latents; returns how many changed.
std::int64_t refresh_codes(const Grid& grid, const float* latent, std::uint8_t* codes,
                           std::int64_t n) {
  std::int64_t flips = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto code = static_cast<std::uint8_t>(static_cast<int>(grid.code(latent[i])));
    flips += code != codes[i] ? 1 : 0;
    codes[i] = code;
  }
  return flips;
}

void write_group(const Scale& scale, const Grid& grid, const std::uint8_t* codes, float* out,
                 std::int64_t n) {
  const float base = scale.base;
  const float multiplier = scale.multiplier.value;
  for (std::int64_t i = 0; i < n; ++i) {
    const float level = 2.0f * static_cast<float>(codes[i]) - grid.z2;
    out[i] = base * (multiplier * level);
  }
}

void write_kept(const QuantParameters& p, float* out) {
  const float* values = p.kept_values.data_ptr<float>();
  for (std::size_t k = 0; k < p.kept_index.size(); ++k) {
    const float scale =
        coding::trained_scale(p.kept_start.data_ptr<float>()[k], p.kept_log.data_ptr<float>()[k]);
    const float* column = values + static_cast<std::int64_t>(k) * p.rows;
    for (std::int64_t row = 0; row < p.rows; ++row) {
      out[row * p.cols + p.kept_index[k]] = scale * coding::code_int8(column[row]).value;
    }
  }
}

torch::Tensor forward_pass(QuantParameters& p, std::int64_t* flips) {
  torch::Tensor out = torch::empty({p.rows, p.cols});
  const Grid grid(p.scheme);
  const Scales scales(p);
  const bool moves = p.latent.numel() > 0;
  const float* latent = p.latent.data_ptr<float>();
  std::uint8_t* codes = p.codes.data_ptr<std::uint8_t>();
  float* weights = out.data_ptr<float>();
  const std::int64_t width = p.group_columns();
  std::atomic<std::int64_t> changed = 0;
  at::parallel_for(0, p.rows, row_grain(p), [&](std::int64_t begin, std::int64_t end) {
    std::int64_t own = 0;
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t first = row * p.cols;
      if (moves) own += refresh_codes(grid, latent + first, codes + first, p.cols);
      const float row_scale = scales.row(row);
      for (std::int64_t g = 0; g < p.groups(); ++g) {
        const std::int64_t at = first + g * width;
        const std::int64_t n = std::min(width, p.cols - g * width);
        write_group(scales.group(row_scale, row, g), grid, codes + at, weights + at, n);
      }
    }
    changed += own;
  });
  write_kept(p, weights);
  *flips += changed;
  return out;
}

/// sum of a[i] * b[i] in 16 lanes: the same order for every thread count, and it vectorises.
float dot(const float* a, const float* b, std::int64_t n) {
  constexpr std::int64_t kLanes = 16;
  float lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] += a[i + l] * b[i + l];
  }
  for (; i < n; ++i) lanes[0] += a[i] * b[i];
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

void latent_gradient(float step, const LatentRange& range, const float* latent,
                     const float* gradient, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const bool inside = (latent[i] >= range.low) & (latent[i] <= range.high);
    out[i] = inside ? gradient[i] * step : 0.0f;
  }
}

/// Where the gradients go; pointers of empty tensors are null and not written.
struct GradientSinks {
  torch::Tensor row_log, group_log, kept_log, kept_values, latent;
};

/// One row of all but the kept columns. levels: scratch of cols floats.
void backward_row(const QuantParameters& p, const Scales& scales, const Grid& grid,
                  std::int64_t row, const float* gradient, float* levels, GradientSinks& sinks) {
  const std::int64_t width = p.group_columns();
  const std::uint8_t* codes = p.codes.data_ptr<std::uint8_t>() + row * p.cols;
  for (std::int64_t i = 0; i < p.cols; ++i) {
    levels[i] = 2.0f * static_cast<float>(codes[i]) - grid.z2;
  }
  for (const std::uint16_t kept : p.kept_index) levels[kept] = 0.0f;
  const float row_scale = scales.row(row);
  const LatentRange range = latent_range(p.scheme);
  float row_sum = 0;
  for (std::int64_t g = 0; g < p.groups(); ++g) {
    const std::int64_t at = g * width;
    const std::int64_t n = std::min(width, p.cols - at);
    const Scale scale = scales.group(row_scale, row, g);
    const float sum = scale.base * dot(gradient + at, levels + at, n);
    row_sum += scale.multiplier.value * sum;
    if (sinks.group_log.numel() > 0) {
      sinks.group_log.data_ptr<float>()[row * p.groups() + g] =
          coding::pass(scale.multiplier, scale.multiplier.continuous * sum);
    }
    if (sinks.latent.numel() > 0) {
      const std::int64_t first = row * p.cols + at;
      latent_gradient(scale.step(), range, p.latent.data_ptr<float>() + first, gradient + at,
                      sinks.latent.data_ptr<float>() + first, n);
    }
  }
  if (sinks.row_log.numel() > 0) sinks.row_log.data_ptr<float>()[row] = row_sum;
}

void backward_kept(const QuantParameters& p, const float* gradient, GradientSinks& sinks) {
  const float* values = p.kept_values.data_ptr<float>();
  for (std::size_t k = 0; k < p.kept_index.size(); ++k) {
    const float scale =
        coding::trained_scale(p.kept_start.data_ptr<float>()[k], p.kept_log.data_ptr<float>()[k]);
    float sum = 0;
    for (std::int64_t row = 0; row < p.rows; ++row) {
      const std::int64_t at = static_cast<std::int64_t>(k) * p.rows + row;
      const Coded value = coding::code_int8(values[at]);
      const float g = gradient[row * p.cols + p.kept_index[k]];
      sum += g * value.value;
      sinks.kept_values.data_ptr<float>()[at] =
          coding::pass(value, g * (coding::kInt8Unit * scale));
      if (sinks.latent.numel() > 0) {
        sinks.latent.data_ptr<float>()[row * p.cols + p.kept_index[k]] = 0.0f;
      }
    }
    sinks.kept_log.data_ptr<float>()[k] = sum * scale;
  }
}

GradientSinks backward_pass(const QuantParameters& p, const torch::Tensor& gradient) {
  GradientSinks sinks{torch::empty_like(p.row_log), torch::empty_like(p.group_log),
                      torch::empty_like(p.kept_log), torch::empty_like(p.kept_values),
                      torch::empty_like(p.latent)};
  const Grid grid(p.scheme);
  const Scales scales(p);
  const float* g = gradient.data_ptr<float>();
  at::parallel_for(0, p.rows, row_grain(p), [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> levels(static_cast<std::size_t>(p.cols));
    for (std::int64_t row = begin; row < end; ++row) {
      backward_row(p, scales, grid, row, g + row * p.cols, levels.data(), sinks);
    }
  });
  backward_kept(p, g, sinks);
  return sinks;
}

/// LibTorch's gradient hook. The parameters travel as a pointer: saving copies of them per step
/// would cost a pass over all weights.
struct FakeQuantFunction : torch::autograd::Function<FakeQuantFunction> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& row_log,
                               const torch::Tensor& group_log, const torch::Tensor& kept_log,
                               const torch::Tensor& kept_values, const torch::Tensor& latent,
                               QuantParameters* parameters, std::int64_t* flips) {
    (void)row_log, (void)group_log, (void)kept_log, (void)kept_values, (void)latent;
    context->saved_data["parameters"] = reinterpret_cast<std::int64_t>(parameters);
    return forward_pass(*parameters, flips);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto* parameters =
        reinterpret_cast<const QuantParameters*>(context->saved_data["parameters"].toInt());
    GradientSinks s = backward_pass(*parameters, gradients[0].contiguous());
    return {s.row_log, s.group_log, s.kept_log, s.kept_values, s.latent, {}, {}};
  }
};

}  // namespace

torch::Tensor fake_quantize(QuantParameters& p, std::int64_t* flips) {
  return FakeQuantFunction::apply(p.row_log, p.group_log, p.kept_log, p.kept_values, p.latent, &p,
                                  flips);
}

}  // namespace elastiq
