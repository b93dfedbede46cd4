#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/error.h"
#include "core/file.h"

namespace elastiq {

/// One tensor of a checkpoint; bytes point into a mapped file.
struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> bytes;
  std::string file;  ///< File name, for errors.

  std::uint64_t elements() const;
};

/// A mapped checkpoint: one safetensors file or the shards of an index.
class Checkpoint {
 public:
  /// path: a .safetensors file, or a folder with model.safetensors or model.safetensors.index.json.
  /// Errors  docs/errors.md; every rule of formats/SUBSET-safetensors.md.
  static Result<Checkpoint> open(const std::filesystem::path& path);

  /// Sorted by name.
  const std::vector<TensorView>& tensors() const { return tensors_; }

  /// nullptr when absent.
  const TensorView* find(const std::string& name) const;

  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// What was odd but legal: an unused shard file, say.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  friend struct CheckpointBuilder;
  std::vector<MappedFile> files_;
  std::vector<TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
  std::vector<std::string> warnings_;
};

/// A tensor to write; bytes stay alive until the write returns.
struct TensorToWrite {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> bytes;
};

/// Deterministic and atomic: wider element types first (so that every tensor is aligned to its own
/// type), then by name; header padded with spaces to 8 bytes.
/// Errors  kDuplicate, kInconsistent (bytes do not match shape), kIo, kResources.
Status write_safetensors(const std::filesystem::path& path, std::vector<TensorToWrite> tensors,
                         const std::map<std::string, std::string>& metadata);

}  // namespace elastiq
