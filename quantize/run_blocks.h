#pragma once

#include <functional>
#include <map>
#include <string>

#include "core/error.h"
#include "core/thread_pool.h"
#include "model/decoder.h"
#include "model/windows.h"
#include "quantize/gptq.h"
#include "quantize/plan.h"
#include "quantize/run_tensor.h"

namespace elastiq {

/// A matrix that the sweep has to quantize: the plan's entry by canonical tensor name.
using PlanByName = std::map<std::string, PlanEntry>;

struct BlocksInput {
  const Decoder& decoder;
  const Windows& windows;
  const PlanByName& plan;  ///< Matrices with a scheme; others stay as they are.
  const Weights& original;
  const GptqOptions& options;
  ThreadPool& pool;
};

/// Called with each quantized tensor as it is done; its weights are already replaced.
using TensorDone = std::function<void(const std::string& canonical_name, QuantizedTensor tensor)>;

/// GPTQ block by block: each matrix sees its inputs as the already quantized part of the model
/// gives them. `weights` starts as the original, with the embedding replaced where that is
/// quantized, and ends fully quantized. An untied head is quantized last.
/// Source  docs/numerics.md, section 7.5.
Status quantize_blocks(const BlocksInput& input, Weights& weights, const TensorDone& done);

/// Dequantized weights as a tensor.
torch::Tensor dequantized_tensor(const QuantizedMatrix& matrix);

}  // namespace elastiq
