#include "core/folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include "core/file.h"

namespace elastiq {
namespace fs = std::filesystem;

namespace {

Error io_error(const fs::path& path, const std::string& action, const std::error_code& code) {
  return Error{io_error_code(code.value()), path.string(), action + ": " + code.message(), 0};
}

/// Makes a rename durable. Filesystems that cannot sync a folder do not fail the write.
void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

std::error_code rename_with(const fs::path& from, const fs::path& to, unsigned int flags) {
  const int failed = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags);
  return failed == 0 ? std::error_code() : std::error_code(errno, std::generic_category());
}

/// For filesystems that cannot exchange two names: the old folder steps aside and comes back when
/// the new one cannot take its place.
std::error_code replace_by_renames(const fs::path& finished, const fs::path& path) {
  const fs::path aside = finished.string() + "-old";
  std::error_code failed;
  std::error_code ignored;
  fs::rename(path, aside, failed);
  if (failed) return failed;
  fs::rename(finished, path, failed);
  if (failed) {
    fs::rename(aside, path, ignored);
    return failed;
  }
  fs::remove_all(aside, ignored);
  return failed;
}

Status copy_into(const fs::path& from, const fs::path& folder) {
  ELQ_TRY(files, files_below(from));
  std::error_code failed;
  fs::create_directory(folder, failed);
  for (const fs::path& file : files) {
    fs::create_directories((folder / file).parent_path(), failed);
    if (failed) return io_error(folder, "cannot create", failed);
    ELQ_CHECK(copy_file_atomically(from / file, folder / file));
  }
  if (failed) return io_error(folder, "cannot create", failed);
  return ok_status();
}

}  // namespace

Result<std::vector<fs::path>> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failed;
  for (fs::recursive_directory_iterator it(folder, failed), end; !failed && it != end;
       it.increment(failed)) {
    std::error_code ignored;  // A link to nothing is no file.
    const fs::path name = it->path().filename();
    if (it->is_directory(ignored) && name.string().front() == '.') it.disable_recursion_pending();
    if (it->is_regular_file(ignored)) files.push_back(it->path().lexically_relative(folder));
  }
  if (failed) return io_error(folder, "cannot list", failed);
  std::sort(files.begin(), files.end());
  return files;
}

fs::path temporary_name(const fs::path& path) {
  return path.string() + ".tmp-" + std::to_string(::getpid());
}

Status put_in_place(const fs::path& finished, const fs::path& path) {
  sync_folder(finished);
  ELQ_TRY(replaces, path_exists(path));
  std::error_code failed = rename_with(finished, path, replaces ? RENAME_EXCHANGE : 0);
  const bool exchanged = replaces && !failed;
  // Not every filesystem can exchange.
  if (replaces && failed.value() == EINVAL) failed = replace_by_renames(finished, path);
  if (failed) return io_error(path, "cannot rename", failed);
  sync_folder(path.parent_path());
  std::error_code ignored;
  if (exchanged) fs::remove_all(finished, ignored);
  return ok_status();
}

Status copy_file_atomically(const fs::path& from, const fs::path& to) {
  ELQ_TRY(source, MappedFile::open(from));
  ELQ_TRY(file, AtomicFile::create(to));
  ELQ_CHECK(file.write(source.bytes()));
  return file.commit();
}

Status copy_folder_atomically(const fs::path& from, const fs::path& to) {
  const fs::path temporary = temporary_name(to);
  std::error_code ignored;
  fs::remove_all(temporary, ignored);  // of a dead process with our number
  Status status = copy_into(from, temporary);
  if (status.ok()) status = put_in_place(temporary, to);
  if (!status.ok()) fs::remove_all(temporary, ignored);
  return status;
}

}  // namespace elastiq
