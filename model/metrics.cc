#include "model/metrics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "core/rng.h"

namespace elastiq {
namespace {

constexpr std::size_t kBlock = 256;
constexpr std::size_t kLanes = 8;
constexpr int kResamples = 1000;
constexpr std::uint64_t kBootstrapSeed = 1;

// exp of it, 1e-304, vanishes beside the maximum's exp(0) = 1.
constexpr double kNothing = -700.0;

// ---------------------------------------------------------------- one token

// exp(x) for x <= 0 within 3e-16 relative, for x >= kNothing. The library's
// exp is a call per element; this one is straight-line code that the compiler turns into vector
// code.
inline double exp_of_negative(double x) {
  constexpr double kRound = 0x1.8p52;  // Adding it leaves the nearest integer in the low bits.
  constexpr double kLn2High = 0x1.62e42fefa3800p-1;
  constexpr double kLn2Low = 0x1.ef35793c76730p-45;
  const double shifted = x * 1.4426950408889634 + kRound;
  const double n = shifted - kRound;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  // Taylor; |r| <= ln 2 / 2, the first term left out is 0.347^14 / 14! = 4e-18.
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  const auto exponent = std::bit_cast<std::uint64_t>(shifted) << 52;
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(p) + exponent);
}

struct RowScan {
  float max = 0;
  std::size_t top = 0;  ///< First position of the maximum.
};

std::size_t first_non_finite(std::span<const float> row) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (!std::isfinite(row[i])) return i;
  }
  return row.size();
}

Result<RowScan> scan_row(std::span<const float> row, const char* which) {
  std::array<float, kLanes> best;
  best.fill(-std::numeric_limits<float>::infinity());
  std::uint32_t bad = 0;
  const std::size_t whole = row.size() / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) {
      const float value = row[i + j];
      best[j] = value > best[j] ? value : best[j];
      bad |= (std::bit_cast<std::uint32_t>(value) & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
    }
  }
  RowScan scan;
  scan.max = *std::max_element(best.begin(), best.end());
  for (std::size_t i = whole; i < row.size(); ++i) {
    bad |= std::isfinite(row[i]) ? 0u : 1u;
    scan.max = std::max(scan.max, row[i]);
  }
  if (bad != 0) {
    return Error{ErrorCode::kNonFinite, std::string("logits of the ") + which + " model",
                 "logit " + std::to_string(first_non_finite(row)) + " of " +
                     std::to_string(row.size()) + " is NaN or infinite",
                 0};
  }
  scan.top = static_cast<std::size_t>(std::find(row.begin(), row.end(), scan.max) - row.begin());
  return scan;
}

struct Sums {
  double z_float = 0;  ///< sum of exp(f - max f)
  double z_model = 0;
  double cross = 0;  ///< sum of exp(f - max f) * ((f - max f) - (m - max m))
};

// Clamped here and not in exp_of_negative: a branch there keeps the compiler from vector code.
inline double below(float value, double top) {
  const double x = static_cast<double>(value) - top;
  return x > kNothing ? x : kNothing;
}

using Lanes = std::array<double, kLanes>;

