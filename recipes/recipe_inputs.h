#pragma once

#include "core/error.h"
#include "recipes/recipe.h"

namespace elastiq {

/// Whether a run could use what its recipe names, found out from headers before any work: the model
/// is there, every text can be opened and is not empty, windows and contexts fit the model.
/// Errors  kMissing, kIo: model or text; kTooLittleData: an empty text; kRecipe: a length above the
/// model's max_position_embeddings, with the JSON pointer; those of read_model_config.
Status check_recipe_inputs(const Recipe& recipe);

}  // namespace elastiq
