// Exact-match accuracy of greedy answers.
//
// The answer itself serves as a draft: one pass over prompt + answer gives the greedy choice at
// every position of it, which is all there is to check when the model agrees. Where it chooses
// another token, the pass is repeated from there, unless the text can no longer become the answer.
// The outcome is that of plain greedy decoding, in one or two passes instead of one per token.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "core/file.h"
#include "core/progress.h"
#include "model/continuation_text.h"
#include "model/evaluate.h"

namespace elastiq {
namespace {

constexpr std::size_t kExtraTokens = 8;  // Beyond the answer's own tokens: other spellings, spaces.
constexpr std::uint64_t kMaxTaskBytes = 256u << 20;
constexpr std::string_view kSpace = " \t\r\n\v\f";

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

enum class Verdict { kMatch, kMismatch, kOpen };
enum class TextEnd { kMore, kDone };

Verdict judge(std::string_view text, std::string_view answer, TextEnd end) {
  const std::size_t newline = text.find('\n');
  if (newline != std::string_view::npos || end == TextEnd::kDone) {
    return trim(text.substr(0, newline)) == answer ? Verdict::kMatch : Verdict::kMismatch;
  }
  const std::size_t first = text.find_first_not_of(kSpace);
  const std::string_view begun = first == std::string_view::npos ? "" : text.substr(first);
  if (begun.size() <= answer.size()) {
    return answer.starts_with(begun) ? Verdict::kOpen : Verdict::kMismatch;
  }
  return trim(begun) == answer ? Verdict::kOpen : Verdict::kMismatch;
}

std::uint32_t best_token(std::span<const float> logits) {
  return static_cast<std::uint32_t>(std::max_element(logits.begin(), logits.end()) -
                                    logits.begin());
}

// One item's generation.
class Greedy {
 public:
  Greedy(const TaskItem& item, const Tokenizer& tokenizer, const std::vector<std::int64_t>& eos)
      : item_(item),
        tokenizer_(tokenizer),
        eos_(eos),
        prompt_bytes_(tokenizer.decode(item.tokens).size()),
        most_(tokenizer.encode(item.answer).size() + kExtraTokens) {}

  Result<bool> matches(const LogitSource& source) {
    while (generated_.size() < most_) {
      const std::vector<std::uint32_t> draft = draft_tokens();
      ELQ_TRY(chosen, choices(source, draft));
      for (std::size_t i = 0; i < chosen.size() && generated_.size() < most_; ++i) {
        const Verdict verdict = append(chosen[i]);
        if (verdict != Verdict::kOpen) return verdict == Verdict::kMatch;
        if (i < draft.size() && chosen[i] != draft[i]) break;
      }
    }
    return judge(text(), item_.answer, TextEnd::kDone) == Verdict::kMatch;
  }

 private:
  std::string text() const {
    std::vector<std::uint32_t> all = item_.tokens;
    all.insert(all.end(), generated_.begin(), generated_.end());
    return continuation_text(tokenizer_, all, prompt_bytes_);
  }

  Verdict append(std::uint32_t token) {
    const bool ends = std::find(eos_.begin(), eos_.end(), std::int64_t{token}) != eos_.end();
    if (ends) return judge(text(), item_.answer, TextEnd::kDone);
    generated_.push_back(token);
    return judge(text(), item_.answer, TextEnd::kMore);
  }

  // A guess at what comes; a bad guess costs a pass, never the result.
  std::vector<std::uint32_t> draft_tokens() const {
    const std::string said = text();
    const std::size_t begun = trim(said).size();
    const std::string left = item_.answer.substr(std::min(begun, item_.answer.size()));
    const std::string rest = (generated_.empty() ? item_.spelled : left) + "\n";
    std::vector<std::uint32_t> draft = tokenizer_.encode(rest);
    const std::vector<std::uint32_t> before = tokenizer_.encode(item_.prompt + said);
    const std::vector<std::uint32_t> joined = tokenizer_.encode(item_.prompt + said + rest);
    if (joined.size() > before.size() && std::equal(before.begin(), before.end(), joined.begin())) {
      draft.assign(joined.begin() + static_cast<std::ptrdiff_t>(before.size()), joined.end());
    }
    draft.resize(std::min(draft.size(), most_ - generated_.size() - 1));
    return draft;
  }

