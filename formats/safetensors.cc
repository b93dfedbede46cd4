#include "formats/safetensors.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/json.h"
#include "formats/safetensors_header.h"

namespace elastiq {
namespace fs = std::filesystem;

namespace {

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

/// file name -> tensors that the index places in it
using Shards = std::map<std::string, std::set<std::string>>;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

/// File names in a folder, sorted.
Result<std::vector<std::string>> list_files(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error) return Error{ErrorCode::kIo, folder.string(), error.message(), 0};
  std::sort(names.begin(), names.end());
  return names;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// Why a folder without model.safetensors and without an index is refused.
Error no_weights(const fs::path& folder, const std::vector<std::string>& names) {
  std::vector<std::string> pickles;
  std::vector<std::string> others;
  for (const std::string& name : names) {
    const std::string suffix = fs::path(name).extension().string();
    if (suffix == ".bin" || suffix == ".pt" || suffix == ".pth") pickles.push_back(name);
    if (suffix == ".safetensors" || suffix == ".gguf") others.push_back(name);
  }
  const std::string wanted = std::string(kSingleFile) + " or " + kIndexFile;
  if (!pickles.empty() && others.empty()) {
    return Error{ErrorCode::kUnsupportedType, folder.string(),
                 "only PyTorch pickle weights (" + joined(pickles) +
                     "); loading them runs code from the file. Save the model as safetensors",
                 0};
  }
  std::string detail = "no " + wanted;
  if (!others.empty()) detail += "; found " + joined(others);
  return Error{ErrorCode::kMissing, folder.string(), detail, 0};
}

/// Names come from a file: joined to the folder unchecked they could point anywhere.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\:\0", 4)) == std::string::npos;
}

Result<Shards> read_index(const fs::path& path) {
  JsonLimits limits;
  limits.max_depth = 8;
  ELQ_TRY(index, read_json_file(path, limits));
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object()) {
    return Error{ErrorCode::kMissing, path.string(), "needs an object weight_map", 0};
  }
  Shards shards;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || !is_plain_name(file.get_ref<const std::string&>())) {
      return Error{ErrorCode::kInconsistent, path.string(),
                   "weight_map: " + tensor + " is in " + file.dump().substr(0, 300) +
                       "; only plain file names of this folder are allowed",
                   0};
    }
    shards[file.get<std::string>()].insert(tensor);
  }
  if (shards.empty()) {
    return Error{ErrorCode::kMissing, path.string(), "weight_map names no tensor", 0};
  }
  return shards;
}

/// Both ways, before any weight is touched: every shard of the index is on disk.
Status check_shards_exist(const fs::path& index, const Shards& shards) {
  std::vector<std::string> missing;
  for (const auto& [file, tensors] : shards) {
    if (is_file(index.parent_path() / file)) continue;
    missing.push_back(file + " (" + std::to_string(tensors.size()) + " tensors)");
  }
  if (missing.empty()) return ok_status();
  return Error{ErrorCode::kMissing, index.string(),
               "names files that are not in the folder: " + joined(missing), 0};
}

}  // namespace

/// Fills a Checkpoint; the only one who may.
struct CheckpointBuilder {
  Checkpoint result;

  Status add_file(const fs::path& path) {
    ELQ_TRY(file, MappedFile::open(path));
    ELQ_TRY(directory, parse_safetensors(file.bytes(), path.string(), path.filename().string(),
                                         kMaxSafetensorsHeaderBytes));
    result.files_.push_back(std::move(file));
    for (TensorView& tensor : directory.tensors) result.tensors_.push_back(std::move(tensor));
    result.metadata_.merge(directory.metadata);
    return ok_status();
  }

  Status sort() {
    auto& tensors = result.tensors_;
    const auto by_name = [](const TensorView& a, const TensorView& b) { return a.name < b.name; };
    std::stable_sort(tensors.begin(), tensors.end(), by_name);
    const auto same = std::adjacent_find(
        tensors.begin(), tensors.end(),
        [](const TensorView& a, const TensorView& b) { return a.name == b.name; });
    if (same == tensors.end()) return ok_status();
    return Error{ErrorCode::kDuplicate, same->name,
                 "in two files: " + same->file + " and " + (same + 1)->file, 0};
  }

  /// The index and the shards' own directories must agree on where each tensor is.
  Status compare_with_index(const fs::path& index, const Shards& shards) {
    std::size_t named = 0;
    for (const auto& [file, tensors] : shards) {
      named += tensors.size();
      for (const std::string& name : tensors) {
        const TensorView* tensor = result.find(name);
        if (tensor != nullptr && tensor->file == file) continue;
        const std::string truth = tensor == nullptr ? "no file has it" : "it is in " + tensor->file;
        return Error{ErrorCode::kMissing, index.string(),
                     "places " + name + " in " + file + ", but " + truth, 0};
      }
    }
    if (named != result.tensors_.size()) {
      result.warnings_.push_back(index.filename().string() + " names " + std::to_string(named) +
                                 " tensors, its files hold " +
                                 std::to_string(result.tensors_.size()) + "; all are used");
    }
    return ok_status();
  }

  void warn_unused(const std::vector<std::string>& names, const Shards& used) {
    for (const std::string& name : names) {
      if (fs::path(name).extension() != ".safetensors" || used.contains(name)) continue;
      result.warnings_.push_back("unused file " + name + ": the index does not name it");
    }
  }

  Status add_folder(const fs::path& folder) {
    ELQ_TRY(names, list_files(folder));
    const fs::path index = folder / kIndexFile;
    if (is_file(folder / kSingleFile)) {
      // As transformers does: the single file comes first, an index beside it is not read.
      if (is_file(index)) {
        result.warnings_.push_back(std::string("unused file ") + kIndexFile + ": " + kSingleFile +
                                   " is complete by itself");
      }
      ELQ_CHECK(add_file(folder / kSingleFile));
      return sort();
    }
    if (!is_file(index)) return no_weights(folder, names);
    ELQ_TRY(shards, read_index(index));
    ELQ_CHECK(check_shards_exist(index, shards));
    for (const auto& [file, tensors] : shards) ELQ_CHECK(add_file(folder / file));
    ELQ_CHECK(sort());
    ELQ_CHECK(compare_with_index(index, shards));
    warn_unused(names, shards);
    return ok_status();
  }
};

std::uint64_t TensorView::elements() const {
  return bytes.size() / dtype_bytes(dtype);
}

Result<Checkpoint> Checkpoint::open(const fs::path& path) {
  CheckpointBuilder builder;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    ELQ_CHECK(builder.add_folder(path));
  } else {
    ELQ_CHECK(builder.add_file(path));
    ELQ_CHECK(builder.sort());
  }
  return std::move(builder.result);
}

const TensorView* Checkpoint::find(const std::string& name) const {
  const auto found = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const TensorView& tensor, const std::string& wanted) { return tensor.name < wanted; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

}  // namespace elastiq
