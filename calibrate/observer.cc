#include "calibrate/observer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace elastiq {
namespace {

// The product is symmetric: strips of rows start at their own diagonal. 256 keeps the strips wide
// enough for the matrix product and computes 58 % of a 1536 x 1536 moment.
constexpr std::int64_t kStrip = 256;

std::vector<float> to_floats(const torch::Tensor& values) {
  const torch::Tensor narrow = values.to(torch::kFloat32).contiguous();
  const float* data = narrow.data_ptr<float>();
  return {data, data + narrow.numel()};
}

}  // namespace

void Observer::observe(const std::string& key, const torch::Tensor& x) {
  const torch::NoGradGuard no_gradient;
  const std::int64_t columns = x.size(1);
  Sums& sums = sums_[key];
  if (!sums.upper.defined()) sums.upper = torch::zeros({columns, columns}, torch::kFloat64);
  sums.tokens += static_cast<std::uint64_t>(x.size(0));
  for (std::int64_t first = 0; first < columns; first += kStrip) {
    const std::int64_t last = std::min(first + kStrip, columns);
    const torch::Tensor strip = torch::mm(x.slice(1, first, last).t(), x.slice(1, first));
    sums.upper.slice(0, first, last).slice(1, first).add_(strip);
  }
}

Result<std::map<std::string, InputStats>> Observer::finish(const std::vector<std::string>& keys,
                                                           std::uint64_t tokens) {
  const torch::NoGradGuard no_gradient;
  std::map<std::string, InputStats> inputs;
  for (const std::string& key : keys) {
    auto node = sums_.extract(key);
    const std::uint64_t seen = node.empty() ? 0 : node.mapped().tokens;
    if (seen != tokens || tokens == 0) {
      return Error{ErrorCode::kInternal, key,
                   fmt::format("saw {} tokens, the data has {}", seen, tokens), 0};
    }
    const torch::Tensor upper = node.mapped().upper.triu_().div_(static_cast<double>(tokens));
    if (!torch::isfinite(upper).all().item<bool>()) {
      return Error{ErrorCode::kNonFinite, key, "the input of these layers has NaN or infinity", 0};
    }
    InputStats stats;
    stats.columns = upper.size(0);
    stats.tokens = seen;
    stats.importance = to_floats(upper.diagonal());
    stats.second_moment = to_floats(upper + upper.triu(1).t());
    inputs.emplace(key, std::move(stats));
  }
  if (sums_.empty()) return inputs;
  return Error{ErrorCode::kInternal, sums_.begin()->first, "an input that no matrix reads", 0};
}

}  // namespace elastiq
