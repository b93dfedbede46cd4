#include <array>

#include "cli/commands.h"
#include "cli/stage_command.h"
#include "export/run_synthesize.h"
#include "model/run_bench.h"
#include "recipes/stage_options.h"

namespace elastiq {
namespace {

Result<Json> bench_from_json(const Json& json, const std::string& subject) {
  BenchOptions options;
  std::vector<std::string> problems;
  OptionReader reader(json, "", problems);
  reader.field("package", options.package, {.help = "", .need = FieldInfo::Need::kRequired});
  visit_threads(reader, options.threads);
  reader.finish();
  ELQ_CHECK(problems_status(problems, ErrorCode::kUsage, subject));
  return run_bench(options);
}

/// What `bench --shape` runs.
Result<Json> synthesize_from_json(const Json& json, const std::string& subject) {
  SynthesizeOptions options;
  std::vector<std::string> problems;
  OptionReader reader(json, "", problems);
  constexpr auto kRequired = FieldInfo::Need::kRequired;
  reader.field("shape", options.shape, {.help = "", .need = kRequired});
  reader.field("out", options.out, {.help = "", .need = kRequired});
  reader.field("bits", options.bits, {.help = "", .min = 1, .max = 8});
  reader.field("embed_bits", options.embed_bits, {.help = "", .min = 1, .max = 8});
  reader.field("kept", options.kept, {.help = "", .min = 0, .max = 64});
  visit_threads(reader, options.threads);
  reader.finish();
  ELQ_CHECK(problems_status(problems, ErrorCode::kUsage, subject));
  return run_synthesize(options);
}

constexpr std::array kStages = {
    StageEntry{"export", stage_from_json<ExportOptions, run_export>},
    StageEntry{"bench", bench_from_json},
    StageEntry{"synthesize", synthesize_from_json},
};

}  // namespace

void add_stage(CLI::App& app, int& status) {
  add_stage_runner(app, status, kStages.begin(), kStages.end());
}

}  // namespace elastiq
