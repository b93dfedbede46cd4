#pragma once

#include <filesystem>
#include <string>

#include "core/error.h"
#include "core/json.h"

namespace elastiq {

struct BenchOptions {
  std::filesystem::path package;
  int threads = 2;
  int prompt = 256;   ///< Tokens. Where prompt and generate pass the model's positions, each is cut
                      ///< to half of them, with a warning.
  int generate = 64;  ///< Tokens decoded one by one after it.
  int repeats = 3;    ///< Rounds that count, after one that warms up.
  std::string isa;    ///< "": the best.
};

/// Speed of a package in the C runtime, on random tokens.
///   prefill_tps, ttft_ms      median over the rounds; ttft: prompt in to first logits out
///   decode_tps                median over the rounds
///   p50_ms, p95_ms, p99_ms    of all decoded tokens
///   read_gbps                 weight bytes of one token times decode_tps, in 1e9 bytes per second
///   machine_read_gbps         read_bandwidth() of as many threads, in the same run
///   bandwidth_share           the first divided by the second
///   cold_start_ms             first opening of the file to the first logits of the first prompt
///   load_ms_p50, load_ms_max  of 10 later openings
///   weight_bytes_per_token, session_bytes, peak_rss_bytes, isa, threads, package
///   prompt, generate          as run; "warnings" says where that is less than was asked
/// Errors  those of PackageModel::open.
Result<Json> run_bench(const BenchOptions& options);

/// run_bench's result for a person.
std::string bench_text(const Json& result);

}  // namespace elastiq
