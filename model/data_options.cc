#include "model/data_options.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/rng.h"

namespace elastiq {
namespace {

// Equal shares of `wanted`; what a file cannot give, the others do.
std::vector<std::size_t> shares(const std::vector<Windows>& files, std::size_t wanted) {
  std::vector<std::size_t> taken(files.size(), 0);
  std::size_t sum = 0;
  bool grew = true;
  while (grew && sum < wanted) {
    grew = false;
    for (std::size_t i = 0; i < files.size() && sum < wanted; ++i) {
      if (taken[i] >= files[i].tokens.size()) continue;
      ++taken[i];
      ++sum;
      grew = true;
    }
  }
  return taken;
}

Result<std::vector<Windows>> windows_of_files(const DataOptions& options,
                                              const Tokenizer& tokenizer) {
  std::vector<Windows> files;
  for (const auto& path : options.files) {
    ELQ_TRY(data, read_text_data({path}));
    WindowOptions cut;
    cut.length = options.sequence_length;
    cut.min_windows = 0;
    cut.order = WindowOptions::Order::kShuffled;
    cut.seed = options.seed;
    ELQ_TRY(windows, make_windows(data, tokenizer, cut));
    files.push_back(std::move(windows));
  }
  return files;
}

}  // namespace

Result<Windows> load_windows(const DataOptions& options, const Tokenizer& tokenizer) {
  if (options.files.empty()) {
    return Error{ErrorCode::kInvalidArgument, "text data", "no file is given", 0};
  }
  if (options.windows < 0) {
    return Error{ErrorCode::kInvalidArgument, "number of windows", "a negative number", 0};
  }
  ELQ_TRY(files, windows_of_files(options, tokenizer));
  Windows all;
  std::size_t available = 0;
  for (const Windows& file : files) {
    all.total_tokens += file.total_tokens;
    all.dropped_tokens += file.dropped_tokens;
    all.warnings.insert(all.warnings.end(), file.warnings.begin(), file.warnings.end());
    available += file.tokens.size();
  }
  if (available == 0) {
    return Error{ErrorCode::kTooLittleData, options.files.front().string(),
                 "have " + std::to_string(all.total_tokens) + " tokens in " +
                     std::to_string(files.size()) + " files, need " +
                     std::to_string(options.sequence_length) + " for one window",
                 0};
  }
  const std::size_t wanted =
      options.windows == 0 ? available : static_cast<std::size_t>(options.windows);
  const std::vector<std::size_t> taken = shares(files, wanted);
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (std::size_t w = 0; w < taken[i]; ++w) all.tokens.push_back(std::move(files[i].tokens[w]));
  }
  // Another stream than the one that chose the windows of a file.
  Rng rng(options.seed ^ 0x5851f42d4c957f2du);
  for (std::size_t i = all.tokens.size(); i > 1; --i) {
    all.tokens[i - 1].swap(all.tokens[static_cast<std::size_t>(rng.below(i))]);
  }
  return all;
}

Status check_sequence_length(const DataOptions& options, std::int64_t max_positions) {
  const std::int64_t length = options.sequence_length;
  if (length >= 2 && length <= max_positions) return ok_status();
  return Error{ErrorCode::kInvalidArgument, "sequence_length",
               "found " + std::to_string(length) + ", allowed 2 to " +
                   std::to_string(max_positions) + " (the model's positions)"};
}

}  // namespace elastiq
