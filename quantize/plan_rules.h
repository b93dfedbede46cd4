#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace elastiq {

/// `*` any run of characters, `?` one character; everything else stands for itself.
bool glob_match(std::string_view pattern, std::string_view text);

/// What is wrong with a layers text whatever the model, or "": syntax, and a range that is empty
/// in every model.
std::string layers_problem(std::string_view text);

/// Which of `layers` blocks a rule's layers text selects.
///
/// Grammar   parts separated by commas, blanks ignored: "odd", "even", N, or N-M (both ends
///           included); a negative N counts from the end, -1 is the last block.
/// Errors    kRecipe: syntax; a block the model does not have; an empty range. `rule` names the
/// rule.
Result<std::vector<bool>> select_layers(std::string_view text, std::int64_t layers,
                                        const std::string& rule);

/// The candidate with the smallest edit distance, ties to the first; "" without candidates.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace elastiq
