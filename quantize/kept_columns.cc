#include "quantize/kept_columns.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "quantize/scale_search.h"

namespace elastiq {
namespace {

constexpr int kScaleCandidates = 32;
constexpr double kLowestScale = 0.4;
constexpr double kLargestValue = 127.0;
constexpr std::int64_t kMostColumns = 65536;

double kept_code(double weight, double scale) {
  return std::clamp(std::nearbyint(weight / scale), -kLargestValue, kLargestValue);
}

double column_error(std::span<const double> column, float scale) {
  const auto s = static_cast<double>(scale);
  double sum = 0.0;
  for (const double w : column) {
    const double error = w - s * kept_code(w, s);
    sum += error * error;
  }
  return sum;
}

}  // namespace

int kept_limit(const Scheme& scheme, std::int64_t cols) {
  if (cols > kMostColumns) return 0;
  return static_cast<int>(std::min<std::int64_t>(scheme.kept_columns, cols / 4));
}

std::vector<std::uint16_t> choose_kept_columns(std::span<const double> column_error,
                                               std::span<const float> importance, int wanted) {
  std::vector<double> score(column_error.begin(), column_error.end());
  for (std::size_t j = 0; j < importance.size(); ++j) {
    score[j] *= static_cast<double>(importance[j]);
  }
  std::vector<std::uint16_t> order(score.size());
  std::iota(order.begin(), order.end(), std::uint16_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&score](std::uint16_t a, std::uint16_t b) { return score[a] > score[b]; });
  order.resize(std::min(order.size(), static_cast<std::size_t>(std::max(wanted, 0))));
  std::erase_if(order, [&score](std::uint16_t column) { return !(score[column] > 0.0); });
  std::sort(order.begin(), order.end());
  return order;
}

float quantize_kept_column(std::span<const double> column, std::span<std::int8_t> values) {
  double largest = 0.0;
  for (const double w : column) largest = std::max(largest, std::fabs(w));
  float best = kSmallestRowScale;
  double best_error = HUGE_VAL;
  for (int i = 0; i < kScaleCandidates && largest > 0.0; ++i) {
    const double part = 1.0 - (1.0 - kLowestScale) * i / (kScaleCandidates - 1);
    const float scale =
        std::max(static_cast<float>(largest / kLargestValue * part), kSmallestRowScale);
    const double error = column_error(column, scale);
    if (error >= best_error) continue;
    best = scale;
    best_error = error;
  }
  for (std::size_t i = 0; i < column.size(); ++i) {
    values[i] = static_cast<std::int8_t>(kept_code(column[i], static_cast<double>(best)));
  }
  return best;
}

}  // namespace elastiq
