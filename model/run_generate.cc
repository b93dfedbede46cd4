#include "model/run_generate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/file.h"
#include "core/rng.h"
#include "model/chat_form.h"
#include "model/package_model.h"
#include "model/tokenizer.h"

namespace elastiq {
namespace {

using Clock = std::chrono::steady_clock;

Result<std::string> section_text(const Package& package, std::uint32_t type) {
  ELQ_TRY(bytes, package.section(type));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<Tokenizer> package_tokenizer(const Package& package, const std::string& subject) {
  ELQ_TRY(tokenizer, section_text(package, ELQ_SECTION_TOKZ));
  const auto config = section_text(package, ELQ_SECTION_TMPL);
  return Tokenizer::from_json(tokenizer, config.ok() ? config.value() : "", subject);
}

Result<std::vector<std::uint32_t>> prompt_tokens(const GenerateOptions& options,
                                                 const Tokenizer& tokenizer) {
  std::string text = options.prompt;
  if (options.form == GenerateOptions::Form::kChat) {
    ELQ_TRY(chat, chat_prompt(tokenizer.chat_template(), options.prompt));
    text = chat;
  }
  if (find_invalid_utf8(text) != std::string::npos) {
    return Error{ErrorCode::kBadEncoding, "--prompt", "is not valid UTF-8"};
  }
  std::vector<std::uint32_t> tokens = tokenizer.encode(text);
  if (tokenizer.add_bos() && tokenizer.bos() >= 0) {
    tokens.insert(tokens.begin(), static_cast<std::uint32_t>(tokenizer.bos()));
  }
  if (!tokens.empty()) return tokens;
  return Error{ErrorCode::kInvalidArgument, "--prompt", "is empty and the model has no BOS token"};
}

/// Tokens that end the text.
std::vector<std::int64_t> stop_tokens(const Tokenizer& tokenizer, const elq_config& config) {
  std::vector<std::int64_t> stops = {tokenizer.eos(), tokenizer.id_of("<|im_end|>"),
                                     tokenizer.id_of("<|endoftext|>")};
  if (config.eos != UINT32_MAX) stops.push_back(config.eos);
  return stops;
}

/// Text of the tokens so far that ends on a whole character.
std::string whole_text(const Tokenizer& tokenizer, const std::vector<std::uint32_t>& tokens) {
  std::string text = tokenizer.decode(tokens);
  const std::size_t bad = find_invalid_utf8(text);
  if (bad != std::string::npos && text.size() - bad < 4) text.resize(bad);
  return text;
}

struct Generation {
  std::vector<std::uint32_t> tokens;
  std::string shown;
  std::string stopped = "max_tokens";
  double seconds = 0;
};

Result<Generation> generate(const GenerateOptions& options, PackageModel& model,
                            const Tokenizer& tokenizer, std::vector<float>& logits,
                            std::size_t room,
                            const std::function<void(const std::string&)>& on_text) {
  const auto stops = stop_tokens(tokenizer, model.config());
  Generation out;
  Rng rng(options.seed);
  const auto start = Clock::now();
  for (int i = 0; i < options.max_tokens; ++i) {
    const std::uint32_t next =
        pick_token(logits, options.temperature, options.top_k, rng.uniform());
    if (std::find(stops.begin(), stops.end(), static_cast<std::int64_t>(next)) != stops.end()) {
      out.stopped = "eos";
      break;
    }
    out.tokens.push_back(next);
    const std::string text = whole_text(tokenizer, out.tokens);
    if (text.size() > out.shown.size()) {
      on_text(text.substr(out.shown.size()));
      out.shown = text;
    }
    if (out.tokens.size() >= room) {
      out.stopped = "context";
      break;
    }
    ELQ_CHECK(model.eval({&next, 1}, 1, logits));
  }
  out.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return out;
}

}  // namespace

std::uint32_t pick_token(std::span<const float> logits, double temperature, int top_k,
                         double uniform) {
  const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
  if (temperature <= 0) return static_cast<std::uint32_t>(best);
  std::vector<std::uint32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0u);
  const std::size_t kept =
      top_k == 0 ? order.size() : std::min(order.size(), static_cast<std::size_t>(top_k));
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    [&logits](std::uint32_t a, std::uint32_t b) {
                      return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
                    });
  std::vector<double> mass(kept);
  double sum = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    sum += std::exp(static_cast<double>(logits[order[i]] - logits[order[0]]) / temperature);
    mass[i] = sum;
  }
  const auto at = std::upper_bound(mass.begin(), mass.end(), uniform * sum) - mass.begin();
  return order[std::min(static_cast<std::size_t>(at), kept - 1)];
}

Result<Json> run_generate(const GenerateOptions& options,
                          const std::function<void(const std::string&)>& on_text) {
  PackageModel::Options session;
  session.threads = options.threads;
  ELQ_TRY(model, PackageModel::open(options.package, session));
  ELQ_TRY(tokenizer, package_tokenizer(model.package(), options.package.string()));
  ELQ_TRY(prompt, prompt_tokens(options, tokenizer));
  const std::size_t positions = std::min(model.config().max_positions, 4096u);
  if (prompt.size() >= positions) {
    return Error{ErrorCode::kLimitExceeded, "--prompt",
                 "has " + std::to_string(prompt.size()) + " tokens, the session has room for " +
                     std::to_string(positions)};
  }
  std::vector<float> logits(model.config().vocab);
  const auto start = Clock::now();
  ELQ_CHECK(model.eval(prompt, 1, logits));
  const double prefill = std::chrono::duration<double>(Clock::now() - start).count();
  ELQ_TRY(out, generate(options, model, tokenizer, logits, positions - prompt.size(), on_text));
  return Json{{"format", "elastiq.generate/1"},
              {"prompt", options.prompt},
              {"text", out.shown},
              {"tokens", out.tokens},
              {"stopped", out.stopped},
              {"speed",
               {{"prefill_tps", static_cast<double>(prompt.size()) / prefill},
                {"decode_tps", static_cast<double>(out.tokens.size()) / out.seconds}}}};
}

}  // namespace elastiq
