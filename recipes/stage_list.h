#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"
#include "recipes/recipe.h"

namespace elastiq {

/// One step of a run: a program called with an options file.
struct StageSpec {
  std::string id;   ///< "quantize-ptq-2bit"; also its folder below OUT/stages.
  std::string use;  ///< calibrate, quantize, qat, export, bench, evaluate
  Json options;     ///< The stage file.
  Json content;     ///< What of it decides the result: no paths, no threads.
  std::vector<std::filesystem::path> inputs;  ///< By digest, in this order.
  std::filesystem::path folder;  ///< OUT/stages/ID: options.json, result.json, stage.json.
  std::filesystem::path out;     ///< What the stage writes; empty: only its result.
};

/// Runs in the program without LibTorch?
enum class StageProgram { kElastiq, kTorch };
StageProgram stage_program(const std::string& use);

/// Counted up when a stage's results change for the same inputs; part of its cache key.
int stage_version(const std::string& use);

/// All stages of a recipe in the order in which they run. `digests` (role of an input -> SHA-256)
/// goes into the provenance of the packages.
std::vector<StageSpec> stage_list(const Recipe& recipe, const std::filesystem::path& out,
                                  const Json& digests);

std::string calibrate_id();
std::string variant_stage_id(const Variant& variant);
std::string export_id(const Variant& variant);
std::string bench_id(const Variant& variant);
/// variant_name: "float" for the model itself.
std::string evaluate_id(const std::string& variant_name);

/// The package that a variant's export stage writes.
std::filesystem::path package_path(const std::filesystem::path& out, const Variant& variant);

/// What a package tells of its making: the parts of the resolved recipe that decide its bytes, with
/// file names in place of paths.
Json package_recipe(const Recipe& recipe, const Variant& variant);

}  // namespace elastiq
