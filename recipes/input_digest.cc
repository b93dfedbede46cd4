#include "recipes/input_digest.h"

#include "core/digest.h"
#include "core/folder.h"

namespace elastiq {
namespace {

namespace fs = std::filesystem;

Result<std::string> file_digest(const fs::path& path) {
  ELQ_TRY(digest, sha256_file(path));
  return to_hex(digest);
}

bool counts(const fs::path& file) {
  const std::string suffix = file.extension().string();
  const bool is_data = suffix == ".json" || suffix == ".jinja" || suffix == ".safetensors" ||
                       suffix == ".model" || suffix == ".elq";
  const bool is_source = suffix == ".c" || suffix == ".h" || file.filename() == "Makefile";
  return is_source || (is_data && file.filename() != "stage.json");
}

Result<std::string> folder_digest(const fs::path& folder) {
  ELQ_TRY(files, files_below(folder));
  Sha256Hasher hasher;
  for (const fs::path& file : files) {
    if (!counts(file)) continue;
    ELQ_TRY(digest, file_digest(folder / file));
    hasher.update(file.generic_string() + '\0' + digest + '\n');
  }
  return to_hex(hasher.finish());
}

}  // namespace

Result<std::string> DigestBook::of(const fs::path& path) {
  const auto known = known_.find(path.string());
  if (known != known_.end()) return known->second;
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  ELQ_TRY(digest, is_folder ? folder_digest(path) : file_digest(path));
  known_[path.string()] = digest;
  return digest;
}

}  // namespace elastiq
