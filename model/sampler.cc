#include "model/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace elastiq {
namespace {

/// The k most likely tokens, most likely first, equals by index.
std::vector<std::uint32_t> most_likely(std::span<const float> logits, int top_k) {
  std::vector<std::uint32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0u);
  const std::size_t kept =
      top_k == 0 ? order.size() : std::min(order.size(), static_cast<std::size_t>(top_k));
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    [&logits](std::uint32_t a, std::uint32_t b) {
                      return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
                    });
  order.resize(kept);
  return order;
}

/// Longest end of the text that begins the word without being all of it.
std::size_t open_end(const std::string& text, const std::string& word) {
  for (std::size_t n = std::min(text.size(), word.size() - 1); n > 0; --n) {
    if (text.compare(text.size() - n, n, word, 0, n) == 0) return n;
  }
  return 0;
}

}  // namespace

void penalize_repetition(std::span<float> logits, std::span<const std::uint32_t> recent,
                         double penalty) {
  if (penalty == 1.0) return;
  const auto factor = static_cast<float>(penalty);
  for (const std::uint32_t token : std::set<std::uint32_t>(recent.begin(), recent.end())) {
    logits[token] = logits[token] > 0 ? logits[token] / factor : logits[token] * factor;
  }
}

std::uint32_t pick_token(std::span<const float> logits, const SamplingOptions& options,
                         double uniform) {
  if (options.temperature <= 0) {
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    return static_cast<std::uint32_t>(best);
  }
  const std::vector<std::uint32_t> order = most_likely(logits, options.top_k);
  std::vector<double> mass(order.size());  // of the tokens up to and with this one
  double sum = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double below = static_cast<double>(logits[order[i]] - logits[order[0]]);
    sum += std::exp(below / options.temperature);
    mass[i] = sum;
  }
  const auto nucleus = std::lower_bound(mass.begin(), mass.end(), options.top_p * sum);
  const std::size_t kept =
      std::min(static_cast<std::size_t>(nucleus - mass.begin()) + 1, mass.size());
  mass.resize(kept);
  const auto drawn = std::upper_bound(mass.begin(), mass.end(), uniform * mass.back());
  return order[std::min(static_cast<std::size_t>(drawn - mass.begin()), kept - 1)];
}

StopCheck check_stop_words(const std::string& text, const std::vector<std::string>& words) {
  std::size_t first = std::string::npos;
  std::size_t held = 0;
  for (const std::string& word : words) {
    if (word.empty()) continue;
    first = std::min(first, text.find(word));
    held = std::max(held, open_end(text, word));
  }
  if (first != std::string::npos) return {first, true};
  return {text.size() - held, false};
}

}  // namespace elastiq
