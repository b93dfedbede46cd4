#include "formats/safetensors_header.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "core/checked_math.h"
#include "core/json.h"
#include "formats/byte_reader.h"

namespace elastiq {
namespace {

/// Where a tensor says its bytes are, relative to the data.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct Entry {
  TensorView view;
  Range range;
};

struct FileContext {
  const std::string& subject;
  std::uint64_t data_start = 0;
  std::uint64_t data_bytes = 0;
};

Error tensor_error(ErrorCode code, const FileContext& file, const Entry& entry,
                   const std::string& detail) {
  return Error{code, file.subject, "tensor " + entry.view.name + ": " + detail,
               file.data_start + std::min(entry.range.begin, file.data_bytes)};
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

/// Files that people pass by mistake, by their first bytes; each would otherwise be reported as an
/// absurd header length.
Status refuse_other_formats(std::string_view start, const std::string& subject) {
  struct Known {
    std::string_view magic;
    const char* what;
  };

  constexpr std::array kKnown = {
      Known{"PK\x03\x04", "a PyTorch zip archive; loading it would run code. Save as safetensors"},
      Known{"\x80\x02", "a Python pickle; loading it would run code. Save as safetensors"},
      Known{"GGUF", "a GGUF file"},
      Known{"version https://git-lfs", "a Git LFS pointer; fetch the file itself (git lfs pull)"},
  };
  for (const Known& known : kKnown) {
    if (!start.starts_with(known.magic)) continue;
    return Error{ErrorCode::kBadMagic, subject,
                 std::string("not a safetensors file but ") + known.what, 0};
  }
  return ok_status();
}

Result<std::string_view> read_header_text(ByteReader& reader, const std::string& subject,
                                          std::uint64_t max_header_bytes) {
  ELQ_TRY(length, reader.read_u64("header_length", max_header_bytes));
  ELQ_TRY(text, reader.read_text("the header (header_length)", length));
  if (text.empty() || text.front() != '{') {
    return Error{ErrorCode::kBadMagic, subject,
                 "not a safetensors file: the header does not start with '{'", 8};
  }
  return text;
}

Result<std::vector<std::uint64_t>> unsigned_array(const Json& value, const std::string& where,
                                                  const std::string& subject) {
  if (!value.is_array()) {
    return Error{ErrorCode::kInconsistent, subject, where + " is not an array", 0};
  }
  std::vector<std::uint64_t> numbers;
  numbers.reserve(value.size());
  for (const Json& number : value) {
    if (!number.is_number_unsigned()) {
      return Error{ErrorCode::kInconsistent, subject,
                   where + " has an element that is not an integer from 0 to 2^64-1", 0};
    }
    numbers.push_back(number.get<std::uint64_t>());
  }
  return numbers;
}

Result<Entry> parse_fields(const std::string& name, const Json& object,
                           const std::string& subject) {
  const std::string where = "tensor " + name;
  if (!object.is_object()) {
    return Error{ErrorCode::kInconsistent, subject, where + ": entry is not an object", 0};
  }
  Entry entry;
  entry.view.name = name;
  int seen = 0;  // keys are unique, so three known keys are all of them
  for (const auto& [key, value] : object.items()) {
    ++seen;
    if (key == "dtype") {
      const auto type = value.is_string() ? dtype_from_name(value.get_ref<const std::string&>())
                                          : std::optional<DType>();
      if (!type) {
        return Error{ErrorCode::kUnsupportedType, subject,
                     where + ": dtype " + value.dump().substr(0, 40) + " is not known", 0};
      }
      entry.view.dtype = *type;
    } else if (key == "shape") {
      ELQ_TRY(shape, unsigned_array(value, where + ": shape", subject));
      entry.view.shape = std::move(shape);
    } else if (key == "data_offsets") {
      ELQ_TRY(offsets, unsigned_array(value, where + ": data_offsets", subject));
      if (offsets.size() != 2) {
        return Error{
            ErrorCode::kInconsistent, subject,
            where + ": data_offsets has " + std::to_string(offsets.size()) + " numbers, expected 2",
            0};
      }
      entry.range = {offsets[0], offsets[1]};
    } else {
      return Error{ErrorCode::kInconsistent, subject,
                   where + ": unknown key '" + key + "'; allowed: dtype, shape, data_offsets", 0};
    }
  }
  if (seen == 3) return entry;
  return Error{
      ErrorCode::kMissing, subject,
      where + ": needs dtype, shape and data_offsets, has " + std::to_string(seen) + " of them", 0};
}

Status check_byte_count(const FileContext& file, const Entry& entry) {
  const auto [begin, end] = entry.range;
  if (begin > end) {
    return tensor_error(
        ErrorCode::kInconsistent, file, entry,
        "data_offsets run backwards: " + std::to_string(begin) + " to " + std::to_string(end));
  }
  const auto needed = tensor_bytes(entry.view.dtype, entry.view.shape);
  const std::string what =
      "shape " + shape_text(entry.view.shape) + " of " + std::string(dtype_name(entry.view.dtype));
  if (!needed) {
    return tensor_error(ErrorCode::kInconsistent, file, entry,
                        what + " has more than 2^64-1 bytes");
  }
  if (*needed == end - begin) return ok_status();
  std::string detail =
      what + " needs " + std::to_string(*needed) + " bytes, stored " + std::to_string(end - begin);
  // What exporters leave behind when the matrix is tied to the embedding.
  if (begin == end) detail += " (a tied tensor must be left out, not stored empty)";
  return tensor_error(ErrorCode::kInconsistent, file, entry, detail);
}

Result<std::map<std::string, std::string>> parse_metadata(const Json& object,
                                                          const std::string& subject) {
  if (!object.is_object()) {
    return Error{ErrorCode::kInconsistent, subject, "__metadata__ is not an object", 0};
  }
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : object.items()) {
    if (!value.is_string()) {
      return Error{ErrorCode::kInconsistent, subject, "__metadata__: '" + key + "' is not a string",
                   0};
    }
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

/// Sorts by position and refuses what is short, overlapping, or belongs to no tensor: a byte that
/// no tensor owns could be a second file.
Status check_cover(const FileContext& file, std::vector<Entry>& entries) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.range.begin, a.range.end, a.view.name) <
           std::tie(b.range.begin, b.range.end, b.view.name);
  });
  std::uint64_t cursor = 0;
  const Entry* previous = nullptr;
  for (const Entry& entry : entries) {
    const auto [begin, end] = entry.range;
    if (begin < cursor) {
      return tensor_error(ErrorCode::kInconsistent, file, entry,
                          "overlaps tensor " + previous->view.name);
    }
    if (begin > cursor) {
      return tensor_error(ErrorCode::kInconsistent, file, entry,
                          std::to_string(begin - cursor) + " bytes before it belong to no tensor");
    }
    if (end > file.data_bytes) {
      return tensor_error(ErrorCode::kTruncated, file, entry,
                          "the file is " + std::to_string(end - file.data_bytes) +
                              " bytes too short for it (needs " + std::to_string(end - begin) +
                              ")");
    }
    cursor = end;
    previous = &entry;
  }
  if (cursor == file.data_bytes) return ok_status();
  return Error{ErrorCode::kInconsistent, file.subject,
               std::to_string(file.data_bytes - cursor) + " bytes at the end belong to no tensor",
               file.data_start + cursor};
}

}  // namespace

