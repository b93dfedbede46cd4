#include "model/model_digest.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include "core/digest.h"

namespace elastiq {

Result<std::string> model_digest(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const fs::path name = entry.path().filename();
    const bool counts = name == "config.json" || name == "tokenizer.json" ||
                        name == "tokenizer_config.json" || name == "chat_template.jinja" ||
                        name.extension() == ".safetensors";
    if (counts) files.push_back(entry.path());
  }
  if (error) return Error{ErrorCode::kIo, folder.string(), error.message(), 0};
  std::sort(files.begin(), files.end());
  Sha256Hasher hasher;
  for (const fs::path& file : files) {
    ELQ_TRY(digest, sha256_file(file));
    hasher.update(file.filename().string() + " " + to_hex(digest) + "\n");
  }
  return to_hex(hasher.finish());
}

}  // namespace elastiq
