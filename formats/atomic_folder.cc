#include "formats/atomic_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "core/json.h"

namespace elastiq {
namespace fs = std::filesystem;

namespace {

Error io_error(const fs::path& path, const std::string& action, int code) {
  const bool full = code == ENOSPC || code == EDQUOT;
  return Error{full ? ErrorCode::kResources : ErrorCode::kIo, path.string(),
               action + ": " + std::strerror(code), 0};
}

/// The marker's "format", or "" when there is no readable marker.
std::string found_format(const fs::path& folder, const FolderFormat& format) {
  const fs::path marker = folder / format.marker_file;
  std::error_code ignored;
  if (!fs::is_regular_file(marker, ignored)) return "";
  const auto document = read_json_file(marker, JsonLimits{});
  if (!document.ok() || !document.value().is_object()) return "";
  const auto text = json_string_or(document.value(), "format", "", marker.string());
  return text.ok() ? text.value() : "";
}

std::string kind_of(const std::string& format) {
  return format.substr(0, format.find('/'));
}

/// Only what we can make again may be replaced.
Status check_replaceable(const fs::path& path, const FolderFormat& format) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::not_found) return ok_status();
  if (status.type() != fs::file_type::directory) {
    return Error{ErrorCode::kIo, path.string(), "exists and is not a folder", 0};
  }
  const bool empty = fs::is_empty(path, error);
  if (!error && empty) return ok_status();
  if (kind_of(found_format(path, format)) == kind_of(format.format)) return ok_status();
  return Error{ErrorCode::kIo, path.string(),
               "is a folder with other contents (no " + format.marker_file + " of ours); not " +
                   "overwritten",
               0};
}

/// Makes a rename durable. Filesystems that cannot sync a folder do not fail the write.
void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

bool has_format(const fs::path& folder, const FolderFormat& format) {
  return found_format(folder, format) == format.format;
}

Result<AtomicFolder> AtomicFolder::create(const fs::path& path, const FolderFormat& format) {
  AtomicFolder folder;
  folder.path_ = fs::absolute(path).lexically_normal();
  if (folder.path_.filename().empty()) folder.path_ = folder.path_.parent_path();
  ELQ_CHECK(check_replaceable(folder.path_, format));
  const fs::path temporary = folder.path_.string() + ".tmp-" + std::to_string(::getpid());
  std::error_code error;
  fs::remove_all(temporary, error);  // of a dead process with our number
  fs::create_directory(temporary, error);
  if (error) return io_error(path, "cannot create", error.value());
  folder.temporary_ = temporary;
  return folder;
}

AtomicFolder::AtomicFolder(AtomicFolder&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, fs::path())) {}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

Status AtomicFolder::commit() {
  sync_folder(temporary_);
  // Exchanging the names leaves no moment without the old or the new folder; what was there is then
  // under the temporary name and removed by the destructor.
  std::error_code error;
  const bool replaces = fs::exists(path_, error);
  const unsigned int flags = replaces ? RENAME_EXCHANGE : 0;
  if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), flags) != 0) {
    // Not every filesystem can exchange.
    if (!replaces || errno != EINVAL) return io_error(path_, "cannot rename", errno);
    fs::remove_all(path_, error);
    fs::rename(temporary_, path_, error);
    if (error) return io_error(path_, "cannot rename", error.value());
  }
  sync_folder(path_.parent_path());
  if (!replaces) temporary_.clear();
  return ok_status();
}

}  // namespace elastiq
