#include "model/windows.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/digest.h"
#include "core/file.h"
#include "core/json.h"
#include "core/rng.h"

namespace elastiq {
namespace {

constexpr std::uint64_t kMaxTextBytes = std::uint64_t{2} << 30;

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

struct LineCounts {
  std::uint64_t lines = 0;  ///< Not blank.
  std::uint64_t without_text = 0;
  std::uint64_t first_without_text = 0;
};

// One line of JSONL; an offset in an error is one in the file.
Status add_line(std::string_view line, std::uint64_t number, std::uint64_t offset,
                const std::string& subject, LineCounts& counts, TextData& data) {
  ++counts.lines;
  auto parsed = parse_json(line, subject, JsonLimits{});
  if (!parsed.ok()) {
    Error error = parsed.error();
    error.detail = "line " + std::to_string(number) + ": " + error.detail;
    error.byte_offset += offset;
    return error;
  }
  const Json& json = parsed.value();
  const auto text = json.is_object() ? json.find("text") : json.end();
  if (text == json.end() || !text->is_string()) {
    if (counts.without_text++ == 0) counts.first_without_text = number;
    return ok_status();
  }
  std::string document = text->get<std::string>();
  if (!is_blank(document)) data.documents.push_back(std::move(document));
  return ok_status();
}

Status add_lines(std::string_view text, const std::string& subject, TextData& data) {
  LineCounts counts;
  std::uint64_t number = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    ++number;
    if (!is_blank(line)) ELQ_CHECK(add_line(line, number, at, subject, counts, data));
    at = end + 1;
  }
  if (counts.without_text == 0) return ok_status();
  return Error{ErrorCode::kMissing, subject,
               std::to_string(counts.without_text) + " of " + std::to_string(counts.lines) +
                   " lines have no \"text\" string, the first is line " +
                   std::to_string(counts.first_without_text),
               0};
}

Status add_file(const std::filesystem::path& path, Sha256Hasher& hasher, TextData& data) {
  ELQ_TRY(mapped, MappedFile::open(path));
  hasher.update(mapped.bytes());
  data.bytes += mapped.bytes().size();
  ELQ_TRY(text, read_text_file(path, kMaxTextBytes));
  if (path.extension() == ".jsonl") return add_lines(text, path.string(), data);
  if (text.find("\r\n") != std::string::npos) {
    data.warnings.push_back(path.string() + ": has CRLF line ends, which are kept as they are");
  }
  if (!is_blank(text)) data.documents.push_back(std::move(text));
  return ok_status();
}

std::string file_list(const std::vector<std::filesystem::path>& files) {
  std::string list;
  for (const auto& file : files) list += (list.empty() ? "" : ", ") + file.string();
  return list;
}

void shuffle(std::vector<std::vector<std::uint32_t>>& windows, std::uint64_t seed) {
  Rng rng(seed);
  for (std::size_t i = windows.size(); i > 1; --i) {
    windows[i - 1].swap(windows[static_cast<std::size_t>(rng.below(i))]);
  }
}

Status check_options(const WindowOptions& options, const Tokenizer& tokenizer) {
  const std::int64_t least = tokenizer.add_bos() ? 2 : 1;
  if (options.length < least) {
    return Error{ErrorCode::kInvalidArgument, "window length",
                 "found " + std::to_string(options.length) + ", at least " + std::to_string(least),
                 0};
  }
  if (options.max_windows < 0 || options.min_windows < 0) {
    return Error{ErrorCode::kInvalidArgument, "number of windows", "a negative number", 0};
  }
  return ok_status();
}

}  // namespace

Result<TextData> read_text_data(const std::vector<std::filesystem::path>& files) {
  if (files.empty()) return Error{ErrorCode::kInvalidArgument, "text data", "no file is given", 0};
  TextData data;
  Sha256Hasher hasher;
  for (const auto& path : files) ELQ_CHECK(add_file(path, hasher, data));
  data.digest = to_hex(hasher.finish());
  if (!data.documents.empty()) return data;
  return Error{ErrorCode::kTooLittleData, file_list(files),
               std::to_string(files.size()) + " files with " + std::to_string(data.bytes) +
                   " bytes hold no text but blanks",
               0};
}

Result<Windows> make_windows(const TextData& data, const Tokenizer& tokenizer,
                             const WindowOptions& options) {
  ELQ_CHECK(check_options(options, tokenizer));
  std::vector<std::uint32_t> stream;
  const bool has_bos = tokenizer.add_bos() && tokenizer.bos() >= 0;
  const auto bos = static_cast<std::uint32_t>(std::max<std::int64_t>(tokenizer.bos(), 0));
  if (has_bos) stream.push_back(bos);
  for (const std::string& document : data.documents) {
    ELQ_TRY(ids, tokenizer.try_encode(document));
    stream.insert(stream.end(), ids.begin(), ids.end());
  }

  const auto length = static_cast<std::size_t>(options.length);
  const std::size_t complete = stream.size() / length;
  if (complete < static_cast<std::size_t>(options.min_windows)) {
    return Error{ErrorCode::kTooLittleData, "text data",
                 "have " + std::to_string(stream.size()) + " tokens, need " +
                     std::to_string(options.min_windows) + " windows of " + std::to_string(length) +
                     " = " + std::to_string(static_cast<std::size_t>(options.min_windows) * length),
                 0};
  }
  Windows windows;
  windows.total_tokens = stream.size();
  windows.dropped_tokens = stream.size() % length;
  windows.warnings = data.warnings;
  for (std::size_t i = 0; i < complete; ++i) {
    const auto begin = stream.begin() + static_cast<std::ptrdiff_t>(i * length);
    windows.tokens.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(length));
    if (has_bos) windows.tokens.back().front() = bos;
  }
  if (options.order == WindowOptions::Order::kShuffled) shuffle(windows.tokens, options.seed);
  const auto most = static_cast<std::size_t>(options.max_windows);
  if (most > 0 && most < windows.tokens.size()) windows.tokens.resize(most);
  return windows;
}

}  // namespace elastiq
