// The schema that editors use must say what the reader does: the same keys, and yes to our recipes.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "recipes/recipe.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace elastiq {
namespace {

namespace fs = std::filesystem;
using Plain = nlohmann::json;
using valijson::adapters::NlohmannJsonAdapter;

fs::path root() {
  return fs::path(__FILE__).parent_path().parent_path().parent_path();
}

Plain parse_with_comments(const std::string& text) {
  return Plain::parse(text, nullptr, true, true);
}

const Plain& schema_json() {
  static const Plain json =
      Plain::parse(testing::slurp(root() / "recipes" / "schema" / "recipe.v1.json"));
  return json;
}

bool schema_accepts(const Plain& recipe) {
  valijson::Schema schema;
  valijson::SchemaParser parser;
  parser.populateSchema(NlohmannJsonAdapter(schema_json()), schema);
  valijson::Validator validator;
  return validator.validate(schema, NlohmannJsonAdapter(recipe), nullptr);
}

std::vector<std::string> sorted_keys(const Plain& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.at("properties").items()) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

TEST(RecipeSchema, HasTheKeysOfTheReader) {
  const Plain& s = schema_json();
  const Plain& definitions = s.at("definitions");
  const std::map<std::string, const Plain*> sections = {
      {"", &s},
      {"/data", &s.at("properties").at("data")},
      {"/data/calibration", &definitions.at("data")},
      {"/variants/N", &definitions.at("variant")},
      {"/variants/N/quantize", &definitions.at("quantize")},
      {"/variants/N/quantize/rules/N", &definitions.at("rule")},
      {"/variants/N/qat", &definitions.at("qat")},
      {"/evaluate", &s.at("properties").at("evaluate")},
      {"/export", &s.at("properties").at("export")}};
  ASSERT_EQ(recipe_keys().size(), sections.size());
  for (auto [section, keys] : recipe_keys()) {
    std::sort(keys.begin(), keys.end());
    ASSERT_EQ(sections.count(section), 1u) << section;
    EXPECT_EQ(sorted_keys(*sections.at(section)), keys) << section;
    EXPECT_EQ(sections.at(section)->at("additionalProperties"), false) << section;
  }
}

TEST(RecipeSchema, DefaultsAreThoseOfTheReader) {
  const testing::TempFolder folder;
  const auto recipe = load_recipe(
      {folder.put("r.json",
                  R"({"version": 1, "model": "m", "data": {"calibration": "c", "heldout": "h"},
        "variants": [{"name": "a", "quantize": {}}, {"name": "b", "from": "a", "qat": {}}]})"),
       {}});
  ASSERT_TRUE(testing::accepted(recipe));
  const Json& resolved = recipe.value().resolved;
  const Plain& definitions = schema_json().at("definitions");
  const std::vector<std::pair<const Plain*, const Json*>> sections = {
      {&definitions.at("data"), &resolved["data"]["calibration"]},
      {&definitions.at("quantize"), &resolved["variants"][0]["quantize"]},
      {&definitions.at("qat"), &resolved["variants"][1]["qat"]},
      {&schema_json().at("properties").at("evaluate"), &resolved["evaluate"]},
      {&schema_json().at("properties").at("export"), &resolved["export"]}};
  for (const auto& [schema, values] : sections) {
    for (const auto& [key, value] : values->items()) {
      const Plain& property = schema->at("properties").at(key);
      if (!property.contains("default")) continue;
      EXPECT_EQ(property["default"], Plain::parse(value.dump())) << key;
    }
  }
}

TEST(RecipeSchema, AcceptsOurRecipesAndSoDoesTheReader) {
  std::size_t seen = 0;
  for (const auto& entry : fs::directory_iterator(root() / "recipes")) {
    if (entry.path().extension() != ".json") continue;
    ++seen;
    EXPECT_TRUE(schema_accepts(parse_with_comments(testing::slurp(entry.path())))) << entry.path();
    EXPECT_TRUE(testing::accepted(
        load_recipe({entry.path(), {"vars.model=some-model", "vars.texts=some-texts"}})));
  }
  EXPECT_EQ(seen, 4u);
}

TEST(RecipeSchema, AcceptsTheRecipesOfTheDocumentation) {
  const testing::TempFolder folder;
  std::size_t seen = 0;
  for (const char* page : {"docs/recipes.md", "README.md"}) {
    const std::string text = testing::slurp(root() / page);
    for (std::size_t at = text.find("```json"); at != std::string::npos;
         at = text.find("```json", at + 1)) {
      const std::size_t from = text.find('\n', at);
      const std::string block = text.substr(from, text.find("```", from) - from);
      if (block.find("\"version\"") == std::string::npos) continue;
      ++seen;
      EXPECT_TRUE(schema_accepts(parse_with_comments(block))) << block;
      const auto file = folder.put("doc.json", block);
      EXPECT_TRUE(testing::accepted(load_recipe({file, {"vars.model=m", "vars.texts=t"}})))
          << block;
    }
  }
  EXPECT_GE(seen, 2u);
}

TEST(RecipeSchema, RefusesWhatTheReaderRefuses) {
  const Plain good = Plain::parse(R"({"version": 1, "model": "m", "data": {"heldout": "h"},
      "variants": [{"name": "a", "quantize": {"scheme": "sym4-row"}}]})");
  ASSERT_TRUE(schema_accepts(good));
  const std::vector<std::pair<const char*, const char*>> mistakes = {
      {"/version", "2"},
      {"/variants/0/quantize/shceme", "\"x\""},
      {"/variants/0/quantize/scheme", "\"seq5-row\""},
      {"/variants/0/quantize/damping_steps", "\"4\""},
      {"/variants/0/quantize/method", "\"awq\""},
      {"/variants/0/qat", "{}"},
      {"/variants/0/name", "\"../a\""},
      {"/variants", "[]"},
      {"/data/calibration", "3"}};
  const testing::TempFolder folder;
  for (const auto& [pointer, value] : mistakes) {
    Plain bad = good;
    bad[Plain::json_pointer(pointer)] = Plain::parse(value);
    EXPECT_FALSE(schema_accepts(bad)) << pointer;
    EXPECT_FALSE(load_recipe({folder.put("bad.json", bad.dump()), {}}).ok()) << pointer;
  }
}

}  // namespace
}  // namespace elastiq
