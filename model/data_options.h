#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "core/error.h"
#include "model/tokenizer.h"
#include "model/windows.h"

namespace elastiq {

/// Text that calibration, GPTQ and QAT read.
struct DataOptions {
  std::vector<std::filesystem::path> files;
  std::int64_t sequence_length = 512;
  std::int64_t windows =
      128;                 ///< 0: all there are. With several files each gives its share in turn.
  std::uint64_t seed = 1;  ///< Shuffles windows.
};

/// Reads, tokenizes and cuts the files: with several files each gives the same number of windows
/// (or what it has), then all are shuffled by the seed.
Result<Windows> load_windows(const DataOptions& options, const Tokenizer& tokenizer);

/// Windows fit the model. Errors  kInvalidArgument: sequence_length outside 2 to max_positions.
Status check_sequence_length(const DataOptions& options, std::int64_t max_positions);

}  // namespace elastiq
