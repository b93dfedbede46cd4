#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "core/scheme.h"

namespace elastiq {

/// One rule of a recipe. Last match wins. Empty criteria match everything.
struct QuantRule {
  std::string id;
  std::vector<std::string> roles;  ///< "attn.q", "attn.*", "mlp.down", "embed", "head", ...
  std::string name;                ///< Glob over tensor names; "" = any.
  std::string layers;              ///< "0-1,-1", "odd", "even"; "" = any.
  std::string scheme;              ///< scheme_name() text, or "keep" (source type, not quantized).
};

/// What planning needs to know of a tensor.
struct PlanInput {
  std::string name;
  std::string role;
  std::int64_t layer = -1;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::uint64_t source_bytes = 0;
};

struct PlanEntry {
  PlanInput tensor;
  std::optional<Scheme> scheme;  ///< Nothing: kept at source type.
  std::string rule;              ///< Id of the deciding rule, or "default".
  std::uint64_t bytes = 0;       ///< As packed.
};

/// What is wrong with one key of a rule.
struct RuleProblem {
  std::string key;   ///< "id", "roles", "layers" or "scheme".
  std::string text;  ///< Found, allowed.
};

/// All that is wrong with a rule whatever the model.
std::vector<RuleProblem> rule_problems(const QuantRule& rule);

/// What is wrong with a scheme that a recipe or a flag names, or "": "keep" and scheme names are
/// allowed.
std::string scheme_problem(const std::string& text);

/// The decision for every matrix, made from headers only, before a byte is written.
/// default_scheme applies to linear layers of blocks; embedding and head stay "keep" unless a rule
/// says otherwise. A tied embedding follows the rules for "embed" (a rule that matches only "head"
/// then matches nothing). Errors  kRecipe: a rule that matches nothing, an unknown scheme or role;
/// two matching rules are fine.
Result<std::vector<PlanEntry>> make_plan(const std::vector<PlanInput>& tensors,
                                         const std::string& default_scheme,
                                         const std::vector<QuantRule>& rules);

/// JSON array: name, role, rows, cols, scheme or "keep", rule, bytes, source_bytes,
/// bits_per_weight.
Json plan_json(const std::vector<PlanEntry>& plan);

}  // namespace elastiq
