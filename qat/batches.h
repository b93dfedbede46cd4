#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "core/error.h"
#include "model/windows.h"

namespace elastiq {

/// [chosen, length] int64.
torch::Tensor window_tensor(const Windows& windows, const std::vector<std::size_t>& chosen);

/// Pieces of a batch small enough that activations fit (at most 512 tokens, whole windows);
/// gradients are summed over them.
std::vector<torch::Tensor> micro_batches(const torch::Tensor& windows);

/// Errors  kInconsistent: a token id is not below vocab (the tokenizer is of another model).
Status check_token_range(const Windows& windows, std::int64_t vocab);

}  // namespace elastiq
