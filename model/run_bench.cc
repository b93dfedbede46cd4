#include "model/run_bench.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "core/peak_memory.h"
#include "core/rng.h"
#include "model/package_model.h"

namespace elastiq {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Sample {
  double prefill = 0;  ///< Seconds.
  double decode = 0;
};

Result<Sample> measure(PackageModel& model, const std::vector<std::uint32_t>& tokens,
                       std::size_t prompt, std::vector<float>& logits) {
  ELQ_CHECK(model.rewind(0));
  Sample sample;
  auto start = Clock::now();
  ELQ_CHECK(model.eval({tokens.data(), prompt}, 1, logits));
  sample.prefill = seconds_since(start);
  start = Clock::now();
  for (std::size_t i = prompt; i < tokens.size(); ++i) {
    ELQ_CHECK(model.eval({tokens.data() + i, 1}, 1, logits));
  }
  sample.decode = seconds_since(start);
  return sample;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

Result<Json> run_bench(const BenchOptions& options) {
  PackageModel::Options session;
  session.threads = options.threads;
  session.isa = options.isa;
  ELQ_TRY(model, PackageModel::open(options.package, session));
  const elq_config& config = model.config();
  const std::size_t half = std::max(1u, config.max_positions / 2);
  const std::size_t prompt = std::min(half, static_cast<std::size_t>(options.prompt_tokens));
  const std::size_t fresh = std::min(half, static_cast<std::size_t>(options.new_tokens));
  Rng rng(1);
  std::vector<std::uint32_t> tokens(prompt + fresh);
  for (std::uint32_t& token : tokens) token = static_cast<std::uint32_t>(rng.below(config.vocab));
  std::vector<float> logits(config.vocab);
  std::vector<double> prefill, decode;
  // One round more than counted warms caches and threads up.
  for (int round = 0; round <= options.repeats; ++round) {
    ELQ_TRY(sample, measure(model, tokens, prompt, logits));
    if (round == 0) continue;
    prefill.push_back(static_cast<double>(prompt) / sample.prefill);
    decode.push_back(static_cast<double>(fresh) / sample.decode);
  }
  return Json{{"format", "elastiq.bench/1"},
              {"package", options.package.string()},
              {"isa", model.isa()},
              {"threads", options.threads},
              {"prompt_tokens", prompt},
              {"new_tokens", fresh},
              {"speed", {{"prefill_tps", median(prefill)}, {"decode_tps", median(decode)}}},
              {"session_bytes", model.session_bytes()},
              {"peak_rss_bytes", peak_rss_bytes()}};
}

}  // namespace elastiq
