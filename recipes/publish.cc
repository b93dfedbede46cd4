#include "recipes/publish.h"

#include <algorithm>

#include "core/digest.h"
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

std::string manifest_name(const Variant& variant) {
  return variant.name + ".manifest.json";
}

Result<std::string> file_digest(const fs::path& path) {
  ELQ_TRY(file, MappedFile::open(path));
  return to_hex(sha256(file.bytes()));
}

bool lists(const Json& outputs, const std::string& file) {
  return std::any_of(outputs.begin(), outputs.end(),
                     [&file](const Json& entry) { return entry.at("file") == file; });
}

/// The outputs that an earlier run's lock lists; none where it cannot be read.
Json earlier_outputs(const fs::path& out) {
  std::error_code ignored;
  const fs::path lock = out / "recipe.lock.json";
  if (!fs::is_regular_file(lock, ignored)) return Json::array();
  const auto json = read_json_file(lock, JsonLimits{});
  if (!json.ok() || !json.value().is_object()) return Json::array();
  const Json outputs = json.value().value("outputs", Json::array());
  Json sound = Json::array();
  for (const Json& entry : outputs) {
    const bool has_both = entry.is_object() && entry.contains("file") &&
                          entry["file"].is_string() && entry.contains("sha256") &&
                          entry["sha256"].is_string();
    if (!has_both) continue;
    // A name alone: nothing outside the folder.
    const fs::path name = entry["file"].get<std::string>();
    if (!name.empty() && name == name.filename()) sound.push_back(entry);
  }
  return sound;
}

}  // namespace

Result<Json> published_outputs(const Recipe& recipe, const fs::path& out) {
  Json outputs = Json::array();
  for (const Variant& variant : recipe.variants) {
    for (const std::string& name : {variant.name + ".elq", manifest_name(variant)}) {
      ELQ_TRY(digest, file_digest(out / name));
      outputs.push_back({{"file", name}, {"sha256", digest}});
    }
  }
  return outputs;
}

Result<std::vector<std::string>> remove_stale_outputs(const fs::path& out, const Json& outputs) {
  for (const Json& entry : earlier_outputs(out)) {
    const auto name = entry["file"].get<std::string>();
    if (lists(outputs, name)) continue;
    const auto digest = file_digest(out / name);
    std::error_code ignored;
    if (digest.ok() && digest.value() == entry["sha256"]) fs::remove(out / name, ignored);
  }
  std::vector<std::string> warnings;
  std::error_code failed;
  for (fs::directory_iterator it(out, failed), end; !failed && it != end; it.increment(failed)) {
    const std::string name = it->path().filename().string();
    if (it->path().extension() != ".elq" || name[0] == '.' || lists(outputs, name)) continue;
    warnings.push_back(name + ": no result of this recipe; left in the folder by something else");
  }
  if (failed) return Error{ErrorCode::kIo, out.string(), failed.message()};
  std::sort(warnings.begin(), warnings.end());
  return warnings;
}

Status publish_packages(const Recipe& recipe, const fs::path& out) {
  for (const Variant& variant : recipe.variants) {
    const fs::path package = package_path(out, variant);
    ELQ_CHECK(copy_file_atomically(package, out / package.filename()));
    ELQ_CHECK(copy_file_atomically(package.parent_path() / "manifest.json",
                                   out / manifest_name(variant)));
  }
  const fs::path kernels = package_path(out, recipe.variants.back()).parent_path() / "kernels";
  ELQ_CHECK(check_replaceable(kernels, out / "kernels"));
  return copy_folder_atomically(kernels, out / "kernels");
}

}  // namespace elastiq
