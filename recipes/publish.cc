#include "recipes/publish.h"

#include "core/file.h"
#include "core/folder.h"
#include "recipes/stage_list.h"

namespace elastiq {
namespace {

namespace fs = std::filesystem;

/// Ours is a folder without folders in which a source of ours lies, whatever else a make has left
/// there. Makefiles do not tell: every project has one.
Result<bool> is_ours(const fs::path& sources, const fs::path& target) {
  std::error_code failed;
  if (fs::is_symlink(target, failed) || !fs::is_directory(target, failed)) return false;
  bool known = false;
  for (fs::directory_iterator it(target, failed), end; !failed && it != end; it.increment(failed)) {
    std::error_code ignored;
    if (it->is_directory(ignored)) return false;
    const fs::path name = it->path().filename();
    known = known || (name != "Makefile" && fs::exists(sources / name, ignored));
  }
  if (failed) return Error{ErrorCode::kIo, target.string(), failed.message()};
  return known;
}

Status check_replaceable(const fs::path& sources, const fs::path& target) {
  ELQ_TRY(exists, path_exists(target));
  if (!exists) return ok_status();
  ELQ_TRY(ours, is_ours(sources, target));
  if (ours) return ok_status();
  return Error{ErrorCode::kIo, target.string(),
               "is there and not made by elastiq; not overwritten: move it away or give another "
               "--out"};
}

}  // namespace

Status publish_packages(const Recipe& recipe, const fs::path& out) {
  for (const Variant& variant : recipe.variants) {
    const fs::path package = package_path(out, variant);
    ELQ_CHECK(copy_file_atomically(package, out / package.filename()));
    ELQ_CHECK(copy_file_atomically(package.parent_path() / "manifest.json",
                                   out / (variant.name + ".manifest.json")));
  }
  const fs::path kernels = package_path(out, recipe.variants.back()).parent_path() / "kernels";
  ELQ_CHECK(check_replaceable(kernels, out / "kernels"));
  return copy_folder_atomically(kernels, out / "kernels");
}

}  // namespace elastiq
