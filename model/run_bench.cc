#include "model/run_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <variant>
#include <vector>

#include "core/peak_memory.h"
#include "core/read_bandwidth.h"
#include "core/rng.h"
#include "core/text.h"
#include "model/package_model.h"

namespace elastiq {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLoads = 10;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The smallest value that at least that share of the values does not exceed.
double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  return values[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

struct Round {
  double prefill = 0;          ///< Seconds.
  std::vector<double> decode;  ///< Seconds of each token.
};

Result<Round> measure(PackageModel& model, const std::vector<std::uint32_t>& tokens,
                      std::size_t prompt, std::vector<float>& logits) {
  ELQ_CHECK(model.rewind(0));
  Round round;
  auto start = Clock::now();
  ELQ_CHECK(model.eval({tokens.data(), prompt}, 1, logits));
  round.prefill = seconds_since(start);
  for (std::size_t i = prompt; i < tokens.size(); ++i) {
    start = Clock::now();
    ELQ_CHECK(model.eval({tokens.data() + i, 1}, 1, logits));
    round.decode.push_back(seconds_since(start));
  }
  return round;
}

/// Every stored tensor but an embedding that is not the head too: of that a token reads one row.
std::uint64_t weight_bytes_per_token(const Package& package) {
  const auto& tensors = package.tensors();
  const bool tied = std::any_of(tensors.begin(), tensors.end(), [](const PackageTensor& t) {
    return t.record.role == ELQ_ROLE_HEAD && t.record.alias_of != 0;
  });
  std::uint64_t bytes = 0;
  for (const PackageTensor& t : tensors) {
    const bool looked_up = t.record.role == ELQ_ROLE_EMBED && !tied;
    if (t.record.alias_of == 0 && !looked_up) bytes += t.record.bytes;
  }
  return bytes;
}

/// What a round runs: as asked where both parts fit the model's positions, else half of them for
/// each part at most, and a warning.
struct Lengths {
  std::size_t prompt = 0;
  std::size_t fresh = 0;
  Json warnings = Json::array();
};

Json cut_warning(const char* option, int asked, std::size_t used, std::uint64_t positions) {
  return fmt::format("{} {} was cut to {}: the model has {} positions", option, asked, used,
                     positions);
}

Result<Lengths> round_lengths(const BenchOptions& options) {
  ELQ_TRY(package, Package::open(options.package));
  const auto found = package.meta().find("model.max_positions");
  const auto* positions =
      found == package.meta().end() ? nullptr : std::get_if<std::uint64_t>(&found->second);
  if (positions == nullptr) {
    return Error{ErrorCode::kMissing, options.package.string(), "no model.max_positions", 0};
  }
  Lengths lengths{static_cast<std::size_t>(options.prompt),
                  static_cast<std::size_t>(options.generate)};
  if (lengths.prompt + lengths.fresh <= *positions) return lengths;
  const std::size_t half = std::max<std::uint64_t>(1, *positions / 2);
  lengths.prompt = std::min(half, lengths.prompt);
  lengths.fresh = std::min(half, lengths.fresh);
  if (lengths.prompt < static_cast<std::size_t>(options.prompt)) {
    lengths.warnings.push_back(cut_warning("--prompt", options.prompt, lengths.prompt, *positions));
  }
  if (lengths.fresh < static_cast<std::size_t>(options.generate)) {
    lengths.warnings.push_back(
        cut_warning("--generate", options.generate, lengths.fresh, *positions));
  }
  return lengths;
}

Result<std::vector<double>> load_times(const BenchOptions& options,
                                       const PackageModel::Options& session) {
  std::vector<double> seconds;
  for (int i = 0; i < kLoads; ++i) {
    const auto start = Clock::now();
    ELQ_TRY(model, PackageModel::open(options.package, session));
    seconds.push_back(seconds_since(start));
  }
  return seconds;
}

struct Speeds {
  double cold_start = 0;  ///< Seconds, as all below.
  std::vector<double> prefill, decode_round, decode_token;
};

Result<Speeds> run_rounds(PackageModel& model, const BenchOptions& options,
                          const std::vector<std::uint32_t>& tokens, std::size_t prompt) {
  std::vector<float> logits(model.config().vocab);
  Speeds speeds;
  for (int round = 0; round <= options.repeats; ++round) {
    ELQ_TRY(sample, measure(model, tokens, prompt, logits));
    if (round == 0) speeds.cold_start = sample.prefill;
    if (round == 0) continue;
    speeds.prefill.push_back(sample.prefill);
    double sum = 0;
    for (const double seconds : sample.decode) sum += seconds;
    speeds.decode_round.push_back(sum);
    speeds.decode_token.insert(speeds.decode_token.end(), sample.decode.begin(),
                               sample.decode.end());
  }
  return speeds;
}

}  // namespace

Result<Json> run_bench(const BenchOptions& options) {
  PackageModel::Options session;
  session.threads = options.threads;
  session.isa = options.isa;
  const auto start = Clock::now();
  ELQ_TRY(lengths, round_lengths(options));
  const std::size_t prompt = lengths.prompt;
  const std::size_t fresh = lengths.fresh;
  session.max_tokens = static_cast<std::uint32_t>(prompt + fresh);
  ELQ_TRY(model, PackageModel::open(options.package, session));
  const double first_load = seconds_since(start);
  const elq_config& config = model.config();
  Rng rng(1);
  std::vector<std::uint32_t> tokens(prompt + fresh);
  for (std::uint32_t& token : tokens) token = static_cast<std::uint32_t>(rng.below(config.vocab));
  ELQ_TRY(speeds, run_rounds(model, options, tokens, prompt));
  const std::uint64_t peak = peak_rss_bytes();  // Before the bandwidth test's own memory.
  ELQ_TRY(loads, load_times(options, session));

  const double prefill = quantile(speeds.prefill, 0.5);
  const double decode_tps = static_cast<double>(fresh) / quantile(speeds.decode_round, 0.5);
  const std::uint64_t bytes = weight_bytes_per_token(model.package());
  const double read = static_cast<double>(bytes) * decode_tps / 1e9;
  const double roof = read_bandwidth(options.threads) / 1e9;
  return Json{{"format", "elastiq.bench/1"},
              {"package", options.package.string()},
              {"isa", model.isa()},
              {"threads", options.threads},
              {"prompt", prompt},
              {"generate", fresh},
              {"prefill_tps", static_cast<double>(prompt) / prefill},
              {"decode_tps", decode_tps},
              {"ttft_ms", prefill * 1e3},
              {"p50_ms", quantile(speeds.decode_token, 0.5) * 1e3},
              {"p95_ms", quantile(speeds.decode_token, 0.95) * 1e3},
              {"p99_ms", quantile(speeds.decode_token, 0.99) * 1e3},
              {"read_gbps", read},
              {"machine_read_gbps", roof},
              {"bandwidth_share", read / roof},
              {"cold_start_ms", (first_load + speeds.cold_start) * 1e3},
              {"load_ms_p50", quantile(loads, 0.5) * 1e3},
              {"load_ms_max", quantile(loads, 1.0) * 1e3},
              {"weight_bytes_per_token", bytes},
              {"session_bytes", model.session_bytes()},
              {"peak_rss_bytes", peak},
              {"warnings", std::move(lengths.warnings)}};
}

std::string bench_text(const Json& result) {
  const auto number = [&result](const char* key) { return result[key].get<double>(); };
  std::string out = fmt::format("{}, {} threads\n", result["isa"].get<std::string>(),
                                result["threads"].get<int>());
  out += fmt::format("prefill  {:8.1f} tokens/s  {} tokens, first token after {:.1f} ms\n",
                     number("prefill_tps"), result["prompt"].get<int>(), number("ttft_ms"));
  out += fmt::format("decode   {:8.1f} tokens/s  p50 {:.2f} ms, p95 {:.2f} ms, p99 {:.2f} ms\n",
                     number("decode_tps"), number("p50_ms"), number("p95_ms"), number("p99_ms"));
  out += fmt::format("reads    {:8.2f} GB/s      {} of the {:.2f} GB/s that this machine reads\n",
                     number("read_gbps"), format_percent(number("bandwidth_share")),
                     number("machine_read_gbps"));
  out += fmt::format("load     {:8.2f} ms        longest of 10: {:.2f} ms, cold start {:.1f} ms\n",
                     number("load_ms_p50"), number("load_ms_max"), number("cold_start_ms"));
  out += fmt::format("memory   {} resident at most, {} per session\n",
                     format_bytes(number("peak_rss_bytes")), format_bytes(number("session_bytes")));
  return out;
}

}  // namespace elastiq
