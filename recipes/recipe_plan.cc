#include "recipes/recipe_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "recipes/recipe_inputs.h"
#include "recipes/stage_list.h"

namespace elastiq {
namespace {

namespace fs = std::filesystem;

/// Tensors that share rule and scheme, as one line of the plan.
struct PlanGroup {
  std::string rule, scheme;
  std::vector<std::string> roles;
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;
  double weights = 0;
};

std::string scheme_text(const PlanEntry& entry) {
  return entry.scheme ? scheme_name(*entry.scheme) : "keep";
}

double weights_of(const PlanEntry& entry) {
  return static_cast<double>(entry.tensor.rows) * static_cast<double>(entry.tensor.cols);
}

std::vector<PlanGroup> groups_of(const VariantPlan& plan) {
  std::vector<PlanGroup> groups;
  for (const PlanEntry& entry : plan.tensors) {
    const std::string scheme = scheme_text(entry);
    auto it = std::find_if(groups.begin(), groups.end(), [&](const PlanGroup& group) {
      return group.rule == entry.rule && group.scheme == scheme;
    });
    if (it == groups.end()) it = groups.insert(groups.end(), {entry.rule, scheme, {}, 0, 0, 0});
    const std::string& role = entry.tensor.role;
    if (std::find(it->roles.begin(), it->roles.end(), role) == it->roles.end()) {
      it->roles.push_back(role);
    }
    ++it->tensors;
    it->bytes += entry.bytes;
    it->weights += weights_of(entry);
  }
  return groups;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : " ") + part;
  return out;
}

std::string variant_text(const Variant& variant, const VariantPlan& plan) {
  double bits = 0;
  double weights = 0;
  for (const PlanEntry& entry : plan.tensors) {
    bits += 8 * static_cast<double>(entry.bytes);
    weights += weights_of(entry);
  }
  std::string how;
  if (variant.qat) {
    how = fmt::format("qat from {}, {} steps with codes frozen, {} with latent weights",
                      variant.from, variant.qat->scale_steps, variant.qat->code_steps);
  } else {
    const bool gptq = variant.quantize->method == QuantizeOptions::Method::kGptq;
    how = gptq ? "gptq" : "rtn";
  }
  std::string out = fmt::format("  {}: {}; matrices {:.2f} MB, {:.2f} bits per weight\n",
                                variant.name, how, bits / 8e6, weights > 0 ? bits / weights : 0);
  for (const PlanGroup& group : groups_of(plan)) {
    out += fmt::format("    {:<20} {:>4} tensors {:>9.3f} MB  rule {:<12} {}\n", group.scheme,
                       group.tensors, static_cast<double>(group.bytes) / 1e6, group.rule,
                       joined(group.roles));
  }
  return out;
}

std::string data_text(const char* use, const DataOptions& data) {
  if (data.files.empty()) return fmt::format("  {:<12} none\n", use);
  std::string files;
  for (const fs::path& file : data.files) files += (files.empty() ? "" : ", ") + file.string();
  const std::string windows =
      data.windows == 0 ? "all windows" : fmt::format("{} windows", data.windows);
  return fmt::format("  {:<12} {} ({} of {} tokens)\n", use, files, windows, data.sequence_length);
}

}  // namespace

Result<RecipePlan> plan_recipe(const Recipe& recipe) {
  ELQ_CHECK(check_recipe_inputs(recipe));
  RecipePlan plan;
  for (const Variant& variant : recipe.variants) {
    if (variant.qat) {
      const auto from = std::find_if(plan.variants.begin(), plan.variants.end(),
                                     [&](const VariantPlan& p) { return p.name == variant.from; });
      VariantPlan copy = *from;
      copy.name = variant.name;
      plan.variants.push_back(std::move(copy));
      continue;
    }
    ELQ_TRY(quantized,
            plan_quantize(recipe.model, variant.quantize->scheme, variant.quantize->rules));
    plan.variants.push_back({variant.name, std::move(quantized.tensors)});
    plan.warnings = std::move(quantized.warnings);  // The same model each time.
  }
  return plan;
}

std::string plan_text(const Recipe& recipe, const RecipePlan& plan) {
  std::string out = fmt::format("recipe {} ({})\n", recipe.name, recipe.file.string());
  out += fmt::format("  {:<12} {}\n", "model", recipe.model.string());
  out += data_text("calibration", recipe.calibration);
  const bool trains = std::any_of(recipe.variants.begin(), recipe.variants.end(),
                                  [](const Variant& variant) { return variant.qat.has_value(); });
  if (trains) out += data_text("training", recipe.training);
  out +=
      fmt::format("  {:<12} {} ({} contexts of {} tokens)\n", "heldout", recipe.heldout.string(),
                  recipe.evaluate.contexts == 0 ? "all" : std::to_string(recipe.evaluate.contexts),
                  recipe.evaluate.context);
  if (!recipe.task.empty()) out += fmt::format("  {:<12} {}\n", "task", recipe.task.string());
  out += "variants\n";
  for (std::size_t i = 0; i < recipe.variants.size(); ++i) {
    out += variant_text(recipe.variants[i], plan.variants[i]);
  }
  out += "stages\n ";
  for (const StageSpec& stage : stage_list(recipe, "", Json::object())) out += " " + stage.id;
  return out + " report\n";
}

Json recipe_plan_json(const Recipe& recipe, const RecipePlan& plan) {
  Json variants = Json::array();
  for (const VariantPlan& variant : plan.variants) {
    variants.push_back({{"name", variant.name}, {"tensors", plan_json(variant.tensors)}});
  }
  Json stages = Json::array();
  for (const StageSpec& stage : stage_list(recipe, "", Json::object())) {
    stages.push_back({{"id", stage.id}, {"use", stage.use}});
  }
  return {{"format", "elastiq.plan/1"},
          {"recipe", recipe.resolved},
          {"variants", std::move(variants)},
          {"stages", std::move(stages)},
          {"warnings", plan.warnings}};
}

Json plan_layers(const VariantPlan& plan) {
  Json layers = Json::array();
  for (const PlanEntry& entry : plan.tensors) {
    const double bits = 8 * static_cast<double>(entry.bytes) / weights_of(entry);
    layers.push_back({{"layer", entry.tensor.layer},
                      {"role", entry.tensor.role},
                      {"bits_per_weight", bits},
                      {"scheme", scheme_text(entry)},
                      {"rule", entry.rule}});
  }
  return layers;
}

}  // namespace elastiq
