#include "quantize/plan.h"

#include <algorithm>
#include <set>

#include "core/quantized_matrix.h"
#include "quantize/kept_columns.h"
#include "quantize/plan_rules.h"

namespace elastiq {
namespace {

constexpr const char* kKeep = "keep";
constexpr const char* kDefaultRule = "default";

bool is_linear(const PlanInput& tensor) {
  return tensor.role.starts_with("attn.") || tensor.role.starts_with("mlp.");
}

std::string rule_subject(const QuantRule& rule, std::size_t index) {
  return "rule " + std::to_string(index + 1) + (rule.id.empty() ? "" : " '" + rule.id + "'");
}

/// The roles a rule may name; "head" also where it is tied, so that the message can say so.
const std::vector<std::string>& known_roles() {
  static const std::vector<std::string> roles = {
      "attn.q", "attn.k", "attn.v", "attn.o", "mlp.gate", "mlp.up", "mlp.down", "embed", "head"};
  return roles;
}

Result<std::optional<Scheme>> parse_choice(const std::string& text, const std::string& subject) {
  const std::string problem = scheme_problem(text);
  if (!problem.empty()) return Error{ErrorCode::kRecipe, subject, problem, 0};
  if (text == kKeep) return std::optional<Scheme>();
  ELQ_TRY(scheme, parse_scheme(text));
  return std::optional<Scheme>(scheme);
}

std::string role_problem(const std::string& role) {
  const bool known =
      std::any_of(known_roles().begin(), known_roles().end(),
                  [&role](const std::string& name) { return glob_match(role, name); });
  if (known) return "";
  return "role '" + role + "' matches no role; did you mean '" + nearest_name(role, known_roles()) +
         "'?";
}

struct CompiledRule {
  std::string id;
  const QuantRule* rule = nullptr;
  std::vector<bool> layers;  ///< Empty: any.
  std::optional<Scheme> scheme;
};

bool matches(const CompiledRule& compiled, const PlanInput& tensor) {
  const QuantRule& rule = *compiled.rule;
  if (!rule.roles.empty() &&
      std::none_of(rule.roles.begin(), rule.roles.end(),
                   [&tensor](const std::string& role) { return glob_match(role, tensor.role); })) {
    return false;
  }
  if (!rule.name.empty() && !glob_match(rule.name, tensor.name)) return false;
  if (compiled.layers.empty()) return true;
  return tensor.layer >= 0 && compiled.layers[static_cast<std::size_t>(tensor.layer)];
}

Error no_match(const QuantRule& rule, const std::string& subject,
               const std::vector<PlanInput>& tensors) {
  std::string detail = "matches no tensor";
  const bool only_head = rule.roles.size() == 1 && rule.roles[0] == "head";
  if (only_head) {
    detail += "; the head is tied to the embedding, which follows the rules for 'embed'";
  } else if (!rule.name.empty()) {
    std::vector<std::string> names;
    for (const PlanInput& tensor : tensors) names.push_back(tensor.name);
    detail += "; the name nearest to '" + rule.name + "' is '" + nearest_name(rule.name, names) +
              "' (* stands for any run of characters)";
  }
  return Error{ErrorCode::kRecipe, subject, detail, 0};
}

Result<std::vector<CompiledRule>> compile_rules(const std::vector<PlanInput>& tensors,
                                                const std::vector<QuantRule>& rules) {
  std::int64_t layers = 0;
  for (const PlanInput& tensor : tensors) layers = std::max(layers, tensor.layer + 1);
  std::vector<CompiledRule> result;
  std::set<std::string> ids;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const std::string subject = rule_subject(rules[i], i);
    CompiledRule compiled{
        rules[i].id.empty() ? "rule " + std::to_string(i + 1) : rules[i].id, &rules[i], {}, {}};
    if (!ids.insert(compiled.id).second) {
      return Error{ErrorCode::kRecipe, subject, "the id is already taken by an earlier rule", 0};
    }
    const std::vector<RuleProblem> problems = rule_problems(rules[i]);
    if (!problems.empty()) return Error{ErrorCode::kRecipe, subject, problems.front().text, 0};
    if (!rules[i].layers.empty()) {
      ELQ_TRY(selected, select_layers(rules[i].layers, layers, subject));
      compiled.layers = std::move(selected);
    }
    ELQ_TRY(scheme, parse_choice(rules[i].scheme, subject));
    compiled.scheme = scheme;
    if (std::none_of(tensors.begin(), tensors.end(),
                     [&compiled](const PlanInput& tensor) { return matches(compiled, tensor); })) {
      return no_match(rules[i], subject, tensors);
    }
    result.push_back(std::move(compiled));
  }
  return result;
}

Status fill_bytes(PlanEntry& entry) {
  const PlanInput& tensor = entry.tensor;
  if (!entry.scheme) {
    entry.bytes = tensor.source_bytes;
    return ok_status();
  }
  if (entry.scheme->scale != ScaleMode::kF16 && max_u8_scale(*entry.scheme, tensor.cols) == 0) {
    return Error{ErrorCode::kRecipe, tensor.name,
                 scheme_name(*entry.scheme) + " (rule '" + entry.rule + "') cannot have " +
                     std::to_string(tensor.cols) +
                     " columns: an int32 row sum could overflow; use f16 scales",
                 0};
  }
  const MatrixBytes bytes =
      packed_bytes(*entry.scheme, tensor.rows, tensor.cols, kept_limit(*entry.scheme, tensor.cols));
  entry.bytes = bytes.codes + bytes.scales + bytes.kept;
  return ok_status();
}

}  // namespace

