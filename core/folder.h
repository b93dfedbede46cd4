#pragma once

#include <filesystem>
#include <vector>

#include "core/error.h"

namespace elastiq {

/// The regular files below a folder, as paths relative to it, sorted. A link to a file counts as
/// the file; links to folders and what is in hidden folders (.git, .cache) are left out.
/// Errors  kIo.
Result<std::vector<std::filesystem::path>> files_below(const std::filesystem::path& folder);

/// The name of the folder next to `path` that is written before it becomes `path`.
std::filesystem::path temporary_name(const std::filesystem::path& path);

/// Gives a finished folder its final name, durably. A folder that has the name is exchanged with
/// it, so that there is no moment without one, and removed. On an error `finished` is still there.
/// Errors  kResources when the disk is full, kIo otherwise.
Status put_in_place(const std::filesystem::path& finished, const std::filesystem::path& path);

/// Copies a file; complete at its name or not at all. Errors as above.
Status copy_file_atomically(const std::filesystem::path& from, const std::filesystem::path& to);

/// Copies files_below(from) into a folder that replaces what is at `to`; complete or not at all.
/// Errors as above.
Status copy_folder_atomically(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace elastiq
