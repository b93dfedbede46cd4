#include "qat/train_state.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>
#include <vector>

#include "core/digest.h"
#include "core/file.h"
#include "formats/safetensors.h"

namespace elastiq {

namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "elastiq.qat-state/1";
constexpr JsonLimits kLimits{.max_bytes = 256u << 20, .max_depth = 16};

std::span<const std::byte> bytes_of(const torch::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

DType dtype_of(const torch::Tensor& tensor) {
  return tensor.scalar_type() == torch::kUInt8 ? DType::kU8 : DType::kF32;
}

std::vector<std::uint64_t> shape_of(const torch::Tensor& tensor) {
  std::vector<std::uint64_t> shape;
  for (const std::int64_t d : tensor.sizes()) shape.push_back(static_cast<std::uint64_t>(d));
  return shape;
}

/// Tensor files of older steps; failing to remove one does no harm.
void remove_others(const fs::path& folder, const std::string& keep) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-") && name != keep) fs::remove(entry.path(), ignored);
  }
}

/// Of everything in the document but this digest.
std::string digest_of(Json document) {
  document.erase("sha256");
  return to_hex(sha256(dump_json(document)));
}

/// A state that something else than save_state has changed would end in another model than an
/// unbroken run, so its digests are checked before anything of it is used.
Result<Json> read_state_json(const fs::path& path) {
  ELQ_TRY(document, read_json_file(path, kLimits));
  ELQ_TRY(format, json_string_or(document, "format", "", path.string()));
  if (format != kFormat) {
    return Error{ErrorCode::kUnsupportedVersion, path.string(),
                 fmt::format("format is '{}', expected '{}'", format, kFormat)};
  }
  ELQ_TRY(digest, json_string_or(document, "sha256", "", path.string()));
  if (digest != digest_of(document)) {
    return Error{ErrorCode::kVerification, path.string(),
                 "was changed after it was written; remove its folder to train from the start"};
  }
  return document;
}

}  // namespace

Status save_state(const fs::path& folder, const TrainState& state) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return Error{ErrorCode::kIo, folder.string(), failed.message()};
  const std::string file = fmt::format("step-{:08}.safetensors", state.step);
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, tensor] : state.tensors) {
    tensors.push_back({name, dtype_of(tensor), shape_of(tensor), bytes_of(tensor)});
  }
  ELQ_CHECK(write_safetensors(folder / file, std::move(tensors), {}));
  ELQ_TRY(digest, sha256_file(folder / file));
  Json document{{"format", kFormat},
                {"step", state.step},
                {"phase", state.phase},
                {"updates", state.updates},
                {"seconds", state.seconds},
                {"file", file},
                {"file_sha256", to_hex(digest)},
                {"fingerprint", state.fingerprint},
                {"curve", state.curve}};
  document["sha256"] = digest_of(document);
  ELQ_CHECK(write_file(folder / "state.json", dump_json(document)));
  remove_others(folder, file);
  return ok_status();
}

Result<std::optional<TrainState>> load_state(const fs::path& folder) {
  const fs::path path = folder / "state.json";
  std::error_code failed;
  if (!fs::exists(path, failed)) return std::optional<TrainState>();
  ELQ_TRY(document, read_state_json(path));
  TrainState state;
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  ELQ_TRY(step, json_int(document, "step", 0, kMost, path.string()));
  ELQ_TRY(updates, json_int(document, "updates", 0, kMost, path.string()));
  ELQ_TRY(phase, json_string_or(document, "phase", "", path.string()));
  ELQ_TRY(seconds, json_double_or(document, "seconds", 0.0, path.string()));
  if (!document.contains("fingerprint") || !document.contains("curve")) {
    return Error{ErrorCode::kInconsistent, path.string(), "fingerprint or curve is absent"};
  }
  state.step = step;
  state.updates = updates;
  state.phase = phase;
  state.seconds = seconds;
  state.fingerprint = document.at("fingerprint");
  state.curve = document.at("curve");
  return std::optional<TrainState>(std::move(state));
}

Status load_state_tensors(const fs::path& folder,
                          const std::map<std::string, torch::Tensor>& tensors) {
  ELQ_TRY(document, read_state_json(folder / "state.json"));
  ELQ_TRY(file, json_string_or(document, "file", "", (folder / "state.json").string()));
  // Only a plain name of ours, so that a damaged state cannot lead out of its folder.
  const fs::path path = folder / fs::path(file).filename();
  ELQ_TRY(expected, json_string_or(document, "file_sha256", "", (folder / "state.json").string()));
  ELQ_TRY(found, sha256_file(path));
  if (to_hex(found) != expected) {
    return Error{ErrorCode::kVerification, path.string(),
                 "was changed after it was written; remove its folder to train from the start"};
  }
  ELQ_TRY(stored, Checkpoint::open(path));
  for (const auto& [name, tensor] : tensors) {
    const TensorView* view = stored.find(name);
    if (view == nullptr) {
      return Error{ErrorCode::kMissing, file, fmt::format("tensor '{}' is missing", name)};
    }
    if (view->dtype != dtype_of(tensor) || view->shape != shape_of(tensor)) {
      return Error{ErrorCode::kInconsistent, file,
                   fmt::format("tensor '{}' has another type or shape than this run's", name)};
    }
    std::memcpy(tensor.data_ptr(), view->bytes.data(), view->bytes.size());
  }
  return ok_status();
}

}  // namespace elastiq
