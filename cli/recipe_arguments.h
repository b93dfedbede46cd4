#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/output.h"
#include "recipes/recipe.h"

namespace elastiq {

/// What every command about a recipe takes.
struct RecipeArguments {
  std::string file;
  std::vector<std::string> sets;
  bool json = false;

  void add_to(CLI::App& command) {
    command.add_option("recipe", file, "recipe file")->required();
    command
        .add_option("--set", sets, "change a value, e.g. --set vars.model=DIR (may be repeated)")
        ->type_name("KEY=VALUE")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    command.add_flag("--json", json, "one JSON document on standard output");
  }

  OutputFormat format() const { return json ? OutputFormat::kJson : OutputFormat::kText; }

  Result<Recipe> load() const { return load_recipe({file, sets}); }
};

}  // namespace elastiq