double total(const Lanes& lanes) {
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
         ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

// Eight partial sums in a fixed order: the same bits whatever the vector width.
Sums row_sums(std::span<const float> f, std::span<const float> m, float max_f, float max_m) {
  Lanes z_float{};
  Lanes z_model{};
  Lanes cross{};
  std::array<double, kBlock> a;
  std::array<double, kBlock> b;
  std::array<double, kBlock> d;
  const double top_f = static_cast<double>(max_f);
  const double top_m = static_cast<double>(max_m);
  for (std::size_t at = 0; at < f.size(); at += kBlock) {
    const std::size_t n = std::min(kBlock, f.size() - at);
    // The unused tail of the last block is as good as exp(-infinity) in both rows.
    if (n < kBlock) a.fill(kNothing);
    if (n < kBlock) b.fill(kNothing);
    for (std::size_t i = 0; i < n; ++i) a[i] = below(f[at + i], top_f);
    for (std::size_t i = 0; i < n; ++i) b[i] = below(m[at + i], top_m);
    for (std::size_t i = 0; i < kBlock; ++i) d[i] = a[i] - b[i];
    for (std::size_t i = 0; i < kBlock; ++i) a[i] = exp_of_negative(a[i]);
    for (std::size_t i = 0; i < kBlock; ++i) b[i] = exp_of_negative(b[i]);
    for (std::size_t i = 0; i < kBlock; i += kLanes) {
      for (std::size_t j = 0; j < kLanes; ++j) {
        z_float[j] += a[i + j];
        z_model[j] += b[i + j];
        cross[j] += a[i + j] * d[i + j];
      }
    }
  }
  return Sums{total(z_float), total(z_model), total(cross)};
}

// ---------------------------------------------------------------- many tokens

struct Moments {
  double mean = 0;
  double se = 0;  ///< Of the mean; 0 with one value.
};

template <class Value>
Moments moments(const std::vector<TokenScore>& scores, Value value) {
  const auto n = static_cast<double>(scores.size());
  double sum = 0;
  for (const TokenScore& score : scores) sum += value(score);
  Moments result;
  result.mean = sum / n;
  double squares = 0;
  for (const TokenScore& score : scores) {
    const double d = value(score) - result.mean;
    squares += d * d;
  }
  if (n > 1) result.se = std::sqrt(squares / n / (n - 1));
  return result;
}

// exp of a mean, its error by the delta method.
Figure exp_figure(const Moments& m) {
  const double value = std::exp(m.mean);
  return Figure{value, value * m.se};
}

/// KL values in ascending order with the context each came from.
struct SortedKl {
  std::vector<std::pair<double, std::uint32_t>> values;
  std::vector<std::uint64_t> tokens_of;  ///< Per context.
};

// Quantile q of a resample that holds context c weights[c] times; linear between order statistics,
// as llama-perplexity does it.
double weighted_quantile(const SortedKl& sorted, const std::vector<std::uint32_t>& weights,
                         double q) {
  std::uint64_t n = 0;
  for (std::size_t c = 0; c < weights.size(); ++c) n += weights[c] * sorted.tokens_of[c];
  const double position = q * static_cast<double>(n - 1);
  const auto lower = static_cast<std::uint64_t>(position);
  const double part = position - static_cast<double>(lower);
  std::uint64_t passed = 0;
  double at_lower = 0;
  bool have_lower = false;
  for (const auto& [value, context] : sorted.values) {
    passed += weights[context];
    if (!have_lower && passed > lower) {
      at_lower = value;
      have_lower = true;
    }
    if (passed > lower + 1 || (have_lower && part == 0)) {
      return at_lower + part * (value - at_lower);
    }
  }
  return at_lower;
}

std::vector<std::uint32_t> resample(Rng& rng, std::size_t n) {
  std::vector<std::uint32_t> weights(n, 0);
  for (std::size_t i = 0; i < n; ++i) ++weights[static_cast<std::size_t>(rng.below(n))];
  return weights;
}

double standard_deviation(const std::vector<double>& values) {
  double mean = 0;
  for (const double value : values) mean += value;
  mean /= static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

void quantile_figures(const SortedKl& sorted, MetricSummary& summary) {
  const std::size_t contexts = sorted.tokens_of.size();
  const std::vector<std::uint32_t> once(contexts, 1);
  summary.kl_median.value = weighted_quantile(sorted, once, 0.5);
  summary.kl_p99.value = weighted_quantile(sorted, once, 0.99);
  Rng rng(kBootstrapSeed);
  std::vector<double> medians;
  std::vector<double> p99s;
  for (int i = 0; i < kResamples; ++i) {
    const auto weights = resample(rng, contexts);
    medians.push_back(weighted_quantile(sorted, weights, 0.5));
    p99s.push_back(weighted_quantile(sorted, weights, 0.99));
  }
  summary.kl_median.se = standard_deviation(medians);
  summary.kl_p99.se = standard_deviation(p99s);
}

// Resampling one context would show no spread at all: its tokens are resampled instead.
SortedKl sort_kl(const std::vector<std::vector<TokenScore>>& scores, std::uint64_t contexts) {
  SortedKl sorted;
  std::uint32_t unit = 0;
  for (const auto& context : scores) {
    if (context.empty()) continue;
    if (contexts > 1) sorted.tokens_of.push_back(context.size());
    for (const TokenScore& score : context) {
      sorted.values.emplace_back(score.kl, unit);
      if (contexts > 1) continue;
      sorted.tokens_of.push_back(1);
      ++unit;
    }
    if (contexts > 1) ++unit;
  }
  std::sort(sorted.values.begin(), sorted.values.end());
  return sorted;
}

}  // namespace

Result<TokenScore> score_token(std::span<const float> float_logits,
                               std::span<const float> model_logits, std::uint32_t next) {
  if (float_logits.size() != model_logits.size() || next >= float_logits.size()) {
    return Error{ErrorCode::kInvalidArgument, "logits",
                 "rows of " + std::to_string(float_logits.size()) + " and " +
                     std::to_string(model_logits.size()) + " for token " + std::to_string(next),
                 0};
  }
  ELQ_TRY(scan_f, scan_row(float_logits, "float"));
  ELQ_TRY(scan_m, scan_row(model_logits, "compared"));
  const Sums sums = row_sums(float_logits, model_logits, scan_f.max, scan_m.max);
  const double log_f = std::log(sums.z_float);
  const double log_m = std::log(sums.z_model);
  const auto below_top = [next](std::span<const float> row, const RowScan& scan) {
    return static_cast<double>(scan.max) - static_cast<double>(row[next]);
  };
  TokenScore score;
  score.nll_float = log_f + below_top(float_logits, scan_f);
  score.nll_model = log_m + below_top(model_logits, scan_m);
  // Rounding may leave -1e-17 for two equal distributions; KL is never negative.
  score.kl = std::max(0.0, sums.cross / sums.z_float - log_f + log_m);
  score.same_top = scan_f.top == scan_m.top;
  return score;
}

Result<MetricSummary> summarize(const std::vector<std::vector<TokenScore>>& scores) {
  std::vector<TokenScore> all;
  MetricSummary summary;
  for (const auto& context : scores) {
    if (context.empty()) continue;
    double sum = 0;
    for (const TokenScore& score : context) sum += score.kl;
    summary.kl_per_context.push_back(sum / static_cast<double>(context.size()));
    all.insert(all.end(), context.begin(), context.end());
    ++summary.contexts;
  }
  if (all.empty()) {
    return Error{ErrorCode::kTooLittleData, "scores",
                 std::to_string(scores.size()) + " contexts with 0 scored tokens, need 1", 0};
  }
  summary.tokens = all.size();
  const Moments kl = moments(all, [](const TokenScore& s) { return s.kl; });
  const Moments top = moments(all, [](const TokenScore& s) { return s.same_top ? 1.0 : 0.0; });
  summary.perplexity = exp_figure(moments(all, [](const TokenScore& s) { return s.nll_model; }));
  summary.perplexity_float =
      exp_figure(moments(all, [](const TokenScore& s) { return s.nll_float; }));
  // Of the paired differences: the two perplexities share the difficulty of the text.
  summary.perplexity_ratio =
      exp_figure(moments(all, [](const TokenScore& s) { return s.nll_model - s.nll_float; }));
  summary.kl_mean = Figure{kl.mean, kl.se};
  summary.top1 = Figure{top.mean, top.se};
  quantile_figures(sort_kl(scores, summary.contexts), summary);
  return summary;
}

Result<PairedDifference> paired_difference(const std::vector<double>& kl_per_context_a,
                                           const std::vector<double>& kl_per_context_b) {
  const std::size_t n = kl_per_context_a.size();
  if (n != kl_per_context_b.size() || n < 2) {
    return Error{n < 2 ? ErrorCode::kTooLittleData : ErrorCode::kInvalidArgument,
                 "paired comparison",
                 "have " + std::to_string(n) + " and " + std::to_string(kl_per_context_b.size()) +
                     " contexts, need the same number, at least 2",
                 0};
  }
  std::vector<double> differences(n);
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    differences[i] = kl_per_context_a[i] - kl_per_context_b[i];
    sum += differences[i];
  }
  const auto count = static_cast<double>(n);
  PairedDifference result;
  result.kl_mean = Figure{sum / count, standard_deviation(differences) / std::sqrt(count)};
  Rng rng(kBootstrapSeed);
  std::vector<double> means(10000);
  for (double& mean : means) {
    for (std::size_t i = 0; i < n; ++i) mean += differences[static_cast<std::size_t>(rng.below(n))];
    mean /= count;
  }
  std::sort(means.begin(), means.end());
  result.low = means[249];    // 2.5 % of 10000 lie below
  result.high = means[9750];  // and above
  result.distinguishable = result.low > 0 || result.high < 0;
  return result;
}

}  // namespace elastiq