std::optional<std::uint64_t> tensor_bytes(DType type, const std::vector<std::uint64_t>& shape) {
  // A zero-size dimension ends the product whatever the others are.
  if (std::find(shape.begin(), shape.end(), 0u) != shape.end()) return 0;
  std::optional<std::uint64_t> bytes = dtype_bytes(type);
  for (const std::uint64_t dim : shape) {
    bytes = checked_mul(*bytes, dim);
    if (!bytes) return std::nullopt;
  }
  return bytes;
}

Result<SafetensorsDirectory> parse_safetensors(std::span<const std::byte> file,
                                               const std::string& subject,
                                               const std::string& file_name,
                                               std::uint64_t max_header_bytes) {
  ELQ_CHECK(refuse_other_formats(
      std::string_view(reinterpret_cast<const char*>(file.data()), file.size()), subject));
  ByteReader reader(file, subject);
  ELQ_TRY(text, read_header_text(reader, subject, max_header_bytes));
  JsonLimits limits;
  limits.max_bytes = static_cast<std::size_t>(max_header_bytes);
  limits.max_depth = 3;  // names, fields, arrays
  auto header = parse_json(text, subject, limits);
  if (!header.ok()) {
    Error error = std::move(header).error();
    if (error.code == ErrorCode::kSyntax || error.code == ErrorCode::kBadEncoding) {
      error.byte_offset += 8;
    }
    return error;
  }
  const FileContext context{subject, reader.offset(), reader.left()};
  SafetensorsDirectory directory;
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.value().items()) {
    if (name == "__metadata__") {
      ELQ_TRY(metadata, parse_metadata(value, subject));
      directory.metadata = std::move(metadata);
      continue;
    }
    ELQ_TRY(entry, parse_fields(name, value, subject));
    ELQ_CHECK(check_byte_count(context, entry));
    entry.view.file = file_name;
    entries.push_back(std::move(entry));
  }
  ELQ_CHECK(check_cover(context, entries));
  const auto data = file.subspan(static_cast<std::size_t>(context.data_start));
  for (Entry& entry : entries) {
    entry.view.bytes = data.subspan(static_cast<std::size_t>(entry.range.begin),
                                    static_cast<std::size_t>(entry.range.end - entry.range.begin));
    directory.tensors.push_back(std::move(entry.view));
  }
  return directory;
}

}  // namespace elastiq
