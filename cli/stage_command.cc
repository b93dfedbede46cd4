#include "cli/stage_command.h"

#include <signal.h>
#include <sys/prctl.h>

#include <iostream>

#include "cli/program.h"
#include "core/peak_memory.h"
#include "recipes/child_process.h"

namespace elastiq {
namespace {

struct Arguments {
  std::string name;
  std::string file;
};

Result<Json> run_entry(const Arguments& arguments, const StageEntry* begin, const StageEntry* end) {
  for (const StageEntry* entry = begin; entry != end; ++entry) {
    if (arguments.name != entry->name) continue;
    ELQ_TRY(json, read_json_file(arguments.file, JsonLimits{}));
    try {
      return entry->run(json, arguments.file);
    } catch (const std::exception& thrown) {
      return error_of_exception(thrown, arguments.name);
    }
  }
  return Error{ErrorCode::kUsage, arguments.name, "no stage of this program"};
}

}  // namespace

void add_stage_runner(CLI::App& app, int& status, const StageEntry* begin, const StageEntry* end) {
  CLI::App* command =
      app.add_subcommand("stage", "Run one stage from an options file (what `run` calls)");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("name", arguments->name, "stage")->required();
  command->add_option("file", arguments->file, "options file, JSON")->required();
  command->callback([arguments, begin, end, &status] {
    // A runner that was killed leaves no stage behind that computes for nobody.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    Result<Json> result = run_entry(*arguments, begin, end);
    if (result.ok() && !result.value().contains("peak_rss_bytes"))
      result.value()["peak_rss_bytes"] = peak_rss_bytes();
    // The caller reads the error from the document and shows it; no second copy here.
    std::cout << dump_json(result.ok() ? result.value() : error_json(result.error()));
    status = result.ok() ? 0 : exit_status(result.error());
  });
}

}  // namespace elastiq
