#include "formats/stats_file.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "formats/atomic_folder.h"
#include "formats/tensor_access.h"
#include "kernels/elq_layout.h"

namespace elastiq {
namespace fs = std::filesystem;

namespace {

constexpr const char* kTensors = "stats.safetensors";
constexpr const char* kDescription = "stats.json";
constexpr const char* kTokenCounts = "token_counts";

FolderFormat folder_format() {
  return {kDescription, "elastiq.stats/1"};
}

std::uint64_t u64(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

Error inconsistent(const std::string& subject, const std::string& detail) {
  return Error{ErrorCode::kInconsistent, subject, detail, 0};
}

/// The writer holds itself to the rules of the reader.
Status check_input(const InputStats& stats, const std::string& subject) {
  if (stats.columns < 1 || stats.columns > ELQ_MAX_DIM) {
    return inconsistent(subject, "columns is " + std::to_string(stats.columns));
  }
  if (stats.tokens == 0) return inconsistent(subject, "no token reached this input");
  const std::uint64_t columns = u64(stats.columns);
  if (stats.importance.size() != columns ||
      (!stats.second_moment.empty() && stats.second_moment.size() != columns * columns)) {
    return inconsistent(subject, "importance and second_moment do not match " +
                                     std::to_string(columns) + " columns");
  }
  const auto bad = [](float value) { return !std::isfinite(value) || value < 0.0f; };
  const auto wrong = std::find_if(stats.importance.begin(), stats.importance.end(), bad);
  if (wrong != stats.importance.end()) {
    return Error{ErrorCode::kNonFinite, subject,
                 "importance of column " + std::to_string(wrong - stats.importance.begin()) +
                     " is negative or not finite",
                 0};
  }
  const auto infinite = std::find_if(stats.second_moment.begin(), stats.second_moment.end(),
                                     [](float value) { return !std::isfinite(value); });
  if (infinite == stats.second_moment.end()) return ok_status();
  return Error{ErrorCode::kNonFinite, subject,
               "second_moment at " + std::to_string(infinite - stats.second_moment.begin()) +
                   " is not finite",
               0};
}

Result<InputStats> read_input(const std::string& name, const Json& entry, TensorTaker& tensors,
                              const std::string& subject) {
  const std::string where = subject + ": /inputs/" + name;
  InputStats stats;
  ELQ_TRY(columns, json_int(entry, "columns", 1, ELQ_MAX_DIM, where));
  ELQ_TRY(tokens, json_int(entry, "tokens", 1, INT64_MAX, where));
  ELQ_TRY(second, json_bool_or(entry, "second_moment", false, where));
  if (entry.size() != 3) {
    return inconsistent(where, "allowed keys: columns, tokens, second_moment");
  }
  stats.columns = columns;
  stats.tokens = u64(tokens);
  const std::uint64_t n = u64(columns);
  ELQ_CHECK(tensors.take_values(name + ".importance", DType::kF32, {n}, stats.importance));
  if (second) {
    ELQ_CHECK(
        tensors.take_values(name + ".second_moment", DType::kF32, {n, n}, stats.second_moment));
  }
  ELQ_CHECK(check_input(stats, where));
  return stats;
}

Result<const Json*> find_inputs(const Json& document, const std::string& subject) {
  ELQ_TRY(format, json_string_or(document, "format", "", subject));
  if (format != folder_format().format) {
    return Error{ErrorCode::kUnsupportedVersion, subject,
                 "format is '" + format.substr(0, 40) + "', expected " + folder_format().format, 0};
  }
  const auto inputs = document.find("inputs");
  if (document.size() == 4 && inputs != document.end() && inputs->is_object() &&
      document.contains("info") && document.contains("vocabulary")) {
    return &*inputs;
  }
  return inconsistent(subject, "needs format, info, vocabulary and inputs, and nothing else");
}

}  // namespace

Result<CalibrationStats> read_stats(const fs::path& folder) {
  const fs::path path = folder / kDescription;
  const std::string subject = path.string();
  ELQ_TRY(document, read_json_file(path, JsonLimits{}));
  ELQ_TRY(inputs, find_inputs(document, subject));
  ELQ_TRY(vocabulary, json_int(document, "vocabulary", 0, ELQ_MAX_DIM, subject));
  ELQ_TRY(file, Checkpoint::open(folder / kTensors));
  TensorTaker tensors(file, subject);
  CalibrationStats stats;
  ELQ_CHECK(tensors.take_values(kTokenCounts, DType::kU64, {u64(vocabulary)}, stats.token_counts));
  for (const auto& [name, entry] : inputs->items()) {
    ELQ_TRY(input, read_input(name, entry, tensors, subject));
    stats.inputs.emplace(name, std::move(input));
  }
  ELQ_CHECK(tensors.check_all_taken());
  stats.info = document["info"];
  return stats;
}

Status write_stats(const fs::path& folder, const CalibrationStats& stats, const Json& stage) {
  Json inputs = Json::object();
  std::vector<TensorToWrite> tensors;
  tensors.push_back(
      tensor_to_write(kTokenCounts, DType::kU64, {stats.token_counts.size()}, stats.token_counts));
  for (const auto& [name, input] : stats.inputs) {
    ELQ_CHECK(check_input(input, name));
    const std::uint64_t n = u64(input.columns);
    tensors.push_back(tensor_to_write(name + ".importance", DType::kF32, {n}, input.importance));
    if (!input.second_moment.empty()) {
      tensors.push_back(
          tensor_to_write(name + ".second_moment", DType::kF32, {n, n}, input.second_moment));
    }
    Json entry = Json::object();
    entry["columns"] = input.columns;
    entry["tokens"] = input.tokens;
    entry["second_moment"] = !input.second_moment.empty();
    inputs[name] = std::move(entry);
  }
  Json document = Json::object();
  document["format"] = folder_format().format;
  document["info"] = stats.info;
  document["vocabulary"] = stats.token_counts.size();
  document["inputs"] = std::move(inputs);
  ELQ_TRY(target, AtomicFolder::create(folder, folder_format()));
  ELQ_CHECK(write_safetensors(target.temporary() / kTensors, std::move(tensors),
                              {{"format", folder_format().format}}));
  ELQ_CHECK(write_file(target.temporary() / kDescription, dump_json(document)));
  if (!stage.is_null()) ELQ_CHECK(write_file(target.temporary() / "stage.json", dump_json(stage)));
  return target.commit();
}

}  // namespace elastiq
