#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace elastiq {

/// How the next token is chosen. Applied in this order: repetition penalty, temperature, top-k,
/// top-p.
struct SamplingOptions {
  double temperature = 0;         ///< 0: greedy, the most likely token; else at least 0.
  int top_k = 40;                 ///< Draw from so many of the most likely; 0: all.
  double top_p = 1;               ///< Of these the fewest that have this share of mass; (0, 1].
  double repetition_penalty = 1;  ///< 1: none. Above: tokens seen lately become less likely.
  int repetition_window = 64;     ///< How many of the last tokens count as lately; 0: all.
};

/// Divides the positive logits of the given tokens by the penalty and multiplies the negative ones,
/// each token once however often it stands there. Source: Keskar et al., CTRL, arXiv 1909.05858,
/// section 4.1 (with the sign rule of later implementations).
void penalize_repetition(std::span<float> logits, std::span<const std::uint32_t> recent,
                         double penalty);

/// Index of the next token: the largest logit (the first of equals) at temperature 0, else drawn.
/// top_p: the nucleus of Holtzman et al., arXiv 1904.09751. uniform in [0, 1).
std::uint32_t pick_token(std::span<const float> logits, const SamplingOptions& options,
                         double uniform);

/// Where generated text ends and what of it may be shown already.
struct StopCheck {
  std::size_t shown = 0;  ///< Bytes that no stop word can take back.
  bool stopped = false;   ///< A stop word begins at `shown`.
};

/// The first place where one of the words stands in the text; without one, everything but a tail
/// that a longer text could complete to a word. Empty words are ignored.
StopCheck check_stop_words(const std::string& text, const std::vector<std::string>& words);

}  // namespace elastiq
