#include "recipes/publish.h"

#include "recipes/stage_list.h"

namespace elastiq {
namespace {

namespace fs = std::filesystem;

/// Never half a file at the final name.
Status place_file(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  const fs::path temporary = to.string() + ".tmp";
  fs::copy_file(from, temporary, fs::copy_options::overwrite_existing, failed);
  if (!failed) fs::rename(temporary, to, failed);
  if (!failed) return ok_status();
  return Error{ErrorCode::kIo, to.string(), failed.message()};
}

Status place_folder(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  const fs::path temporary = to.string() + ".tmp";
  fs::remove_all(temporary, failed);
  fs::copy(from, temporary, fs::copy_options::recursive, failed);
  if (!failed) fs::remove_all(to, failed);
  if (!failed) fs::rename(temporary, to, failed);
  if (!failed) return ok_status();
  return Error{ErrorCode::kIo, to.string(), failed.message()};
}

}  // namespace

Status publish_packages(const Recipe& recipe, const fs::path& out) {
  for (const Variant& variant : recipe.variants) {
    const fs::path package = package_path(out, variant);
    ELQ_CHECK(place_file(package, out / package.filename()));
    ELQ_CHECK(place_file(package.parent_path() / "manifest.json",
                         out / (variant.name + ".manifest.json")));
  }
  const fs::path kernels = package_path(out, recipe.variants.back()).parent_path() / "kernels";
  return place_folder(kernels, out / "kernels");
}

}  // namespace elastiq
