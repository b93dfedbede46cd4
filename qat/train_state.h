#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "core/error.h"
#include "core/json.h"

namespace elastiq {

/// Everything an interrupted run needs to go on as if it had not been interrupted.
///
/// A state is a folder: state.json (step, fingerprint, curve, name of the tensor file) and the
/// tensor file itself. state.json is replaced last and atomically, so that there is always one
/// whole state; the tensor file it does not name is removed.
struct TrainState {
  std::int64_t step = 0;  ///< Steps done.
  std::string phase;      ///< Of the last step: decides which tensors there are.
  std::int64_t updates = 0;
  double seconds = 0;  ///< Spent so far.
  Json fingerprint;
  Json curve = Json::array();
  /// Float32 or uint8, contiguous. Loading copies into the tensors given by name.
  std::map<std::string, torch::Tensor> tensors;
};

Status save_state(const std::filesystem::path& folder, const TrainState& state);

/// state.json only; nothing when the folder has none.
/// Errors  kInconsistent, kSyntax, kUnsupportedVersion.
Result<std::optional<TrainState>> load_state(const std::filesystem::path& folder);

/// The tensors of a state, into tensors of the same names, types and shapes.
/// Errors  kMissing, kInconsistent, those of Checkpoint::open.
Status load_state_tensors(const std::filesystem::path& folder,
                          const std::map<std::string, torch::Tensor>& tensors);

}  // namespace elastiq
