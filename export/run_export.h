#pragma once

#include <filesystem>
#include <string>

#include "core/error.h"
#include "core/json.h"

namespace elastiq {

struct ExportOptions {
  std::filesystem::path model;  ///< Quantized checkpoint folder, or a Hugging Face folder
                                ///< (everything kept at source type).
  std::filesystem::path out;    ///< Folder: NAME.elq, kernels/, manifest.json.
  std::string name = "model";
  enum class Weights {
    kRaw,
    kZstd
  } weights = Weights::kRaw;  ///< Raw weights can be mapped; zstd is for transport.
  Json provenance;            ///< Resolved recipe and digests, stored in PROV.
};

/// Strips (closed list, with reasons), aliases identical tensors, packs, writes, reads back with
/// the C++ reader and the C runtime and compares with the plan (codes, scales, schemes) and the
/// golden logits, emits kernels/. Nothing gets its final name before all of it is written and read
/// back. Errors  kVerification when the read-back differs; kMissing, kSyntax, kInconsistent: no
/// usable tokenizer.json; kResources when the disk is full. Result  manifest.json's content: bytes
/// by role, bits per weight {"file", "ram"} with basis, stripped, aliased, digests.
Result<Json> run_export(const ExportOptions& options);

}  // namespace elastiq
