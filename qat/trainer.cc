#include "qat/trainer.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "core/rng.h"

namespace elastiq {

namespace {

constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.95;
// Gradients of single latent weights go down to 1e-8 (a mean over tokens times the step of a small
// weight): the usual 1e-8 would damp exactly those.
constexpr double kEpsilon = 1e-12;
constexpr std::int64_t kChunk = 1 << 16;
constexpr std::int64_t kLanes = 8;

double sum_of_squares(const float* values, std::int64_t n) {
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t l = 0; l < kLanes; ++l) {
      const double v = static_cast<double>(values[i + l]);
      lanes[l] += v * v;
    }
  }
  for (; i < n; ++i) lanes[0] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return std::accumulate(lanes, lanes + kLanes, 0.0);
}

/// Finite floats cannot overflow a double sum, so the result is finite exactly when all are.
double sum_of_squares(const torch::Tensor& tensor) {
  const float* values = tensor.data_ptr<float>();
  const std::int64_t n = tensor.numel();
  std::vector<double> partial(static_cast<std::size_t>((n + kChunk - 1) / kChunk));
  at::parallel_for(0, static_cast<std::int64_t>(partial.size()), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t c = begin; c < end; ++c) {
                       partial[static_cast<std::size_t>(c)] =
                           sum_of_squares(values + c * kChunk, std::min(kChunk, n - c * kChunk));
                     }
                   });
  return std::accumulate(partial.begin(), partial.end(), 0.0);
}

struct UpdateFactors {
  float gradient;  ///< Of clipping.
  float step;      ///< Rate over the first moment's bias correction.
  float root;      ///< 1 / sqrt of the second moment's bias correction.
  float keep;      ///< 1 - rate * decay.
  float low, high;
};

void update_range(const UpdateFactors& f, float* value, float* first, float* second,
                  const float* gradient, std::int64_t n) {
  constexpr float kB1 = static_cast<float>(kBeta1);
  constexpr float kB2 = static_cast<float>(kBeta2);
  constexpr float kEps = static_cast<float>(kEpsilon);
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = gradient[i] * f.gradient;
    const float m = kB1 * first[i] + (1.0f - kB1) * g;
    const float v = kB2 * second[i] + (1.0f - kB2) * (g * g);
    first[i] = m;
    second[i] = v;
    const float moved = f.keep * value[i] - f.step * m / (std::sqrt(v) * f.root + kEps);
    const float raised = moved < f.low ? f.low : moved;
    value[i] = raised > f.high ? f.high : raised;
  }
}

void update(TrainedParameter& p, const UpdateFactors& factors) {
  float* value = p.value.data_ptr<float>();
  float* first = p.first.data_ptr<float>();
  float* second = p.second.data_ptr<float>();
  const torch::Tensor gradient = p.value.grad().contiguous();
  const float* g = gradient.data_ptr<float>();
  at::parallel_for(0, p.value.numel(), kChunk, [&](std::int64_t begin, std::int64_t end) {
    update_range(factors, value + begin, first + begin, second + begin, g + begin, end - begin);
  });
}

}  // namespace

double schedule_factor(const Schedule& schedule, std::int64_t step) {
  const auto warm =
      static_cast<std::int64_t>(std::floor(schedule.warmup * static_cast<double>(schedule.steps)));
  if (step < warm) return static_cast<double>(step + 1) / static_cast<double>(warm + 1);
  const std::int64_t span = std::max<std::int64_t>(1, schedule.steps - 1 - warm);
  const double share = std::min(1.0, static_cast<double>(step - warm) / static_cast<double>(span));
  return schedule.floor + (1.0 - schedule.floor) * 0.5 * (1.0 + std::cos(std::numbers::pi * share));
}

std::vector<std::size_t> step_windows(std::uint64_t seed, std::int64_t step, std::int64_t batch,
                                      std::size_t count) {
  std::vector<std::size_t> chosen;
  std::vector<std::size_t> order(count);
  std::uint64_t shuffled_epoch = ~std::uint64_t{0};
  for (std::int64_t i = 0; i < batch; ++i) {
    const auto position = static_cast<std::uint64_t>(step * batch + i);
    const std::uint64_t epoch = position / count;
    if (epoch != shuffled_epoch) {
      std::iota(order.begin(), order.end(), std::size_t{0});
      Rng mix(seed);
      Rng rng(mix.next() + epoch);
      for (std::size_t k = count; k > 1; --k) std::swap(order[k - 1], order[rng.below(k)]);
      shuffled_epoch = epoch;
    }
    chosen.push_back(order[position % count]);
  }
  return chosen;
}

void AdamW::add(TrainedParameter parameter) {
  torch::NoGradGuard no_grad;
  parameter.first = torch::zeros_like(parameter.value.detach());
  parameter.second = torch::zeros_like(parameter.value.detach());
  parameters_.push_back(std::move(parameter));
}

Result<double> AdamW::step(double factor, double clip, std::int64_t step) {
  torch::NoGradGuard no_grad;
  double squares = 0;
  for (const TrainedParameter& p : parameters_) {
    if (!p.value.grad().defined()) continue;
    const double own = sum_of_squares(p.value.grad().contiguous());
    if (!std::isfinite(own)) {
      return Error{ErrorCode::kNonFinite, p.name,
                   fmt::format("gradient is not finite at step {}; lower the learning rate", step)};
    }
    squares += own;
  }
  const double norm = std::sqrt(squares);
  ++updates_;
  const auto t = static_cast<double>(updates_);
  for (TrainedParameter& p : parameters_) {
    if (!p.value.grad().defined()) continue;
    const double rate = p.rate * factor;
    update(p, {.gradient = static_cast<float>(norm > clip ? clip / norm : 1.0),
               .step = static_cast<float>(rate / (1.0 - std::pow(kBeta1, t))),
               .root = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(kBeta2, t))),
               .keep = static_cast<float>(1.0 - rate * p.decay),
               .low = p.low,
               .high = p.high});
    p.value.mutable_grad() = torch::Tensor();
  }
  return norm;
}

}  // namespace elastiq
