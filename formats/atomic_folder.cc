#include "formats/atomic_folder.h"

#include <cstring>
#include <system_error>
#include <utility>

#include "core/file.h"
#include "core/folder.h"
#include "core/json.h"

namespace elastiq {
namespace fs = std::filesystem;

namespace {

Error io_error(const fs::path& path, const std::string& action, int code) {
  return Error{io_error_code(code), path.string(), action + ": " + std::strerror(code), 0};
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

}  // namespace

bool has_format(const fs::path& folder, const FolderFormat& format) {
  return found_format(folder, format) == format.format;
}

Result<AtomicFolder> AtomicFolder::create(const fs::path& path, const FolderFormat& format) {
  AtomicFolder folder;
  folder.path_ = fs::absolute(path).lexically_normal();
  if (folder.path_.filename().empty()) folder.path_ = folder.path_.parent_path();
  ELQ_CHECK(check_replaceable(folder.path_, format));
  const fs::path temporary = temporary_name(folder.path_);
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
  ELQ_CHECK(put_in_place(temporary_, path_));
  temporary_.clear();
  return ok_status();
}

}  // namespace elastiq
