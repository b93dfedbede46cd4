#include <memory>

#include "cli/commands.h"
#include "cli/output.h"
#include "kernels/elq_kernels.h"
#include "kernels/elq_layout.h"

namespace elastiq {

void add_version(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("version", "Versions of the program and its formats");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "one JSON document on standard output");
  command->callback([json, &status] {
    const std::string package =
        std::to_string(ELQ_FORMAT_MAJOR) + "." + std::to_string(ELQ_FORMAT_MINOR);
    const Json versions = {{"format", "elastiq.version/1"},       {"elastiq", ELASTIQ_VERSION},
                           {"package_format", package},           {"recipe_version", 1},
                           {"report_format", "elastiq.report/1"}, {"compiler", __VERSION__},
                           {"kernels", elq_impl_best()->name}};
    status = print_result(versions, *json ? OutputFormat::kJson : OutputFormat::kText);
  });
}

}  // namespace elastiq
