#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "formats/stats_file.h"

namespace elastiq {

/// Sums x_i x_j of every linear input that a decoder's taps show.
///
/// Products of one batch are float32 (relative error about 1e-6 of the largest), batches add up in
/// float64. Memory: columns^2 doubles per input.
class Observer {
 public:
  /// x [tokens, columns], float32. Batches in the same order give the same bits.
  void observe(const std::string& key, const torch::Tensor& x);

  /// Means over tokens; the observer is empty afterwards. The second moment is exactly symmetric
  /// and its diagonal is the importance.
  /// Errors  kInternal: a key was not seen, or not by exactly `tokens` tokens, or an unknown key
  ///         was; kNonFinite: an input held NaN or infinity.
  Result<std::map<std::string, InputStats>> finish(const std::vector<std::string>& keys,
                                                   std::uint64_t tokens);

 private:
  struct Sums {
    torch::Tensor upper;  ///< [columns, columns] float64; below the diagonal strips it is zero.
    std::uint64_t tokens = 0;
  };

  std::map<std::string, Sums> sums_;
};

}  // namespace elastiq
