#include "core/read_bandwidth.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "core/thread_pool.h"

namespace elastiq {
namespace {

constexpr std::size_t kBytes = std::size_t{256} << 20;
constexpr int kPasses = 8;

/// Eight independent sums, so that loads and not additions set the pace. Eight KiB ahead of every
/// line is asked for, as the kernels do (beyond the hardware's own prefetch).
std::uint64_t sum_of(const std::uint64_t* words, std::size_t n) {
  constexpr std::size_t kLine = 8;
  constexpr std::size_t kAhead = 1024;
  std::uint64_t lanes[kLine] = {};
  for (std::size_t i = 0; i + kLine <= n; i += kLine) {
    __builtin_prefetch(words + i + kAhead);
    for (std::size_t l = 0; l < kLine; ++l) lanes[l] += words[i + l];
  }
  return std::accumulate(std::begin(lanes), std::end(lanes), std::uint64_t{0});
}

}  // namespace

double read_bandwidth(int threads) {
  // Written once, so that every page is there.
  const std::vector<std::uint64_t> words(kBytes / sizeof(std::uint64_t), 1);
  const std::size_t parts = static_cast<std::size_t>(threads);
  const std::size_t part = words.size() / parts;
  std::vector<std::uint64_t> sums(parts);
  ThreadPool pool(threads);
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    pool.run(parts, [&](std::size_t i) { sums[i] = sum_of(words.data() + i * part, part); });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    // The sum is used, so no compiler drops the reads.
    if (std::accumulate(sums.begin(), sums.end(), std::uint64_t{0}) < part) return 0;
    best =
        std::max(best, static_cast<double>(part * parts * sizeof(std::uint64_t)) / seconds.count());
  }
  return best;
}

}  // namespace elastiq
