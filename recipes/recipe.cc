#include "recipes/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "recipes/option_json.h"
#include "recipes/recipe_document.h"
#include "recipes/stage_options.h"

namespace elastiq {
namespace {

namespace fs = std::filesystem;

constexpr auto kRequired = FieldInfo::Need::kRequired;

bool is_file_name(const std::string& name) {
  const bool allowed = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
  return allowed && !name.empty() && name.front() != '.' && name.front() != '-' &&
         name.size() <= 64;
}

void read_quantize(const Json& json, const std::string& pointer, QuantizeOptions& options,
                   std::vector<std::string>& problems) {
  OptionReader reader(json, pointer, problems);
  visit_settings(reader, options);
  reader.finish();
}

void read_variant(const Json& json, const std::string& pointer, Variant& variant,
                  std::vector<std::string>& problems) {
  OptionReader reader(json, pointer, problems);
  reader.field("name", variant.name, {.help = "", .need = kRequired});
  reader.field("from", variant.from, {.help = ""});
  const Json* quantize = reader.section("quantize");
  const Json* qat = reader.section("qat");
  reader.finish();
  if (quantize != nullptr) {
    read_quantize(*quantize, reader.pointer_of("quantize"), variant.quantize.emplace(), problems);
  }
  if (qat != nullptr) {
    OptionReader training(*qat, reader.pointer_of("qat"), problems);
    visit_settings(training, variant.qat.emplace());
    training.finish();
  }
  if (!json.is_object()) return;
  const bool has_name = json.contains("name") && json["name"].is_string();
  if (has_name && !is_file_name(variant.name)) {
    reader.problem("name",
                   "\"" + variant.name + "\" names a file: 1 to 64 letters, digits, '-', '_', '.'");
  }
  if (variant.quantize.has_value() == variant.qat.has_value()) {
    reader.problem("quantize", "a variant has either \"quantize\" or \"qat\" (with \"from\")");
  }
}

void check_variants(const Recipe& recipe, std::vector<std::string>& problems) {
  std::set<std::string> names = {"float"};
  for (std::size_t i = 0; i < recipe.variants.size(); ++i) {
    const Variant& variant = recipe.variants[i];
    const std::string here = "/variants/" + std::to_string(i);
    if (variant.qat &&
        (variant.from.empty() || names.count(variant.from) == 0 || variant.from == "float")) {
      problems.push_back(here + "/from: expected the name of an earlier variant, found \"" +
                         variant.from + "\"");
    }
    if (variant.quantize && !variant.from.empty()) {
      problems.push_back(here + "/from: only for \"qat\"; \"quantize\" starts from the model");
    }
    if (variant.quantize && variant.quantize->method == QuantizeOptions::Method::kGptq &&
        recipe.calibration.files.empty()) {
      problems.push_back(here + "/quantize/method: \"gptq\" needs /data/calibration");
    }
    if (variant.qat && recipe.training.files.empty()) {
      problems.push_back(here + "/qat: needs /data/training or /data/calibration");
    }
    if (!variant.name.empty() && !names.insert(variant.name).second) {
      problems.push_back(here + "/name: a second variant \"" + variant.name + "\"" +
                         (variant.name == "float" ? " (the model itself)" : ""));
    }
  }
}

void read_data(const Json& json, Recipe& recipe, std::vector<std::string>& problems) {
  OptionReader reader(json, "/data", problems);
  reader.data("calibration", recipe.calibration, {.help = ""});
  recipe.training = recipe.calibration;
  recipe.training.windows = 0;
  reader.data("training", recipe.training, {.help = ""});
  reader.field("heldout", recipe.heldout, {.help = "", .need = kRequired});
  reader.field("task", recipe.task, {.help = ""});
  reader.finish();
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return a == b || fs::equivalent(a, b, ignored);
}

/// What a model was calibrated or trained on tells nothing about its quality.
void check_heldout(const Recipe& recipe, std::vector<std::string>& problems) {
  const auto check = [&](const DataOptions& data, const char* pointer) {
    for (const fs::path& file : data.files) {
      if (!is_same_file(file, recipe.heldout)) continue;
      problems.push_back("/data/heldout: found " + recipe.heldout.string() + ", which " + pointer +
                         " has too; expected text that nothing was calibrated or trained on");
    }
  };
  check(recipe.calibration, "/data/calibration");
  if (recipe.training.files != recipe.calibration.files) check(recipe.training, "/data/training");
}

/// A known key at a level where it does not belong gets the way to where it does.
void add_level_hints(std::vector<std::string>& problems) {
  for (std::string& problem : problems) {
    const std::size_t colon = problem.find(": unknown key, allowed here");
    if (colon == std::string::npos) continue;
    const std::string key =
        problem.substr(problem.rfind('/', colon) + 1, colon - problem.rfind('/', colon) - 1);
    for (const auto& [section, keys] : recipe_keys()) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) continue;
      problem = problem.substr(0, colon) + ": unknown key here; it belongs in " +
                (section.empty() ? "/" : section);
      break;
    }
  }
}

