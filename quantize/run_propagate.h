#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/error.h"
#include "model/decoder.h"
#include "model/windows.h"

namespace elastiq {

/// The four linear inputs of a block, in the order in which they are computed.
enum class BlockInput { kAttnIn, kAttnOut, kMlpIn, kMlpOut };

/// What GPTQ needs to know of a linear input, means over all tokens.
struct InputMoments {
  std::vector<double> second_moment;  ///< columns x columns: xq xq^T.
  torch::Tensor input_drift;     ///< [columns, columns] float64: (x - xq) xq^T; undefined if not
                                 ///< asked for. x: input in the float model, xq: in the quantized.
  torch::Tensor residual_drift;  ///< [hidden, columns] float64: (r - rq) xq^T with the residual
                                 ///< states that the output is added to; kAttnOut and kMlpOut only.
};

/// Calibration windows on their way through the model, block by block and stage by stage, in a
/// quantized version and, for drift, in the float version beside it. Every product is computed
/// once; all states stay in memory (tokens x (hidden + widest input) floats per version).
class Propagation {
 public:
  enum class Drift { kIgnore, kMeasure };

  Propagation(const Decoder& decoder, const Windows& windows, Drift drift);

  /// Residual states from the embeddings of both versions.
  void start(const Weights& quantized, const Weights& original);

  /// Brings all windows to input `which` of a block, all earlier stages being done.
  /// Errors  kNonFinite: the states are NaN or infinite.
  Result<InputMoments> advance(const Weights& quantized, const Weights& original,
                               std::int64_t layer, BlockInput which);

  /// Completes a block.
  void finish_block(const Weights& quantized, const Weights& original, std::int64_t layer);

  /// The head's input after the last block.
  Result<InputMoments> final_input(const Weights& quantized, const Weights& original);

  std::uint64_t tokens() const { return tokens_; }

 private:
  struct State {
    torch::Tensor residual;  ///< [batch, length, hidden]
    torch::Tensor input;     ///< [batch, length, columns]
  };

  Result<InputMoments> moments(const std::string& subject, bool add_residual) const;

  const Decoder& decoder_;
  Drift drift_;
  std::uint64_t tokens_ = 0;
  std::vector<torch::Tensor> ids_;
  std::vector<State> quantized_;
  std::vector<State> original_;
};

}  // namespace elastiq
