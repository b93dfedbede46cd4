#pragma once

// The pieces of run_evaluate; private to model/run_evaluate.cc and its tests.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "formats/quantized_checkpoint.h"
#include "model/decoder.h"
#include "model/metrics.h"
#include "model/package_model.h"
#include "model/tensor_roles.h"
#include "model/tokenizer.h"

namespace elastiq {

/// Something that gives logits: a decoder with weights, or a package in the C runtime.
struct LogitSource {
  std::string subject;  ///< For errors.
  std::int64_t vocab = 0;
  std::int64_t max_tokens = 0;
  /// Logits of the last logits.size() / vocab of the tokens, which start a new sequence.
  std::function<Status(std::span<const std::uint32_t> tokens, std::span<float> logits)> run;
};

struct DecoderModel {
  Decoder decoder;
  Weights weights;
};

LogitSource decoder_source(std::shared_ptr<const DecoderModel> model, const std::string& subject);
LogitSource package_source(std::shared_ptr<PackageModel> model, const std::string& subject);

/// A source's logits after checks: ids below the vocabulary, length within max_tokens.
/// Errors  kInvalidArgument, kLimitExceeded, and those of the source.
Status last_logits(const LogitSource& source, std::span<const std::uint32_t> tokens,
                   std::span<float> logits);

/// Scores the windows as llama-perplexity does: of N tokens the positions N/2 to N-2, each
/// predicting the next. model == nullptr compares the float model with itself (one pass).
/// Errors  kNonFinite with window and position.
Result<std::vector<std::vector<TokenScore>>> score_windows(
    const LogitSource& float_model, const LogitSource* model,
    const std::vector<std::vector<std::uint32_t>>& windows, int threads);

/// One question. The model's greedy text up to the first newline (or end of sequence) must equal
/// the answer; white space around both is ignored.
struct TaskItem {
  std::string prompt;
  std::string answer;   ///< Trimmed, not empty, one line.
  std::string spelled;  ///< As the file has it, with the space that it may begin with.
  std::vector<std::uint32_t> tokens;  ///< Of the prompt, BOS included where the tokenizer adds it.
};

/// Reads JSONL lines of {"prompt", "answer"}; limit 0: all.
/// Errors  kSyntax, kMissing, kInconsistent with the line; kTooLittleData without items.
Result<std::vector<TaskItem>> read_task(const std::filesystem::path& path, std::int64_t limit,
                                        const Tokenizer& tokenizer);

/// Most tokens that a source must hold for these items.
std::int64_t task_tokens(const std::vector<TaskItem>& items, const Tokenizer& tokenizer);

/// Share of items answered exactly, with the binomial standard error.
Result<Figure> task_accuracy(const LogitSource& source, const std::vector<TaskItem>& items,
                             const Tokenizer& tokenizer, const std::vector<std::int64_t>& eos);

/// "bytes" and "bits_per_weight" of a run (report/report.h).
struct SizeFigures {
  Json bytes;
  Json bits_per_weight;
};

SizeFigures package_sizes(const Package& package);
/// As the runtime would hold them, without container; "package" and the bits of a file are null.
SizeFigures folder_sizes(const ModelTensors& tensors);
SizeFigures folder_sizes(const QuantizedCheckpoint& checkpoint, const ModelConfig& config);

/// Prompt and generation speed in tokens per second, median of three runs: 128 tokens at once, then
/// 32 one by one (fewer when the session is shorter; null when it has no room for 16).
Result<Json> measure_speed(const LogitSource& source, PackageModel& model,
                           std::span<const std::uint32_t> tokens);

}  // namespace elastiq
