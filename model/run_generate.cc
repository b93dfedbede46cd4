#include "model/run_generate.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>
#include <vector>

#include "core/file.h"
#include "core/rng.h"
#include "model/chat_form.h"
#include "model/continuation_text.h"
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
  ELQ_TRY(tokens, tokenizer.try_encode(text));
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

struct Generation {
  std::vector<std::uint32_t> tokens;
  std::string text;
  std::string stopped = "max_tokens";
  double seconds = 0;
};

/// The continuation of one prompt, token by token.
class Continuation {
 public:
  Continuation(const GenerateOptions& options, PackageModel& model, const Tokenizer& tokenizer,
               std::vector<std::uint32_t> prompt)
      : options_(options),
        model_(model),
        tokenizer_(tokenizer),
        stops_(stop_tokens(tokenizer, model.config())),
        seen_(std::move(prompt)),
        prompt_bytes_(tokenizer.decode(seen_).size()),
        rng_(options.seed) {}

  /// logits: of the prompt's last token. room: positions left.
  Result<Generation> run(std::vector<float>& logits, std::size_t room,
                         const std::function<void(const std::string&)>& on_text) {
    const auto start = Clock::now();
    while (out_.tokens.size() < static_cast<std::size_t>(options_.max_tokens)) {
      const std::uint32_t next = choose(logits);
      if (std::find(stops_.begin(), stops_.end(), static_cast<std::int64_t>(next)) !=
          stops_.end()) {
        out_.stopped = "eos";
        break;
      }
      out_.tokens.push_back(next);
      seen_.push_back(next);
      if (!show(on_text)) break;
      if (out_.tokens.size() >= room) {
        out_.stopped = "context";
        break;
      }
      ELQ_CHECK(model_.eval({&next, 1}, 1, logits));
    }
    if (out_.stopped != "stop") end_text(on_text);
    out_.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return out_;
  }

 private:
  std::string text_so_far() const {
    return whole_characters(continuation_text(tokenizer_, seen_, prompt_bytes_));
  }

  std::uint32_t choose(std::vector<float>& logits) {
    const auto window = static_cast<std::size_t>(options_.sampling.repetition_window);
    const std::size_t n = window == 0 ? seen_.size() : std::min(window, seen_.size());
    penalize_repetition(logits, std::span(seen_).last(n), options_.sampling.repetition_penalty);
    return pick_token(logits, options_.sampling, rng_.uniform());
  }

  /// False: a stop word ends the text.
  bool show(const std::function<void(const std::string&)>& on_text) {
    const std::string text = text_so_far();
    const StopCheck check = check_stop_words(text, options_.stop);
    give(text, check.shown, on_text);
    if (check.stopped) out_.stopped = "stop";
    return !check.stopped;
  }

  /// What was held back for a stop word that did not come.
  void end_text(const std::function<void(const std::string&)>& on_text) {
    const std::string text = text_so_far();
    give(text, text.size(), on_text);
  }

  void give(const std::string& text, std::size_t end,
            const std::function<void(const std::string&)>& on_text) {
    if (end <= out_.text.size()) return;
    on_text(text.substr(out_.text.size(), end - out_.text.size()));
    out_.text = text.substr(0, end);
  }

  const GenerateOptions& options_;
  PackageModel& model_;
  const Tokenizer& tokenizer_;
  std::vector<std::int64_t> stops_;
  std::vector<std::uint32_t> seen_;  ///< Prompt and output.
  std::size_t prompt_bytes_;
  Rng rng_;
  Generation out_;
};

}  // namespace

Result<Json> run_generate(const GenerateOptions& options,
                          const std::function<void(const std::string&)>& on_text) {
  PackageModel::Options session;
  session.threads = options.threads;
  session.isa = options.isa;
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
  const std::size_t prompt_size = prompt.size();
  Continuation continuation(options, model, tokenizer, std::move(prompt));
  ELQ_TRY(out, continuation.run(logits, positions - prompt_size, on_text));
  return Json{{"format", "elastiq.generate/1"},
              {"prompt", options.prompt},
              {"text", out.text},
              {"tokens", out.tokens},
              {"stopped", out.stopped},
              {"prompt_tokens", prompt_size},
              {"speed",
               {{"prefill_tps", static_cast<double>(prompt_size) / prefill},
                {"decode_tps", static_cast<double>(out.tokens.size()) / out.seconds}}}};
}

}  // namespace elastiq
