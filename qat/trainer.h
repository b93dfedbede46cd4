#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/error.h"

namespace elastiq {

/// Linear warm-up, then cosine from 1 down to `floor` at the last step.
struct Schedule {
  std::int64_t steps = 0;
  double warmup = 0.03;  ///< Share of steps.
  double floor = 0.05;
};

/// Factor of the learning rates at a step in [0, steps); in (0, 1].
double schedule_factor(const Schedule& schedule, std::int64_t step);

/// The windows of one step: a pure function of its arguments. Every epoch visits each of the
/// `count` windows once, in an order of its own; a step may span two epochs.
std::vector<std::size_t> step_windows(std::uint64_t seed, std::int64_t step, std::int64_t batch,
                                      std::size_t count);

/// A trained tensor: a float32 contiguous leaf with its own rate, and its Adam moments.
struct TrainedParameter {
  std::string name;
  torch::Tensor value;
  double rate = 0;
  double decay = 0;  ///< Decoupled, times the current rate.
  /// The value is clamped into [low, high] after each update.
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
  torch::Tensor first{};   ///< Made by AdamW::add.
  torch::Tensor second{};  ///< Made by AdamW::add.
};

/// AdamW (Loshchilov and Hutter, arXiv 1711.05101), betas .9 and .95, with one rate per parameter,
/// global gradient clipping and a stop at the first non-finite gradient. Sums are taken over fixed
/// chunks, so results do not depend on the thread count.
class AdamW {
 public:
  void add(TrainedParameter parameter);

  /// Updates all parameters that have a gradient and drops the gradients; rates are multiplied by
  /// `factor`. Returns the gradient norm before clipping. `step` is for the error only.
  /// Errors  kNonFinite: a gradient is NaN or infinite (names parameter and step); nothing has
  /// been updated.
  Result<double> step(double factor, double clip, std::int64_t step);

  const std::vector<TrainedParameter>& parameters() const { return parameters_; }

  /// Updates so far: the t of the bias correction. Set on resume.
  std::int64_t updates() const { return updates_; }

  void set_updates(std::int64_t updates) { updates_ = updates; }

 private:
  std::vector<TrainedParameter> parameters_;
  std::int64_t updates_ = 0;
};

}  // namespace elastiq
