#include <memory>

#include "cli/commands.h"
#include "cli/output.h"
#include "export/run_verify.h"

namespace elastiq {
namespace {

struct Arguments {
  std::string package;
  bool json = false;
};

int run(const Arguments& arguments) {
  const OutputFormat format = arguments.json ? OutputFormat::kJson : OutputFormat::kText;
  return finish(run_verify(arguments.package), format);
}

}  // namespace

void add_verify(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand(
      "verify", "Check every byte of a package and run its golden vectors on this machine");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("package", arguments->package, "package file")->required();
  command->add_flag("--json", arguments->json, "one JSON document on standard output");
  command->callback([arguments, &status] { status = run(*arguments); });
}

}  // namespace elastiq
