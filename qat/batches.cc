#include "qat/batches.h"

#include <fmt/format.h>

#include <algorithm>

namespace elastiq {

namespace {

// Activations of 512 tokens of SmolLM2-135M take 1.3 GB; twice the size saves little time.
constexpr std::int64_t kMicroTokens = 512;

}  // namespace

torch::Tensor window_tensor(const Windows& windows, const std::vector<std::size_t>& chosen) {
  const auto length = static_cast<std::int64_t>(windows.tokens.front().size());
  torch::Tensor ids =
      torch::empty({static_cast<std::int64_t>(chosen.size()), length}, torch::kInt64);
  std::int64_t* out = ids.data_ptr<std::int64_t>();
  for (const std::size_t index : chosen) {
    out = std::copy(windows.tokens[index].begin(), windows.tokens[index].end(), out);
  }
  return ids;
}

std::vector<torch::Tensor> micro_batches(const torch::Tensor& windows) {
  return windows.split(std::max<std::int64_t>(1, kMicroTokens / windows.size(1)), 0);
}

Status check_token_range(const Windows& windows, std::int64_t vocab) {
  for (const auto& window : windows.tokens) {
    const std::uint32_t highest = *std::max_element(window.begin(), window.end());
    if (highest < vocab) continue;
    return Error{ErrorCode::kInconsistent, "tokenizer.json",
                 fmt::format("gives token {}, config.json has vocab_size {}", highest, vocab)};
  }
  return ok_status();
}

}  // namespace elastiq
