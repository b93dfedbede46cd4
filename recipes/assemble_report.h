#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "recipes/recipe.h"
#include "recipes/recipe_plan.h"

namespace elastiq {

/// stage.json of each stage that has run, by stage id.
using StageRecords = std::map<std::string, Json>;

/// elastiq.report/1 of a finished run: one entry for the float model and each variant, paired
/// comparisons of each variant with the one before it and with the one it starts from, training
/// curves, stages, warnings.
Result<Json> assemble_report(const Recipe& recipe, const RecipePlan& plan,
                             const StageRecords& records, const Json& machine,
                             const std::vector<std::string>& warnings);

}  // namespace elastiq
