// Windows of text scored against the float model.
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "core/progress.h"
#include "core/thread_pool.h"
#include "model/evaluate.h"

namespace elastiq {
namespace {

struct WindowLogits {
  std::span<const float> reference;
  std::span<const float> model;
  std::size_t vocab = 0;
};

// tokens[first + i] is predicted by row i.
Result<std::vector<TokenScore>> score_rows(const WindowLogits& logits,
                                           std::span<const std::uint32_t> next, ThreadPool& pool,
                                           const std::string& subject) {
  std::vector<TokenScore> scores(next.size());
  std::vector<std::optional<Error>> errors(next.size());
  pool.run(next.size(), [&](std::size_t i) {
    const auto row = [&](std::span<const float> all) {
      return all.subspan(i * logits.vocab, logits.vocab);
    };
    Result<TokenScore> score = score_token(row(logits.reference), row(logits.model), next[i]);
    if (score.ok()) {
      scores[i] = score.value();
    } else {
      errors[i] = std::move(score).error();
    }
  });
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (!errors[i]) continue;
    errors[i]->subject = fmt::format("{}, scored position {}", subject, i);
    return *std::move(errors[i]);
  }
  return scores;
}

}  // namespace

Result<std::vector<std::vector<TokenScore>>> score_windows(
    const LogitSource& float_model, const LogitSource* model,
    const std::vector<std::vector<std::uint32_t>>& windows, int threads) {
  const auto vocab = static_cast<std::size_t>(float_model.vocab);
  ThreadPool pool(threads);
  Progress progress("evaluate", windows.size(), Progress::default_mode());
  std::vector<std::vector<TokenScore>> scores;
  std::vector<float> reference;
  std::vector<float> compared;
  for (std::size_t w = 0; w < windows.size(); ++w) {
    const std::span<const std::uint32_t> window = windows[w];
    const std::size_t first = window.size() / 2;
    const std::size_t rows = window.size() - 1 - first;
    const std::span<const std::uint32_t> tokens = window.first(window.size() - 1);
    reference.resize(rows * vocab);
    ELQ_CHECK(last_logits(float_model, tokens, reference));
    WindowLogits logits{reference, reference, vocab};
    if (model != nullptr) {
      compared.resize(rows * vocab);
      ELQ_CHECK(last_logits(*model, tokens, compared));
      logits.model = compared;
    }
    const std::string subject =
        fmt::format("{}, window {}", model == nullptr ? float_model.subject : model->subject, w);
    ELQ_TRY(row_scores, score_rows(logits, window.subspan(first + 1), pool, subject));
    scores.push_back(std::move(row_scores));
    progress.step(w + 1, "");
  }
  return scores;
}

}  // namespace elastiq
