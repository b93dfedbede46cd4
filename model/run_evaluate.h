#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/error.h"
#include "core/json.h"

namespace elastiq {

/// A model against the float model on held-out text, as llama-perplexity scores it: contexts of N
/// tokens, the second half of each scored. A package runs in the C runtime, folders in the LibTorch
/// decoder.
struct EvaluateOptions {
  std::filesystem::path float_model;  ///< Hugging Face folder.
  std::filesystem::path model;  ///< Package, quantized checkpoint folder, or Hugging Face folder.
  std::filesystem::path text;
  std::int64_t context = 512;
  std::int64_t contexts = 0;    ///< 0: all complete ones.
  std::filesystem::path task;   ///< JSONL of {"prompt", "answer"}; empty: no task accuracy.
  std::int64_t task_limit = 0;  ///< 0: all.
  std::string name;             ///< Of the run; default: the file name.
  std::string kind;             ///< "float", "ptq", "qat"; default: from the model.
  int threads = 2;
};

/// One run of elastiq.report/1 (see report/report.h), plus "kl_per_context" for paired comparisons.
Result<Json> run_evaluate(const EvaluateOptions& options);

}  // namespace elastiq
