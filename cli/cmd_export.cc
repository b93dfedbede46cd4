#include "cli/commands.h"
#include "cli/stage_command.h"

namespace elastiq {

void add_export(CLI::App& app, int& status) {
  add_stage_command<ExportOptions>(
      app, status, "export", "Pack a quantized checkpoint into NAME.elq and kernels/", run_export);
}

}  // namespace elastiq
