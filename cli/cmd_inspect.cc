#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/output.h"
#include "export/run_inspect.h"

namespace elastiq {
namespace {

struct Arguments {
  std::string path;
  bool json = false;
};

int run(const Arguments& arguments) {
  const OutputFormat format = arguments.json ? OutputFormat::kJson : OutputFormat::kText;
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(arguments.path, ignored);
  const auto result =
      is_folder ? describe_folder(arguments.path) : describe_package(arguments.path);
  if (!result.ok()) return report_error(result.error(), format);
  print_warnings(result.value());
  if (arguments.json) return print_result(result.value(), format);
  std::cout << description_text(result.value());
  return 0;
}

}  // namespace

void add_inspect(CLI::App& app, int& status) {
  CLI::App* command =
      app.add_subcommand("inspect", "Show what a package or a checkpoint folder holds");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("path", arguments->path, "package file or checkpoint folder")->required();
  command->add_flag("--json", arguments->json, "one JSON document on standard output");
  command->callback([arguments, &status] { status = run(*arguments); });
}

}  // namespace elastiq
