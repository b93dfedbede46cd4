#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"

namespace elastiq {

/// A package of random weights in the shape of a known model, for speed alone.
struct SynthesizeOptions {
  std::string shape;   ///< One of synthetic_shapes().
  int bits = 2;        ///< Of the linear layers: 1 to 4 or 8.
  int embed_bits = 4;  ///< Of the embedding, which is the head too.
  int kept = 8;        ///< Kept columns per matrix of the linear layers, 0 to 64.
  std::uint64_t seed = 1;
  int threads = 2;
  std::filesystem::path out;  ///< Package file.
};

struct SyntheticShape {
  std::string name;
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;
};

/// "135m" (SmolLM2-135M), "0.6b" (Qwen3-0.6B), "1.8b" (Hunyuan-1.8B): hidden size, layers, heads,
/// FFN and vocabulary of these models, tied.
std::vector<std::string> synthetic_shapes();
/// Errors  kInvalidArgument with the known names.
Result<SyntheticShape> synthetic_shape(const std::string& name);

/// Writes the package; the same options give the same bytes. Groups of 64, u8 scales; no tokenizer,
/// no golden vectors. Memory: about one byte per weight.
/// Result  {"package", "package_bytes"}. Errors  kInvalidArgument: shape or bits; kIo.
Result<Json> run_synthesize(const SynthesizeOptions& options);

/// The same of any shape; `options.shape` is not looked at.
Result<Json> synthesize_package(const SyntheticShape& shape, const SynthesizeOptions& options);

}  // namespace elastiq
