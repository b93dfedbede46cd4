#include <array>

#include "cli/commands.h"
#include "cli/run_bench.h"
#include "cli/stage_command.h"

namespace elastiq {
namespace {

constexpr std::array kStages = {
    StageEntry{"export", stage_from_json<ExportOptions, run_export>},
    StageEntry{"bench", bench_from_json},
};

}  // namespace

void add_stage(CLI::App& app, int& status) {
  add_stage_runner(app, status, kStages.begin(), kStages.end());
}

}  // namespace elastiq
