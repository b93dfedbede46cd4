#pragma once

#include <filesystem>
#include <string>

#include "core/error.h"

namespace elastiq {

/// How a folder of ours is known: a JSON file in it whose "format" is this text.
struct FolderFormat {
  std::string marker_file;  ///< "quantization.json"
  std::string format;       ///< "elastiq.quantized/1"
};

/// A folder that appears under its name complete or not at all: written as FOLDER.tmp-<pid>, then
/// renamed. A folder of the same kind (any version) is replaced; anything else at the name stays.
class AtomicFolder {
 public:
  /// Errors  kIo: the parent is missing or not writable, or something that is not ours is there.
  static Result<AtomicFolder> create(const std::filesystem::path& path, const FolderFormat& format);

  AtomicFolder(AtomicFolder&& other) noexcept;
  AtomicFolder& operator=(AtomicFolder&&) = delete;
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;
  ~AtomicFolder();

  /// Where to write.
  const std::filesystem::path& temporary() const { return temporary_; }

  Status commit();

 private:
  AtomicFolder() = default;

  std::filesystem::path path_;
  std::filesystem::path temporary_;  ///< Empty once committed.
};

/// Whether the folder is of this kind in this version.
bool has_format(const std::filesystem::path& folder, const FolderFormat& format);

}  // namespace elastiq
