#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "recipes/option_fields.h"

namespace elastiq {

/// One compressed form of the model: quantized after training, or trained further from another
/// variant.
struct Variant {
  std::string name;                         ///< Also the package's: NAME.elq.
  std::optional<QuantizeOptions> quantize;  ///< Exactly one of quantize and qat.
  std::string from;                         ///< qat: an earlier variant.
  std::optional<QatOptions> qat;
};

/// A recipe, resolved: all files merged, variables and --set applied, defaults filled in, paths
/// absolute. The option structs hold the recipe's settings; the runner adds the paths between
/// stages.
struct Recipe {
  std::filesystem::path file;
  std::string name;   ///< Default: the file's name without suffix.
  std::string title;  ///< Of the report; default: the name.
  std::filesystem::path model;
  DataOptions calibration;  ///< No files: statistics are not collected.
  DataOptions training;     ///< Default: the calibration text, all windows.
  std::filesystem::path heldout;
  std::filesystem::path task;  ///< Empty: no task accuracy.
  std::vector<Variant> variants;
  EvaluateOptions evaluate;
  ExportOptions packaging;
  MatmulType matmul = MatmulType::kF32;
  int threads = 2;
  Json resolved;  ///< The same as a recipe of its own: no extends, no variables.
};

/// A recipe file and what the command line changes in it: "a.b=value" pairs, applied in order
/// before variables are filled in. The value is JSON where it parses as such, else text. A list
/// element is named by its index, or by its "name" or "id"
/// ("variants.qat-2bit.qat.scale_steps=300").
struct RecipeSource {
  std::filesystem::path file;
  std::vector<std::string> sets;
};

/// Reads, merges ("extends"), fills in and checks a recipe. The checks need no model and no data.
/// Paths     relative ones start at the folder of `source.file`; a --set value for vars, model or
///           data that names an existing file or folder starts at the working folder.
/// Errors    kRecipe: everything that is wrong, each with JSON pointer and, for an unknown key, the
///           nearest allowed one; kUsage: a --set without "=".
Result<Recipe> load_recipe(const RecipeSource& source);

/// The keys that each section of a recipe allows ("" is the top level), for the schema and for
/// hints.
std::vector<std::pair<std::string, std::vector<std::string>>> recipe_keys();

}  // namespace elastiq
