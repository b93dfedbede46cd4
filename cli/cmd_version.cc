#include <memory>

#include "cli/commands.h"
#include "cli/output.h"
#include "model/run_kernels.h"

namespace elastiq {

void add_version(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("version", "Versions of the program and its formats");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "one JSON document on standard output");
  command->callback([json, &status] {
    const Json kernels = run_kernels();
    const Json versions = {{"format", "elastiq.version/1"},
                           {"elastiq", ELASTIQ_VERSION},
                           {"package_format", kernels.at("package_format")},
                           {"recipe_version", 1},
                           {"report_format", "elastiq.report/1"},
                           {"compiler", __VERSION__},
                           {"kernels", kernels.at("best")}};
    status = print_result(versions, *json ? OutputFormat::kJson : OutputFormat::kText);
  });
}

}  // namespace elastiq
