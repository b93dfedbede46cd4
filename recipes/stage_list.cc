#include "recipes/stage_list.h"

#include <algorithm>
#include <array>
#include <set>

#include "recipes/machine.h"
#include "recipes/stage_options.h"

namespace elastiq {
namespace {

namespace fs = std::filesystem;

struct StageKind {
  const char* use;
  StageProgram program;
  int version;
};

constexpr std::array kKinds = {StageKind{"calibrate", StageProgram::kTorch, 1},
                               StageKind{"quantize", StageProgram::kTorch, 1},
                               StageKind{"qat", StageProgram::kTorch, 1},
                               StageKind{"export", StageProgram::kElastiq, 1},
                               StageKind{"bench", StageProgram::kElastiq, 1},
                               StageKind{"evaluate", StageProgram::kTorch, 1}};

const StageKind& kind_of(const std::string& use) {
  const auto it = std::find_if(kKinds.begin(), kKinds.end(),
                               [&use](const StageKind& kind) { return use == kind.use; });
  return it == kKinds.end() ? kKinds.front() : *it;
}

StageSpec new_stage(const fs::path& out, const std::string& id, const std::string& use) {
  StageSpec spec;
  spec.id = id;
  spec.use = use;
  spec.folder = out / "stages" / id;
  return spec;
}

template <class T>
StageSpec finished(StageSpec spec, const T& options) {
  spec.options = options_json(options);
  spec.content = options_content(options);
  return spec;
}

fs::path stage_out(const fs::path& out, const std::string& id) {
  return out / "stages" / id / "out";
}

void add_files(StageSpec& spec, const DataOptions& data) {
  spec.inputs.insert(spec.inputs.end(), data.files.begin(), data.files.end());
}

StageSpec calibrate_stage(const Recipe& recipe, const fs::path& out) {
  StageSpec spec = new_stage(out, calibrate_id(), "calibrate");
  spec.out = stage_out(out, spec.id);
  spec.inputs = {recipe.model};
  add_files(spec, recipe.calibration);
  CalibrateOptions options;
  options.model = recipe.model;
  options.data = recipe.calibration;
  options.out = spec.out;
  options.matmul = recipe.matmul;
  options.threads = recipe.threads;
  return finished(std::move(spec), options);
}

StageSpec quantize_stage(const Recipe& recipe, const fs::path& out, const Variant& variant) {
  StageSpec spec = new_stage(out, variant_stage_id(variant), "quantize");
  spec.out = stage_out(out, spec.id);
  spec.inputs = {recipe.model};
  QuantizeOptions options = *variant.quantize;
  options.model = recipe.model;
  options.out = spec.out;
  options.data = recipe.calibration;
  options.matmul = recipe.matmul;
  options.threads = recipe.threads;
  if (!recipe.calibration.files.empty()) {
    options.stats = stage_out(out, calibrate_id());
    spec.inputs.push_back(options.stats);
    add_files(spec, recipe.calibration);
  }
  return finished(std::move(spec), options);
}

const Variant& variant_named(const Recipe& recipe, const std::string& name) {
  return *std::find_if(recipe.variants.begin(), recipe.variants.end(),
                       [&name](const Variant& variant) { return variant.name == name; });
}

StageSpec qat_stage(const Recipe& recipe, const fs::path& out, const Variant& variant) {
  StageSpec spec = new_stage(out, variant_stage_id(variant), "qat");
  spec.out = stage_out(out, spec.id);
  QatOptions options = *variant.qat;
  options.model = recipe.model;
  options.ptq = stage_out(out, variant_stage_id(variant_named(recipe, variant.from)));
  options.out = spec.out;
  options.data = recipe.training;
  options.matmul = recipe.matmul;
  options.threads = recipe.threads;
  spec.inputs = {recipe.model, options.ptq};
  add_files(spec, recipe.training);
  spec = finished(std::move(spec), options);
  // LibTorch's products depend on the threads in the last bits, and training adds them up.
  spec.content["threads"] = recipe.threads;
  return spec;
}

StageSpec export_stage(const Recipe& recipe, const fs::path& out, const Variant& variant,
                       const Json& digests) {
  StageSpec spec = new_stage(out, export_id(variant), "export");
  spec.out = stage_out(out, spec.id);
  ExportOptions options = recipe.packaging;
  options.model = stage_out(out, variant_stage_id(variant));
  options.out = spec.out;
  options.name = variant.name;
  options.provenance = {{"tool", "elastiq " ELASTIQ_VERSION},
                        {"kind", variant.qat ? "qat" : "ptq"},
                        {"recipe", package_recipe(recipe, variant)},
                        {"digests", digests}};
  spec.inputs = {options.model};
  return finished(std::move(spec), options);
}

StageSpec bench_stage(const Recipe& recipe, const fs::path& out, const Variant& variant) {
  StageSpec spec = new_stage(out, bench_id(variant), "bench");
  const fs::path package = package_path(out, variant);
  spec.inputs = {package};
  spec.options = {{"package", package.string()}, {"threads", recipe.threads}};
  // Speed depends on the threads and the machine, unlike any other result.
  spec.content = {{"threads", recipe.threads}, {"machine", speed_conditions()}};
  return spec;
}

StageSpec evaluate_stage(const Recipe& recipe, const fs::path& out, const Variant* variant) {
  const std::string name = variant == nullptr ? "float" : variant->name;
  StageSpec spec = new_stage(out, evaluate_id(name), "evaluate");
  EvaluateOptions options = recipe.evaluate;
  options.float_model = recipe.model;
  options.model = variant == nullptr ? recipe.model : package_path(out, *variant);
  options.text = recipe.heldout;
  options.task = recipe.task;
  options.name = name;
  options.kind = variant == nullptr ? "float" : variant->qat ? "qat" : "ptq";
  options.threads = recipe.threads;
  spec.inputs = {options.float_model, options.model, options.text};
  if (!options.task.empty()) spec.inputs.push_back(options.task);
  return finished(std::move(spec), options);
}

void names_only(Json& paths) {
  for (Json& path : paths) path = fs::path(path.get<std::string>()).filename().string();
}

}  // namespace

StageProgram stage_program(const std::string& use) {
  return kind_of(use).program;
}

int stage_version(const std::string& use) {
  return kind_of(use).version;
}

std::string calibrate_id() {
  return "calibrate";
}

std::string variant_stage_id(const Variant& variant) {
  return (variant.qat ? "qat-" : "quantize-") + variant.name;
}

std::string export_id(const Variant& variant) {
  return "export-" + variant.name;
}

std::string bench_id(const Variant& variant) {
  return "bench-" + variant.name;
}

std::string evaluate_id(const std::string& variant_name) {
  return "evaluate-" + variant_name;
}

fs::path package_path(const fs::path& out, const Variant& variant) {
  return stage_out(out, export_id(variant)) / (variant.name + ".elq");
}

Json package_recipe(const Recipe& recipe, const Variant& variant) {
  Json json = recipe.resolved;
  for (const char* key : {"title", "evaluate", "threads"}) json.erase(key);
  json["model"] = recipe.model.filename().string();
  for (const char* key : {"heldout", "task"}) json["data"].erase(key);
  if (!variant.qat) json["data"].erase("training");
  for (auto& [use, data] : json["data"].items()) names_only(data["files"]);
  // The variant and those that it starts from, no others: adding a variant to a recipe leaves the
  // packages of the others as they are.
  std::set<std::string> chain;
  for (const Variant* at = &variant;; at = &variant_named(recipe, at->from)) {
    chain.insert(at->name);
    if (!at->qat) break;
  }
  Json kept = Json::array();
  for (const Json& entry : json["variants"]) {
    if (chain.count(entry["name"].get<std::string>()) != 0) kept.push_back(entry);
  }
  json["variants"] = std::move(kept);
  return json;
}

std::vector<StageSpec> stage_list(const Recipe& recipe, const fs::path& out, const Json& digests) {
  std::vector<StageSpec> stages;
  if (!recipe.calibration.files.empty()) stages.push_back(calibrate_stage(recipe, out));
  for (const Variant& variant : recipe.variants) {
    stages.push_back(variant.qat ? qat_stage(recipe, out, variant)
                                 : quantize_stage(recipe, out, variant));
    stages.push_back(export_stage(recipe, out, variant, digests));
    stages.push_back(bench_stage(recipe, out, variant));
  }
  stages.push_back(evaluate_stage(recipe, out, nullptr));
  for (const Variant& variant : recipe.variants) {
    stages.push_back(evaluate_stage(recipe, out, &variant));
  }
  return stages;
}

}  // namespace elastiq
