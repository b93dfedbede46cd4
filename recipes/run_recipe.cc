#include "recipes/run_recipe.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

#include "core/digest.h"
#include "core/file.h"
#include "core/text.h"
#include "recipes/assemble_report.h"
#include "recipes/child_process.h"
#include "recipes/input_digest.h"
#include "recipes/machine.h"
#include "recipes/publish.h"
#include "recipes/recipe_plan.h"
#include "recipes/run_lock.h"
#include "recipes/stage_list.h"
#include "report/run_report.h"

namespace elastiq {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStageFormat = "elastiq.stage/1";

class Runner {
 public:
  Runner(const Recipe& recipe, const RunOptions& options) : recipe_(recipe), options_(options) {}

  Result<Json> run();

 private:
  Result<Json> input_digests();
  Status run_stage(const StageSpec& spec);
  Result<std::string> key_of(const StageSpec& spec);
  /// The record of an earlier run with this key whose output is still as it was, or null.
  Result<Json> cached(const StageSpec& spec, const std::string& key);
  Result<Json> execute(const StageSpec& spec);
  Json lock(const Json& digests, const Json& outputs) const;
  /// Told and kept for the report; what several stages say, once.
  void warn(const std::string& text);
  void warn_of(const Json& result);

  const Recipe& recipe_;
  const RunOptions& options_;
  DigestBook digests_;
  StageRecords records_;
  std::vector<std::string> warnings_;
};

Result<Json> read_record(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return Json();
  auto json = read_json_file(path, JsonLimits{});
  // A damaged record only costs running the stage again.
  return json.ok() ? std::move(json).value() : Json();
}

/// A member that is a string, or "".
std::string text_of(const Json& record, const char* key) {
  const auto it = record.find(key);
  return it != record.end() && it->is_string() ? it->get<std::string>() : std::string();
}

/// Whether the record has all that the lock and the report read from it.
bool is_record(const Json& record) {
  const auto is_number = [&record](const char* key) {
    const auto it = record.find(key);
    return it != record.end() && it->is_number();
  };
  const auto result = record.find("result");
  return is_number("seconds") && is_number("peak_rss_bytes") && result != record.end() &&
         result->is_object();
}

Error ended_badly(const StageSpec& spec, const ChildResult& child, const fs::path& output) {
  const int signal = child.exit_status - 128;
  if (signal == SIGINT || signal == SIGTERM) {
    return Error{ErrorCode::kInterrupted, spec.id, "stopped; run again to go on"};
  }
  if (signal == SIGKILL) {
    return Error{ErrorCode::kResources, spec.id,
                 fmt::format("was killed at {} MB, probably for lack of memory",
                             child.peak_rss_bytes / 1000000)};
  }
  if (child.exit_status == exit_status(Error{ErrorCode::kResources, "", "", 0})) {
    return Error{ErrorCode::kResources, spec.id, "could not write its result: " + output.string()};
  }
  return Error{ErrorCode::kInternal, spec.id,
               fmt::format("ended with status {} and without a result", child.exit_status)};
}

Result<Json> Runner::input_digests() {
  Json digests = Json::object();
  ELQ_TRY(model, digests_.of(recipe_.model));
  digests["model"] = model;
  for (const auto& [use, data] :
       {std::pair<const char*, const DataOptions*>{"calibration", &recipe_.calibration},
        {"training", &recipe_.training}}) {
    if (data->files.empty()) continue;
    digests[use] = Json::array();
    for (const fs::path& file : data->files) {
      ELQ_TRY(digest, digests_.of(file));
      digests[use].push_back(digest);
    }
  }
  return digests;
}

Result<std::string> Runner::key_of(const StageSpec& spec) {
  Json inputs = Json::array();
  for (const fs::path& input : spec.inputs) {
    ELQ_TRY(digest, digests_.of(input));
    inputs.push_back(digest);
  }
  const Json key = {{"use", spec.use},
                    {"stage_version", stage_version(spec.use)},
                    {"tool", ELASTIQ_VERSION},
                    {"options", spec.content},
                    {"inputs", std::move(inputs)}};
  return to_hex(sha256(key.dump()));
}

Result<Json> Runner::cached(const StageSpec& spec, const std::string& key) {
  if (options_.cache == RunOptions::Cache::kFresh) return Json();
  ELQ_TRY(record, read_record(spec.folder / "stage.json"));
  if (!record.is_object() || text_of(record, "key") != key || !is_record(record)) return Json();
  if (!spec.out.empty()) {
    const auto digest = digests_.of(spec.out);
    const bool same = digest.ok() && digest.value() == text_of(record, "output_sha256");
    if (!same) return Json();
  }
  record["cached"] = true;
  return record;
}

Result<Json> Runner::execute(const StageSpec& spec) {
  std::error_code failed;
  const bool finished_before = fs::exists(spec.folder / "stage.json", failed);
  // A finished stage of other inputs is replaced. An unfinished one may hold a state to resume
  // from; the stage itself refuses a state that does not fit.
  if (finished_before || options_.cache == RunOptions::Cache::kFresh) {
    fs::remove_all(spec.folder, failed);
  }
  fs::create_directories(spec.folder, failed);
  if (failed) return Error{io_error_code(failed.value()), spec.folder.string(), failed.message()};
  const fs::path file = spec.folder / "options.json";
  const fs::path output = spec.folder / "result.json";
  ELQ_CHECK(write_file(file, dump_json(spec.options)));
  const bool torch = stage_program(spec.use) == StageProgram::kTorch;
  const fs::path program = options_.programs / (torch ? "elastiq-torch" : "elastiq");
  auto child = run_child({program.string(), "stage", spec.use, file.string()}, output);
  if (!child.ok() && child.error().code == ErrorCode::kMissing && torch) {
    return Error{ErrorCode::kMissing, program.string(),
                 "the stage " + spec.id + " needs it; build with -DELASTIQ_TORCH=ON"};
  }
  if (!child.ok()) return std::move(child).error();
  const auto result = read_json_file(output, JsonLimits{});
  if (!result.ok()) return ended_badly(spec, child.value(), output);
  if (child.value().exit_status != 0) {
    return result.value().contains("error") ? error_from_json(result.value())
                                            : ended_badly(spec, child.value(), output);
  }
  digests_.forget(spec.out);
  return Json{{"format", kStageFormat},
              {"id", spec.id},
              {"use", spec.use},
              {"seconds", child.value().seconds},
              {"peak_rss_bytes", result.value().value("peak_rss_bytes", std::uint64_t{0})},
              {"result", result.value()}};
}

Status Runner::run_stage(const StageSpec& spec) {
  ELQ_TRY(key, key_of(spec));
  ELQ_TRY(known, cached(spec, key));
  if (known.is_object()) {
    options_.narrate(fmt::format("{}: as before", spec.id));
    warn_of(known.at("result"));
    records_[spec.id] = std::move(known);
    return ok_status();
  }
  options_.narrate(fmt::format("{}: running", spec.id));
  ELQ_TRY(record, execute(spec));
  record["key"] = key;
  if (!spec.out.empty()) {
    ELQ_TRY(digest, digests_.of(spec.out));
    record["output_sha256"] = digest;
  }
  ELQ_CHECK(write_file(spec.folder / "stage.json", dump_json(record)));
  options_.narrate(fmt::format("{}: done in {:.1f} s, peak memory {:.0f} MB", spec.id,
                               record["seconds"].get<double>(),
                               record["peak_rss_bytes"].get<double>() / 1e6));
  warn_of(record.at("result"));
  record["cached"] = false;
  records_[spec.id] = std::move(record);
  return ok_status();
}

void Runner::warn(const std::string& text) {
  if (std::find(warnings_.begin(), warnings_.end(), text) != warnings_.end()) return;
  warnings_.push_back(text);
  options_.narrate("warning: " + escape_terminal(text));
}

void Runner::warn_of(const Json& result) {
  const auto found = result.find("warnings");
  if (found == result.end() || !found->is_array()) return;
  for (const Json& text : *found) {
    if (text.is_string()) warn(text.get<std::string>());
  }
}

Json Runner::lock(const Json& digests, const Json& outputs) const {
  Json stages = Json::array();
  for (const auto& [id, record] : records_) {
    stages.push_back({{"id", id},
                      {"key", record.at("key")},
                      {"output_sha256", record.value("output_sha256", Json())}});
  }
  return {{"format", "elastiq.lock/1"},  {"tool", "elastiq " ELASTIQ_VERSION},
          {"recipe", recipe_.resolved},  {"digests", digests},
          {"stages", std::move(stages)}, {"outputs", outputs}};
}

Result<Json> Runner::run() {
  ELQ_TRY(plan, plan_recipe(recipe_));
  options_.narrate(plan_text(recipe_, plan));
  for (const std::string& warning : plan.warnings) warn(warning);
  ELQ_TRY(digests, input_digests());
  const fs::path out = fs::absolute(options_.out);
  std::error_code failed;
  fs::create_directories(out, failed);
  if (failed) return Error{io_error_code(failed.value()), out.string(), failed.message()};
  ELQ_TRY(folder, RunLock::take(out));
  for (const StageSpec& spec : stage_list(recipe_, out, digests)) ELQ_CHECK(run_stage(spec));
  ELQ_CHECK(publish_packages(recipe_, out));
  ELQ_TRY(outputs, published_outputs(recipe_, out));
  ELQ_TRY(stale, remove_stale_outputs(out, outputs));
  for (const std::string& warning : stale) warn(warning);
  ELQ_CHECK(write_file(out / "recipe.lock.json", dump_json(lock(digests, outputs))));
  ELQ_TRY(report,
          assemble_report(recipe_, plan, records_, machine_json(recipe_.threads), warnings_));
  ELQ_CHECK(write_report(out, report));
  return report;
}

}  // namespace

Result<Json> run_recipe(const Recipe& recipe, const RunOptions& options) {
  return Runner(recipe, options).run();
}

}  // namespace elastiq
