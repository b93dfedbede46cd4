#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/program.h"
#include "cli/recipe_arguments.h"
#include "recipes/run_recipe.h"
#include "report/run_report.h"

namespace elastiq {
namespace {

struct Arguments : RecipeArguments {
  std::string out;
  bool fresh = false;
};

int run(const Arguments& arguments) {
  const auto recipe = arguments.load();
  if (!recipe.ok()) return report_error(recipe.error(), arguments.format());
  RunOptions options;
  options.out = arguments.out.empty() ? recipe.value().name + "-out" : arguments.out;
  options.programs = program_folder();
  options.cache = arguments.fresh ? RunOptions::Cache::kFresh : RunOptions::Cache::kUse;
  options.narrate = [](const std::string& line) { std::cerr << line << std::endl; };
  const auto report = run_recipe(recipe.value(), options);
  if (!report.ok()) return report_error(report.error(), arguments.format());
  if (arguments.json) return print_result(report.value(), OutputFormat::kJson);
  std::cout << report_terminal(report.value()) << "\n"
            << "report    " << (options.out / "report.html").string() << "\n"
            << "packages  " << (options.out / "*.elq").string() << "\n"
            << "kernels   " << (options.out / "kernels").string() << "\n";
  return 0;
}

}  // namespace

void add_run(CLI::App& app, int& status) {
  CLI::App* command =
      app.add_subcommand("run", "Run a recipe: calibrate, quantize, train, pack, evaluate, report");
  auto arguments = std::make_shared<Arguments>();
  arguments->add_to(*command);
  command->add_option("--out,-o", arguments->out, "folder for results; default: NAME-out");
  command->add_flag("--fresh", arguments->fresh, "forget what earlier runs left in the folder");
  command->callback([arguments, &status] { status = run(*arguments); });
}

}  // namespace elastiq
