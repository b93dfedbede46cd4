#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "model/tokenizer.h"

namespace elastiq {

/// Text of calibration, training or evaluation data.
struct TextData {
  std::vector<std::string> documents;  ///< One per file (text) or per line (JSONL, key "text").
  std::string digest;                  ///< SHA-256 over the files' bytes, hex.
  std::uint64_t bytes = 0;
  std::vector<std::string> warnings;  ///< Files with CRLF line ends, which are kept as they are.
};

/// Reads .txt (UTF-8) and .jsonl files in the given order.
/// Errors  kTooLittleData (empty or blank only, with counts), kMissing (JSONL line without "text",
/// with line number),
///         kBadEncoding with offset.
Result<TextData> read_text_data(const std::vector<std::filesystem::path>& files);

struct WindowOptions {
  std::int64_t length = 512;     ///< Tokens per window, BOS included.
  std::int64_t max_windows = 0;  ///< 0: all.
  std::int64_t min_windows = 1;  ///< Fewer: kTooLittleData with have and need.
  enum class Order { kSequential, kShuffled } order = Order::kSequential;
  std::uint64_t seed = 0;  ///< For kShuffled.
};

/// Fixed windows over the concatenated documents: the tokenizer's BOS (if it adds one) begins the
/// stream and replaces the first token of each window, as llama-perplexity does. The last
/// incomplete window is dropped and counted.
struct Windows {
  std::vector<std::vector<std::uint32_t>> tokens;
  std::uint64_t total_tokens = 0;  ///< In the stream.
  std::uint64_t dropped_tokens = 0;
  std::vector<std::string> warnings;  ///< Of the text.
};

Result<Windows> make_windows(const TextData& data, const Tokenizer& tokenizer,
                             const WindowOptions& options);

}  // namespace elastiq
