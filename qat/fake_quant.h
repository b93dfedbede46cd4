#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/quantized_matrix.h"

namespace elastiq {

/// The trained form of a QuantizedMatrix. Scales train in the log domain relative to their start,
/// so a rate is relative and no scale can become zero or negative; coding (u8, f16, int8) happens
/// in the forward pass with straight-through gradients. At the start all logs are 0 and the coded
/// values are the source's, byte for byte.
///
///   row scale    row_start * exp(row_log)                                  (kRow, kU8)
///   group scale  kU8: round(group_start * exp(group_log)) in [1, smax]     units of the row scale
///                kF16: f16(group_start * exp(group_log)) in [2^-24, 65504]
///   kept column  kept_start * exp(kept_log) * round(127 * kept_value) in [-128, 127]
///   code         round(latent) + zero in [0, codes), zero = level_grid().zero; the latent's unit
///   is
///                the quantization step, latent = weight / step - (zero - z2 / 2)
///
/// Scales that start at 0 stay 0. All rounding is to nearest, ties to even, as encode_group's.
struct QuantParameters {
  Scheme scheme;
  std::int64_t rows = 0;
  std::int64_t cols = 0;

  torch::Tensor codes;        ///< uint8 [rows, cols]; follows the latent where there is one.
  torch::Tensor row_start;    ///< [rows], or empty.
  torch::Tensor group_start;  ///< [rows, groups], or empty.
  std::vector<std::uint16_t> kept_index;
  torch::Tensor kept_start;  ///< [kept]

  // Trained: float32 leaves, empty where the scheme has none.
  torch::Tensor row_log;      ///< [rows]
  torch::Tensor group_log;    ///< [rows, groups]
  torch::Tensor kept_log;     ///< [kept]
  torch::Tensor kept_values;  ///< [kept, rows], int8 value / 127
  torch::Tensor latent;       ///< [rows, cols]; empty: codes are frozen.

  std::int64_t group_columns() const { return scheme.group == 0 ? cols : scheme.group; }

  std::int64_t groups() const { return (cols + group_columns() - 1) / group_columns(); }
};

/// Errors  as check_matrix.
Result<QuantParameters> quant_parameters(const QuantizedMatrix& matrix, const std::string& name);

/// Adds latent weights: the original weight in steps where it rounds to the matrix's code, else the
/// nearest value inside that code's bin; all at least `margin` (in steps, 0 to 0.5) away from the
/// bin's edges, so that a forward pass gives the same codes.
/// original: rows * cols.
Status add_latent(QuantParameters& parameters, std::span<const float> original, float margin,
                  const std::string& name);

/// Margin for a phase of so many steps at a rate in quantization steps. Adam moves every latent by
/// about its rate whatever the signal; without a signal that is a random walk, and codes that sit
/// on an edge would flip at random, which costs more than it brings (numerics-and-quality.md
/// section 10.4). rate * sqrt(steps) is 1.6 standard deviations of that walk under a cosine.
float latent_margin(double rate, std::int64_t steps);

/// The parameters as they are packed.
QuantizedMatrix to_quantized_matrix(const QuantParameters& parameters);

/// Range of latent values that have a gradient: half a step beyond the end levels.
struct LatentRange {
  float low = 0;
  float high = 0;
};

LatentRange latent_range(const Scheme& scheme);

/// Weights as float32 [rows, cols], the bits of dequantize(to_quantized_matrix(p)), with gradients
/// to all trained tensors that require them:
///   latent       G * step inside latent_range, 0 outside and in kept columns
///   group_log    sum over the group of G * weight, with the uncoded scale in place of the coded
///                one; 0 where the coding is clamped and descent would push further out
///   row_log      sum over the row of G * weight, kept columns left out
///   kept_values  G * 127 * kept scale; kept_log  sum over the column of G * weight
/// A latent is held in steps of its group, so a scale moves the weight with it and dQ/ds is the
/// level itself, with frozen and with trained codes. LSQ's level - w/s holds w instead; measured on
/// stories260k, seq2-g64-u8-k8, 300 steps: KL .541 with LSQ's, .493 with the level.
/// Refreshes p.codes from the latent; *flips grows by the number of codes that changed.
/// `parameters` must outlive the backward pass.
torch::Tensor fake_quantize(QuantParameters& parameters, std::int64_t* flips);

}  // namespace elastiq
