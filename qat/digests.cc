#include "qat/digests.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "core/digest.h"

namespace elastiq {

namespace {

namespace fs = std::filesystem;

bool decides(const fs::path& file) {
  const std::string name = file.filename().string();
  return file.extension() == ".safetensors" || name == "model.safetensors.index.json" ||
         name == "config.json" || name == "tokenizer.json" || name == "tokenizer_config.json" ||
         name == "chat_template.jinja" || name == "quantization.json";
}

std::string shown(const Json& flat, const std::string& key) {
  const auto found = flat.find(key);
  return found == flat.end() ? "absent" : found->dump();
}

}  // namespace

Result<Json> digest_model_folder(const fs::path& folder) {
  std::error_code failed;
  std::set<fs::path> files;
  fs::directory_iterator entries(folder, failed);
  if (failed) return Error{ErrorCode::kIo, folder.string(), failed.message()};
  for (const auto& entry : entries) {
    if (decides(entry.path())) files.insert(entry.path());
  }
  Json digests = Json::object();
  for (const fs::path& file : files) {
    ELQ_TRY(digest, sha256_file(file));
    digests[file.filename().string()] = to_hex(digest);
  }
  return digests;
}

Result<Json> digest_files(const std::vector<fs::path>& files) {
  Json digests = Json::object();
  for (std::size_t i = 0; i < files.size(); ++i) {
    ELQ_TRY(digest, sha256_file(files[i]));
    digests[fmt::format("{}:{}", i, files[i].filename().string())] = to_hex(digest);
  }
  return digests;
}

std::string describe_difference(const Json& before, const Json& now) {
  const Json flat_before = before.flatten();
  const Json flat_now = now.flatten();
  std::set<std::string> keys;
  for (const auto& [key, value] : flat_before.items()) keys.insert(key);
  for (const auto& [key, value] : flat_now.items()) keys.insert(key);
  std::string text;
  for (const std::string& key : keys) {
    const std::string was = shown(flat_before, key);
    const std::string is = shown(flat_now, key);
    if (was == is) continue;
    text += fmt::format("{}{}: was {}, is {}", text.empty() ? "" : "; ", key.substr(1), was, is);
  }
  return text;
}

}  // namespace elastiq
