#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/recipe_arguments.h"

namespace elastiq {
namespace {

int run(const RecipeArguments& arguments) {
  const auto recipe = arguments.load();
  if (!recipe.ok()) return report_error(recipe.error(), arguments.format());
  if (arguments.json) return print_result(recipe.value().resolved, OutputFormat::kJson);
  std::cout << arguments.file << ": valid, " << recipe.value().variants.size() << " variants\n";
  return 0;
}

}  // namespace

void add_validate(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand(
      "validate", "Check a recipe without its model and data; --json prints it resolved");
  auto arguments = std::make_shared<RecipeArguments>();
  arguments->add_to(*command);
  command->callback([arguments, &status] { status = run(*arguments); });
}

}  // namespace elastiq