  // The greedy token after the text so far and after each token of the draft.
  Result<std::vector<std::uint32_t>> choices(const LogitSource& source,
                                             const std::vector<std::uint32_t>& draft) const {
    std::vector<std::uint32_t> tokens = item_.tokens;
    tokens.insert(tokens.end(), generated_.begin(), generated_.end());
    tokens.insert(tokens.end(), draft.begin(), draft.end());
    const auto vocab = static_cast<std::size_t>(source.vocab);
    std::vector<float> logits((draft.size() + 1) * vocab);
    ELQ_CHECK(last_logits(source, tokens, logits));
    std::vector<std::uint32_t> chosen;
    for (std::size_t i = 0; i <= draft.size(); ++i) {
      const std::span<const float> row = std::span<const float>(logits).subspan(i * vocab, vocab);
      if (!std::all_of(row.begin(), row.end(), [](float v) { return std::isfinite(v); })) {
        return Error{ErrorCode::kNonFinite, source.subject,
                     fmt::format("a logit of the task item '{}' is not finite", item_.prompt), 0};
      }
      chosen.push_back(best_token(row));
    }
    return chosen;
  }

  const TaskItem& item_;
  const Tokenizer& tokenizer_;
  const std::vector<std::int64_t>& eos_;
  std::size_t prompt_bytes_;
  std::size_t most_;
  std::vector<std::uint32_t> generated_;
};

Result<std::string> text_member(const Json& line, const char* key, const std::string& subject) {
  const auto found = line.find(key);
  if (!line.is_object() || found == line.end() || !found->is_string()) {
    return Error{ErrorCode::kMissing, subject, fmt::format("no text under \"{}\"", key), 0};
  }
  return found->get<std::string>();
}

Result<TaskItem> parse_item(std::string_view line, const std::string& subject,
                            const Tokenizer& tokenizer) {
  ELQ_TRY(json, parse_json(line, subject, JsonLimits{}));
  ELQ_TRY(prompt, text_member(json, "prompt", subject));
  ELQ_TRY(answer, text_member(json, "answer", subject));
  TaskItem item{prompt, std::string(trim(answer)), answer, {}};
  if (item.answer.empty() || item.answer.find('\n') != std::string::npos) {
    return Error{ErrorCode::kInconsistent, subject, "\"answer\" must be one line with text", 0};
  }
  if (tokenizer.add_bos()) item.tokens.push_back(static_cast<std::uint32_t>(tokenizer.bos()));
  ELQ_TRY(ids, tokenizer.try_encode(item.prompt));
  item.tokens.insert(item.tokens.end(), ids.begin(), ids.end());
  if (item.tokens.empty()) {
    return Error{ErrorCode::kInconsistent, subject, "\"prompt\" has no tokens", 0};
  }
  return item;
}

}  // namespace

Result<std::vector<TaskItem>> read_task(const std::filesystem::path& path, std::int64_t limit,
                                        const Tokenizer& tokenizer) {
  ELQ_TRY(text, read_text_file(path, kMaxTaskBytes));
  std::vector<TaskItem> items;
  std::size_t start = 0;
  for (std::size_t number = 1; start < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view line = std::string_view(text).substr(start, end - start);
    start = end + 1;
    if (trim(line).empty()) continue;
    if (limit > 0 && static_cast<std::int64_t>(items.size()) == limit) break;
    const std::string subject = fmt::format("{}, line {}", path.string(), number);
    ELQ_TRY(item, parse_item(line, subject, tokenizer));
    items.push_back(std::move(item));
  }
  if (items.empty()) {
    return Error{ErrorCode::kTooLittleData, path.string(), "have 0 task items, need 1", 0};
  }
  return items;
}

std::int64_t task_tokens(const std::vector<TaskItem>& items, const Tokenizer& tokenizer) {
  std::size_t most = 0;
  for (const TaskItem& item : items) {
    const std::size_t answer = tokenizer.encode(item.answer).size() + kExtraTokens;
    most = std::max(most, item.tokens.size() + answer);
  }
  return static_cast<std::int64_t>(most);
}

Result<Figure> task_accuracy(const LogitSource& source, const std::vector<TaskItem>& items,
                             const Tokenizer& tokenizer, const std::vector<std::int64_t>& eos) {
  Progress progress("task", items.size(), Progress::default_mode());
  std::uint64_t right = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    ELQ_TRY(match, Greedy(items[i], tokenizer, eos).matches(source));
    if (match) ++right;
    progress.step(i + 1, "");
  }
  const auto n = static_cast<double>(items.size());
  const double share = static_cast<double>(right) / n;
  return Figure{share, std::sqrt(share * (1 - share) / n)};
}

}  // namespace elastiq
