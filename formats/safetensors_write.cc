#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "core/json.h"
#include "formats/safetensors.h"
#include "formats/safetensors_header.h"

namespace elastiq {
namespace {

Status check_tensor(const TensorToWrite& tensor) {
  if (tensor.name == "__metadata__" || tensor.name.empty()) {
    return Error{ErrorCode::kInconsistent, tensor.name, "not a tensor name", 0};
  }
  const std::size_t bad = find_invalid_utf8(tensor.name);
  if (bad != std::string::npos) {
    return Error{ErrorCode::kBadEncoding, tensor.name, "the name is not valid UTF-8", bad};
  }
  const auto bytes = tensor_bytes(tensor.dtype, tensor.shape);
  if (bytes && *bytes == tensor.bytes.size()) return ok_status();
  return Error{ErrorCode::kInconsistent, tensor.name,
               "shape and type need " + (bytes ? std::to_string(*bytes) : "too many") +
                   " bytes, given " + std::to_string(tensor.bytes.size()),
               0};
}

/// Wider types first, so that every tensor lies on a multiple of its element size (numpy and torch
/// views need that); then by name.
Status sort_for_writing(std::vector<TensorToWrite>& tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorToWrite& a, const TensorToWrite& b) { return a.name < b.name; });
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    if (tensors[i - 1].name != tensors[i].name) continue;
    return Error{ErrorCode::kDuplicate, tensors[i].name, "two tensors of this name", 0};
  }
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const TensorToWrite& a, const TensorToWrite& b) {
                     return dtype_bytes(a.dtype) > dtype_bytes(b.dtype);
                   });
  return ok_status();
}

Result<std::string> header_text(const std::filesystem::path& path,
                                const std::vector<TensorToWrite>& tensors,
                                const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) {
    Json entries = Json::object();
    for (const auto& [key, value] : metadata) entries[key] = value;
    header["__metadata__"] = std::move(entries);
  }
  std::uint64_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    Json entry = Json::object();
    entry["dtype"] = std::string(dtype_name(tensor.dtype));
    entry["shape"] = tensor.shape;
    entry["data_offsets"] = {offset, offset + tensor.bytes.size()};
    offset += tensor.bytes.size();
    header[tensor.name] = std::move(entry);
  }
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kMaxSafetensorsHeaderBytes) {
    return Error{ErrorCode::kLimitExceeded, path.string(),
                 "the header would have " + std::to_string(text.size()) + " bytes, at most " +
                     std::to_string(kMaxSafetensorsHeaderBytes),
                 0};
  }
  return text;
}

}  // namespace

Status write_safetensors(const std::filesystem::path& path, std::vector<TensorToWrite> tensors,
                         const std::map<std::string, std::string>& metadata) {
  for (const TensorToWrite& tensor : tensors) ELQ_CHECK(check_tensor(tensor));
  ELQ_CHECK(sort_for_writing(tensors));
  ELQ_TRY(header, header_text(path, tensors, metadata));
  ELQ_TRY(file, AtomicFile::create(path));
  const std::uint64_t length = header.size();
  ELQ_CHECK(file.write(std::as_bytes(std::span(&length, 1))));
  ELQ_CHECK(file.write(header));
  for (const TensorToWrite& tensor : tensors) ELQ_CHECK(file.write(tensor.bytes));
  return file.commit();
}

}  // namespace elastiq
