#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"

namespace elastiq {

/// kResources when the errno value says that the disk is full or a file may not grow (quota,
/// ulimit), else kIo.
ErrorCode io_error_code(int errno_value);

/// Whether something is at the path.
/// Errors  kIo: nobody can tell (no permission, a name too long, a loop of links).
Result<bool> path_exists(const std::filesystem::path& path);

/// A read-only memory-mapped file. An empty file maps to an empty span.
class MappedFile {
 public:
  /// Errors  kIo: missing, not a regular file, not readable.
  static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Writes to `path`.tmp-<pid>; commit() syncs and renames. Without commit nothing is left, at no
/// name.
class AtomicFile {
 public:
  /// Errors  kIo: the folder is missing or not writable.
  static Result<AtomicFile> create(const std::filesystem::path& path);

  ~AtomicFile();
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept = delete;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Errors  kResources when the disk is full, kIo otherwise.
  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text);
  Status commit();

  std::uint64_t offset() const { return offset_; }

 private:
  AtomicFile() = default;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  std::uint64_t offset_ = 0;
};

/// Atomic write of a whole small file.
Status write_file(const std::filesystem::path& path, std::string_view text);

/// A whole text file as UTF-8, byte-order mark removed.
/// Errors  kIo; kLimitExceeded above max_bytes; kBadEncoding: UTF-16 by name, else the offset of
/// the bad byte.
Result<std::string> read_text_file(const std::filesystem::path& path, std::uint64_t max_bytes);

/// Offset of the first byte that is not valid UTF-8, or npos. Overlong forms and surrogates are
/// invalid.
std::size_t find_invalid_utf8(std::string_view text);

}  // namespace elastiq