std::string scheme_problem(const std::string& text) {
  if (text == kKeep) return "";
  const auto scheme = parse_scheme(text);
  if (scheme.ok()) return "";
  return "scheme '" + text + "' is neither 'keep' nor valid; " + scheme.error().detail;
}

std::vector<RuleProblem> rule_problems(const QuantRule& rule) {
  std::vector<RuleProblem> problems;
  const auto add = [&problems](const char* key, const std::string& text) {
    if (!text.empty()) problems.push_back({key, text});
  };
  if (rule.id == kDefaultRule) {
    add("id", "'default' is reserved: the plan names it where no rule decides");
  }
  for (const std::string& role : rule.roles) add("roles", role_problem(role));
  if (!rule.layers.empty()) add("layers", layers_problem(rule.layers));
  add("scheme", scheme_problem(rule.scheme));
  return problems;
}

Result<std::vector<PlanEntry>> make_plan(const std::vector<PlanInput>& tensors,
                                         const std::string& default_scheme,
                                         const std::vector<QuantRule>& rules) {
  ELQ_TRY(fallback, parse_choice(default_scheme, "default scheme"));
  ELQ_TRY(compiled, compile_rules(tensors, rules));
  std::vector<PlanEntry> plan;
  for (const PlanInput& tensor : tensors) {
    PlanEntry entry{tensor, {}, kDefaultRule, 0};
    if (is_linear(tensor)) entry.scheme = fallback;
    for (const CompiledRule& rule : compiled) {
      if (!matches(rule, tensor)) continue;
      entry.scheme = rule.scheme;
      entry.rule = rule.id;
    }
    ELQ_CHECK(fill_bytes(entry));
    plan.push_back(std::move(entry));
  }
  return plan;
}

Json plan_json(const std::vector<PlanEntry>& plan) {
  Json result = Json::array();
  for (const PlanEntry& entry : plan) {
    const double weights =
        static_cast<double>(entry.tensor.rows) * static_cast<double>(entry.tensor.cols);
    Json item;
    item["name"] = entry.tensor.name;
    item["role"] = entry.tensor.role;
    item["rows"] = entry.tensor.rows;
    item["cols"] = entry.tensor.cols;
    item["scheme"] = entry.scheme ? scheme_name(*entry.scheme) : kKeep;
    item["rule"] = entry.rule;
    item["bytes"] = entry.bytes;
    item["source_bytes"] = entry.tensor.source_bytes;
    item["bits_per_weight"] =
        weights > 0.0 ? 8.0 * static_cast<double>(entry.bytes) / weights : 0.0;
    result.push_back(std::move(item));
  }
  return result;
}

}  // namespace elastiq
