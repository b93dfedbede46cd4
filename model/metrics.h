#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/error.h"

namespace elastiq {

/// Per-token comparison of two logit rows; natural logarithms, double sums.
struct TokenScore {
  double nll_float = 0;  ///< -log p_float(next)
  double nll_model = 0;
  double kl = 0;  ///< KL(float || model)
  bool same_top = false;
};

/// Shapes  both rows: vocab. Errors kNonFinite: a logit that is NaN or infinite (never averaged
/// away).
Result<TokenScore> score_token(std::span<const float> float_logits,
                               std::span<const float> model_logits, std::uint32_t next);

/// A figure with its standard error.
struct Figure {
  double value = 0;
  double se = 0;
};

/// Aggregates as the report has them. Standard errors: perplexity by the delta method, kl_mean,
/// top1 from the per-token variance (as llama-perplexity); kl_median and kl_p99 from a bootstrap
/// over contexts with a fixed seed.
struct MetricSummary {
  Figure perplexity, perplexity_float, perplexity_ratio, kl_mean, kl_median, kl_p99, top1;
  std::uint64_t tokens = 0;
  std::uint64_t contexts = 0;
  std::vector<double> kl_per_context;  ///< For paired comparisons.
};

/// scores: one vector per context, equal meaning; at least one token.
Result<MetricSummary> summarize(const std::vector<std::vector<TokenScore>>& scores);

/// Paired difference of mean KL (a - b) over the same tokens: mean, standard error, and the 95 %
/// bootstrap interval over contexts; "distinguishable" when the interval excludes 0.
struct PairedDifference {
  Figure kl_mean;
  double low = 0;
  double high = 0;
  bool distinguishable = false;
};

Result<PairedDifference> paired_difference(const std::vector<double>& kl_per_context_a,
                                           const std::vector<double>& kl_per_context_b);

}  // namespace elastiq
