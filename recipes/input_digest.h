#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "core/error.h"

namespace elastiq {

/// SHA-256 of stage inputs, each read once per run.
class DigestBook {
 public:
  /// A file's digest; of a folder the digest over names and digests of the .json, .jinja,
  /// .safetensors, .model, .elq, .c and .h files and Makefiles in it and below (core/folder.h
  /// files_below), but not stage.json, which holds seconds and memory. Errors  kIo.
  Result<std::string> of(const std::filesystem::path& path);

  /// A path whose bytes have changed.
  void forget(const std::filesystem::path& path) { known_.erase(path.string()); }

 private:
  std::map<std::string, std::string> known_;
};

}  // namespace elastiq