template <class Settings>
void read_section(OptionReader& reader, const char* key, Settings& settings,
                  std::vector<std::string>& problems) {
  const Json* json = reader.section(key);
  if (json == nullptr) return;
  OptionReader inner(*json, reader.pointer_of(key), problems);
  visit_settings(inner, settings);
  inner.finish();
}

void read_top(const Json& document, Recipe& recipe, std::vector<std::string>& problems) {
  OptionReader reader(document, "", problems);
  reader.value("$schema");
  reader.value("version");
  reader.field("name", recipe.name, {.help = ""});
  reader.field("title", recipe.title, {.help = ""});
  reader.field("model", recipe.model, {.help = "", .need = kRequired});
  const Json* data = reader.section("data");
  if (data == nullptr) reader.problem("data", "missing");
  if (data != nullptr) read_data(*data, recipe, problems);
  const Json* variants = reader.value("variants");
  if (variants == nullptr || !variants->is_array() || variants->empty()) {
    reader.problem("variants", "expected a list of at least one variant");
  } else {
    for (std::size_t i = 0; i < variants->size(); ++i) {
      read_variant((*variants)[i], "/variants/" + std::to_string(i), recipe.variants.emplace_back(),
                   problems);
    }
  }
  read_section(reader, "evaluate", recipe.evaluate, problems);
  read_section(reader, "export", recipe.packaging, problems);
  visit_matmul(reader, recipe.matmul);
  visit_threads(reader, recipe.threads);
  reader.finish();
}

void make_absolute(Recipe& recipe) {
  const fs::path folder = fs::absolute(recipe.file).parent_path();
  const auto resolve = [&folder](fs::path& path) {
    if (!path.empty()) path = (folder / path).lexically_normal();
  };
  resolve(recipe.model);
  resolve(recipe.heldout);
  resolve(recipe.task);
  for (fs::path& path : recipe.calibration.files) resolve(path);
  for (fs::path& path : recipe.training.files) resolve(path);
}

template <class Settings>
Json settings_json(Settings settings) {
  OptionWriter writer(OptionWriter::What::kAll);
  visit_settings(writer, settings);
  return writer.take();
}

Json data_json(DataOptions data) {
  OptionWriter writer(OptionWriter::What::kAll);
  visit_fields(writer, data);
  return writer.take();
}

Json resolved_json(const Recipe& recipe) {
  Json json = {{"version", 1},
               {"name", recipe.name},
               {"title", recipe.title},
               {"model", recipe.model.string()}};
  Json data = Json::object();
  if (!recipe.calibration.files.empty()) data["calibration"] = data_json(recipe.calibration);
  if (!recipe.training.files.empty()) data["training"] = data_json(recipe.training);
  data["heldout"] = recipe.heldout.string();
  if (!recipe.task.empty()) data["task"] = recipe.task.string();
  json["data"] = std::move(data);
  json["variants"] = Json::array();
  for (const Variant& variant : recipe.variants) {
    Json entry = {{"name", variant.name}};
    if (variant.quantize) entry["quantize"] = settings_json(*variant.quantize);
    if (variant.qat) entry["from"] = variant.from;
    if (variant.qat) entry["qat"] = settings_json(*variant.qat);
    json["variants"].push_back(std::move(entry));
  }
  json["evaluate"] = settings_json(recipe.evaluate);
  json["export"] = settings_json(recipe.packaging);
  json["matmul"] = matmul_type_name(recipe.matmul);
  json["threads"] = recipe.threads;
  return json;
}

template <class Settings>
std::vector<std::string> settings_keys() {
  KeyLister lister;
  Settings settings;
  visit_settings(lister, settings);
  return lister.keys();
}

}  // namespace

Result<Recipe> load_recipe(const RecipeSource& source) {
  ELQ_TRY(document, resolve_document(source));
  Recipe recipe;
  recipe.file = source.file;
  recipe.name = source.file.stem().string();
  std::vector<std::string> problems;
  read_top(document, recipe, problems);
  check_variants(recipe, problems);
  add_level_hints(problems);
  ELQ_CHECK(problems_status(problems, ErrorCode::kRecipe, source.file.string()));
  if (recipe.title.empty()) recipe.title = recipe.name;
  make_absolute(recipe);
  check_heldout(recipe, problems);
  ELQ_CHECK(problems_status(problems, ErrorCode::kRecipe, source.file.string()));
  recipe.resolved = resolved_json(recipe);
  return recipe;
}

std::vector<std::pair<std::string, std::vector<std::string>>> recipe_keys() {
  KeyLister data;
  DataOptions data_options;
  visit_fields(data, data_options);
  return {{"",
           {"$schema", "version", "name", "title", "extends", "vars", "model", "data", "variants",
            "evaluate", "export", "matmul", "threads"}},
          {"/data", {"calibration", "training", "heldout", "task"}},
          {"/data/calibration", data.keys()},
          {"/variants/N", {"name", "from", "quantize", "qat"}},
          {"/variants/N/quantize", settings_keys<QuantizeOptions>()},
          {"/variants/N/quantize/rules/N", {"id", "roles", "name", "layers", "scheme"}},
          {"/variants/N/qat", settings_keys<QatOptions>()},
          {"/evaluate", settings_keys<EvaluateOptions>()},
          {"/export", settings_keys<ExportOptions>()}};
}

}  // namespace elastiq
