#pragma once

#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "quantize/run_quantize.h"
#include "recipes/recipe.h"

namespace elastiq {

/// What a run will do, decided from headers before a byte is written.
struct VariantPlan {
  std::string name;
  std::vector<PlanEntry> tensors;  ///< A qat variant has the plan of the variant it starts from.
};

struct RecipePlan {
  std::vector<VariantPlan> variants;
  std::vector<std::string> warnings;  ///< Of the model.
};

/// Errors  those of check_recipe_inputs and of the model's readers; kRecipe for a rule that matches
/// nothing.
Result<RecipePlan> plan_recipe(const Recipe& recipe);

/// For a person: model, data, formats per variant, stages.
std::string plan_text(const Recipe& recipe, const RecipePlan& plan);

/// {"format": "elastiq.plan/1", "recipe", "variants": [{"name", "tensors": [...]}], "stages",
/// "warnings"}.
Json recipe_plan_json(const Recipe& recipe, const RecipePlan& plan);

/// "layers" of a report's run.
Json plan_layers(const VariantPlan& plan);

}  // namespace elastiq
