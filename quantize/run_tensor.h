#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "core/quantized_matrix.h"
#include "core/thread_pool.h"
#include "formats/safetensors.h"
#include "quantize/gptq.h"
#include "quantize/plan.h"

namespace elastiq {

/// One matrix of the model quantized, with its line of the stored plan.
struct QuantizedTensor {
  QuantizedMatrix matrix;
  Json
      figures;  ///< plan_json's keys, then method, path, damping, kept, losses, distortion, counts.
};

/// The weights of a matrix as float.
Result<std::vector<float>> float_weights(const TensorView& view);

/// entry.scheme is set; importance may be empty.
Result<QuantizedTensor> quantize_tensor_rtn(const PlanEntry& entry, std::span<const float> weights,
                                            std::span<const float> importance, ThreadPool& pool);

/// The same with GPTQ; moments as GptqInput.
struct TensorMoments {
  std::span<const double> second_moment;
  std::span<const double> drift;
};

Result<QuantizedTensor> quantize_tensor_gptq(const PlanEntry& entry, std::span<const float> weights,
                                             const TensorMoments& moments,
                                             const GptqOptions& options, ThreadPool& pool);

/// Share of the mean diagonal that stands for the embedding's lookups beside its use as the head
/// (docs/numerics.md, section 8).
inline constexpr double kLookupShare = 0.05;

/// Second moment of a tied embedding: the head's, plus kLookupShare of its mean diagonal.
std::vector<double> tied_second_moment(std::span<const float> head, std::int64_t cols);
/// Its diagonal alone.
std::vector<float> tied_importance(std::span<const float> head);

}  // namespace elastiq
