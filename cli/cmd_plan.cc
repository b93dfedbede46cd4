#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/recipe_arguments.h"
#include "recipes/recipe_plan.h"

namespace elastiq {
namespace {

int run(const RecipeArguments& arguments) {
  const auto recipe = arguments.load();
  if (!recipe.ok()) return report_error(recipe.error(), arguments.format());
  const auto plan = plan_recipe(recipe.value());
  if (!plan.ok()) return report_error(plan.error(), arguments.format());
  const Json json = recipe_plan_json(recipe.value(), plan.value());
  print_warnings(json);
  if (arguments.json) return print_result(json, OutputFormat::kJson);
  std::cout << plan_text(recipe.value(), plan.value());
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, int& status) {
  CLI::App* command =
      app.add_subcommand("plan", "Print what a recipe would do; reads headers, writes nothing");
  auto arguments = std::make_shared<RecipeArguments>();
  arguments->add_to(*command);
  command->callback([arguments, &status] { status = run(*arguments); });
}

}  // namespace elastiq
