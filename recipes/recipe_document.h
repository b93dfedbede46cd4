#pragma once

#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "recipes/recipe.h"

namespace elastiq {

/// The document of a recipe before its keys are looked at: extends merged, --set applied, variables
/// filled in. "vars" and "extends" are gone.
/// Errors  kRecipe with file and JSON pointer; kUsage for a malformed --set.
Result<Json> resolve_document(const RecipeSource& source);

}  // namespace elastiq
