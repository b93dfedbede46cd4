#include "formats/quantized_checkpoint.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>
#include <utility>

#include "formats/atomic_folder.h"
#include "formats/tensor_access.h"
#include "kernels/elq_layout.h"

namespace elastiq {
namespace fs = std::filesystem;

namespace {

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kDescription = "quantization.json";

FolderFormat folder_format() {
  return {kDescription, "elastiq.quantized/1"};
}

std::uint64_t u64(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

Result<QuantizedMatrix> read_matrix(const std::string& name, const Json& entry,
                                    TensorTaker& tensors, const std::string& subject) {
  const std::string where = subject + ": /matrices/" + name;
  ELQ_TRY(scheme_text, json_string_or(entry, "scheme", "", where));
  auto scheme = parse_scheme(scheme_text);
  if (!scheme.ok()) {
    return Error{ErrorCode::kInconsistent, where, to_string(scheme.error()), 0};
  }
  QuantizedMatrix matrix;
  matrix.scheme = scheme.value();
  ELQ_TRY(rows, json_int(entry, "rows", 1, ELQ_MAX_DIM, where));
  ELQ_TRY(cols, json_int(entry, "cols", 1, ELQ_MAX_DIM, where));
  ELQ_TRY(kept, json_int(entry, "kept", 0, ELQ_MAX_KEPT_COLUMNS, where));
  if (entry.size() != 4) {
    return Error{ErrorCode::kInconsistent, where, "allowed keys: scheme, rows, cols, kept", 0};
  }
  matrix.rows = rows;
  matrix.cols = cols;
  const std::uint64_t n = u64(rows);
  const std::uint64_t groups = u64(matrix.groups());
  ELQ_CHECK(tensors.take_values(name + ".codes", DType::kU8, {n, u64(cols)}, matrix.codes));
  if (matrix.scheme.scale != ScaleMode::kF16) {
    ELQ_CHECK(tensors.take_values(name + ".row_scales", DType::kF32, {n}, matrix.row_scales));
  }
  if (matrix.scheme.scale == ScaleMode::kU8) {
    ELQ_CHECK(tensors.take_values(name + ".u8_scales", DType::kU8, {n, groups}, matrix.u8_scales));
  }
  if (matrix.scheme.scale == ScaleMode::kF16) {
    ELQ_CHECK(
        tensors.take_values(name + ".f16_scales", DType::kF16, {n, groups}, matrix.f16_scales));
  }
  if (kept > 0) {
    const std::uint64_t k = u64(kept);
    ELQ_CHECK(tensors.take_values(name + ".kept_index", DType::kU16, {k}, matrix.kept_index));
    ELQ_CHECK(tensors.take_values(name + ".kept_scales", DType::kF32, {k}, matrix.kept_scales));
    ELQ_CHECK(tensors.take_values(name + ".kept_values", DType::kI8, {k, n}, matrix.kept_values));
  }
  ELQ_CHECK(check_matrix(matrix, where));
  return matrix;
}

/// The parts of quantization.json, each of the expected JSON type.
struct Description {
  const Json* matrices = nullptr;
  const Json* plain = nullptr;
  const Json* info = nullptr;
};

Result<Description> parse_description(const Json& document, const std::string& subject) {
  ELQ_TRY(format, json_string_or(document, "format", "", subject));
  if (format != folder_format().format) {
    return Error{ErrorCode::kUnsupportedVersion, subject,
                 "format is '" + format.substr(0, 40) + "', expected " + folder_format().format, 0};
  }
  Description parts;
  for (const auto& [key, value] : document.items()) {
    if (key == "matrices" && value.is_object()) {
      parts.matrices = &value;
    } else if (key == "plain" && value.is_array()) {
      parts.plain = &value;
    } else if (key == "info") {
      parts.info = &value;
    } else if (key != "format") {
      return Error{ErrorCode::kInconsistent, subject,
                   "unknown key or wrong type: /" + key.substr(0, 40), 0};
    }
  }
  if (parts.matrices != nullptr && parts.plain != nullptr && parts.info != nullptr) return parts;
  return Error{ErrorCode::kMissing, subject, "needs matrices, plain and info", 0};
}

Status read_plain(const Json& names, TensorTaker& tensors, const std::string& subject,
                  std::map<std::string, QuantizedCheckpoint::Plain>& out) {
  for (const Json& name : names) {
    if (!name.is_string()) {
      return Error{ErrorCode::kInconsistent, subject, "/plain has an element that is no string", 0};
    }
    ELQ_TRY(tensor, tensors.take(name.get_ref<const std::string&>()));
    QuantizedCheckpoint::Plain plain{
        tensor->dtype, tensor->shape, {tensor->bytes.begin(), tensor->bytes.end()}};
    if (out.emplace(tensor->name, std::move(plain)).second) continue;
    return Error{ErrorCode::kDuplicate, subject, "/plain names " + tensor->name + " twice", 0};
  }
  return ok_status();
}

void add_matrix(const std::string& name, const QuantizedMatrix& m,
                std::vector<TensorToWrite>& tensors) {
  const std::uint64_t rows = u64(m.rows);
  const std::uint64_t groups = u64(m.groups());
  tensors.push_back(tensor_to_write(name + ".codes", DType::kU8, {rows, u64(m.cols)}, m.codes));
  if (!m.row_scales.empty()) {
    tensors.push_back(tensor_to_write(name + ".row_scales", DType::kF32, {rows}, m.row_scales));
  }
  if (!m.u8_scales.empty()) {
    tensors.push_back(
        tensor_to_write(name + ".u8_scales", DType::kU8, {rows, groups}, m.u8_scales));
  }
  if (!m.f16_scales.empty()) {
    tensors.push_back(
        tensor_to_write(name + ".f16_scales", DType::kF16, {rows, groups}, m.f16_scales));
  }
  if (m.kept_index.empty()) return;
  const std::uint64_t kept = m.kept_index.size();
  tensors.push_back(tensor_to_write(name + ".kept_index", DType::kU16, {kept}, m.kept_index));
  tensors.push_back(tensor_to_write(name + ".kept_scales", DType::kF32, {kept}, m.kept_scales));
  tensors.push_back(
      tensor_to_write(name + ".kept_values", DType::kI8, {kept, rows}, m.kept_values));
}

Json describe(const QuantizedCheckpoint& checkpoint) {
  Json matrices = Json::object();
  for (const auto& [name, matrix] : checkpoint.matrices) {
    Json entry = Json::object();
    entry["scheme"] = scheme_name(matrix.scheme);
    entry["rows"] = matrix.rows;
    entry["cols"] = matrix.cols;
    entry["kept"] = matrix.kept_index.size();
    matrices[name] = std::move(entry);
  }
  Json plain = Json::array();
  for (const auto& [name, tensor] : checkpoint.plain) plain.push_back(name);
  Json document = Json::object();
  document["format"] = folder_format().format;
  document["info"] = checkpoint.info;
  document["matrices"] = std::move(matrices);
  document["plain"] = std::move(plain);
  return document;
}

bool is_companion(const std::string& name) {
  constexpr std::array<std::string_view, 6> kNames = {
      "config.json",         "tokenizer.json",         "tokenizer_config.json",
      "chat_template.jinja", "generation_config.json", "tokenizer.model"};
  return name.starts_with("LICENSE") ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

/// Byte for byte, through the same writer as everything else.
Status copy_companions(const fs::path& from, const fs::path& to) {
  std::error_code error;
  for (fs::directory_iterator it(from, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const std::string name = it->path().filename().string();
    if (!is_companion(name) || !it->is_regular_file(ignored)) continue;
    ELQ_TRY(source, MappedFile::open(it->path()));
    ELQ_TRY(target, AtomicFile::create(to / name));
    ELQ_CHECK(target.write(source.bytes()));
    ELQ_CHECK(target.commit());
  }
  if (!error) return ok_status();
  return Error{ErrorCode::kIo, from.string(), "cannot list: " + error.message(), 0};
}

}  // namespace

Result<QuantizedCheckpoint> read_quantized_checkpoint(const fs::path& folder) {
  const fs::path path = folder / kDescription;
  const std::string subject = path.string();
  ELQ_TRY(document, read_json_file(path, JsonLimits{}));
  ELQ_TRY(parts, parse_description(document, subject));
  ELQ_TRY(file, Checkpoint::open(folder / kWeights));
  TensorTaker tensors(file, subject);
  QuantizedCheckpoint checkpoint;
  for (const auto& [name, entry] : parts.matrices->items()) {
    ELQ_TRY(matrix, read_matrix(name, entry, tensors, subject));
    checkpoint.matrices.emplace(name, std::move(matrix));
  }
  ELQ_CHECK(read_plain(*parts.plain, tensors, subject, checkpoint.plain));
  ELQ_CHECK(tensors.check_all_taken());
  checkpoint.info = *parts.info;
  return checkpoint;
}

Status write_quantized_checkpoint(const fs::path& folder, const QuantizedCheckpoint& checkpoint,
                                  const fs::path& model_folder, const Json& stage) {
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, matrix] : checkpoint.matrices) {
    ELQ_CHECK(check_matrix(matrix, name));
    add_matrix(name, matrix, tensors);
  }
  for (const auto& [name, plain] : checkpoint.plain) {
    tensors.push_back(TensorToWrite{name, plain.dtype, plain.shape, plain.bytes});
  }
  ELQ_TRY(target, AtomicFolder::create(folder, folder_format()));
  ELQ_CHECK(copy_companions(model_folder, target.temporary()));
  ELQ_CHECK(write_safetensors(target.temporary() / kWeights, std::move(tensors),
                              {{"format", folder_format().format}}));
  ELQ_CHECK(write_file(target.temporary() / kDescription, dump_json(describe(checkpoint))));
  if (!stage.is_null()) ELQ_CHECK(write_file(target.temporary() / "stage.json", dump_json(stage)));
  return target.commit();
}

bool is_quantized_checkpoint(const fs::path& folder) {
  return has_format(folder, folder_format());
}

}  // namespace elastiq
