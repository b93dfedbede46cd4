#include "recipes/recipe.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace elastiq {
namespace {

using testing::accepted;
using testing::refused;
using testing::TempFolder;

constexpr const char* kShort = R"({
  "version": 1,
  "model": "model",
  "data": {"calibration": "train.txt", "heldout": "held.txt"},
  "variants": [
    {"name": "w4", "quantize": {"scheme": "sym4-g64-u8-k4"}}
  ]
}
)";

Result<Recipe> load(const std::string& text, std::vector<std::string> sets) {
  const TempFolder folder;
  return load_recipe({folder.put("r.json", text), std::move(sets)});
}

std::string with_variant(const std::string& variant) {
  return R"({"version": 1, "model": "m", "data": {"calibration": "c", "heldout": "h"}, "variants": [)" +
         variant + "]}";
}

TEST(Recipe, TenLinesWorkWithDocumentedDefaults) {
  const TempFolder folder;
  const auto recipe = load_recipe({folder.put("short.json", kShort), {}});
  ASSERT_TRUE(accepted(recipe));
  const Recipe& r = recipe.value();
  EXPECT_EQ(r.name, "short");
  EXPECT_EQ(r.title, "short");
  EXPECT_EQ(r.model, folder / "model");
  EXPECT_EQ(r.heldout, folder / "held.txt");
  EXPECT_EQ(r.calibration.files, std::vector<std::filesystem::path>{folder / "train.txt"});
  EXPECT_EQ(r.calibration.sequence_length, 512);
  EXPECT_EQ(r.calibration.windows, 128);
  EXPECT_EQ(r.training.files, r.calibration.files);
  EXPECT_EQ(r.training.windows, 0);
  EXPECT_EQ(r.threads, 2);
  EXPECT_EQ(r.evaluate.context, 512);
  ASSERT_EQ(r.variants.size(), 1u);
  ASSERT_TRUE(r.variants[0].quantize);
  EXPECT_EQ(r.variants[0].quantize->method, QuantizeOptions::Method::kRtn);
  EXPECT_EQ(r.variants[0].quantize->damping, 0.05);
}

TEST(Recipe, ResolvedFormIsARecipeThatResolvesToItself) {
  const auto first = load(with_variant(R"({"name": "a", "quantize": {"method": "gptq"}},
      {"name": "b", "from": "a", "qat": {"scale_steps": 7}})"),
                          {});
  ASSERT_TRUE(accepted(first));
  const auto again = load(first.value().resolved.dump(), {});
  ASSERT_TRUE(accepted(again));
  EXPECT_EQ(again.value().resolved, first.value().resolved);
  EXPECT_EQ(first.value().resolved["variants"][1]["qat"]["scale_steps"], 7);
}

struct Mistake {
  const char* name;
  const char* variant;  ///< Text of one variant, or a whole recipe when it begins with "{ ".
  std::vector<std::string> words;
};

class RecipeMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(RecipeMistake, IsABadRecipeWithPathAndHint) {
  const std::string text = GetParam().variant;
  const auto recipe = load(text.rfind("{ ", 0) == 0 ? text : with_variant(text), {});
  ASSERT_TRUE(refused(recipe, ErrorCode::kRecipe, GetParam().words));
  EXPECT_EQ(exit_status(recipe.error()), 3);
}

// cases.md 25, in the keys of our recipes.
INSTANTIATE_TEST_SUITE_P(
    Cases, RecipeMistake,
    ::testing::Values(
        Mistake{"MisspelledKey",
                R"({"name": "a", "quantize": {"shceme": "sym4-row"}})",
                {"/variants/0/quantize/shceme: unknown key, did you mean \"scheme\"?"}},
        Mistake{"SectionOneLevelTooHigh",
                R"({"name": "a", "quantize": {}, "damping_steps": 2})",
                {"/variants/0/damping_steps", "it belongs in /variants/N/quantize"}},
        Mistake{"NumberAsText",
                R"({"name": "a", "quantize": {"damping_steps": "4"}})",
                {"/variants/0/quantize/damping_steps: found string \"4\", expected an integer"}},
        Mistake{"TextAsNumber",
                R"({"name": "a", "quantize": {"scheme": 4}})",
                {"/variants/0/quantize/scheme: found number 4, expected a string"}},
        Mistake{"FractionForInteger",
                R"({"name": "a", "quantize": {"damping_steps": 1.5}})",
                {"expected an integer"}},
        Mistake{"OutOfRange",
                R"({"name": "a", "quantize": {"damping_steps": 99}})",
                {"found number 99, allowed 0 to 12"}},
        Mistake{"UnknownMethod",
                R"({"name": "a", "quantize": {"method": "awq"}})",
                {"/variants/0/quantize/method", "allowed \"rtn\", \"gptq\""}},
        Mistake{"UnknownScheme",
                R"({"name": "a", "quantize": {"scheme": "seq5-row"}})",
                {"/variants/0/quantize/scheme: scheme 'seq5-row'", "seq 1 to 4"}},
        Mistake{"RuleWithoutScheme",
                R"({"name": "a", "quantize": {"rules": [{"id": "x"}]}})",
                {"/variants/0/quantize/rules/0/scheme: missing"}},
        Mistake{
            "RuleWithMisspelledKey",
            R"({"name": "a", "quantize": {"rules": [{"id": "x", "layer": "0", "scheme": "keep"}]}})",
            {"/variants/0/quantize/rules/0/layer: unknown key, did you mean \"layers\"?"}},
        Mistake{
            "TwoRulesOfOneId",
            R"({"name": "a", "quantize": {"rules": [{"id": "x", "scheme": "keep"}, {"id": "x", "scheme": "keep"}]}})",
            {"/variants/0/quantize/rules/1/id: a second rule \"x\""}},
        Mistake{"TooManyKeptColumns",
                R"({"name": "a", "quantize": {"scheme": "seq2-g64-u8-k65"}})",
                {"/variants/0/quantize/scheme", "65 kept columns; allowed: 0 to 64"}},
        Mistake{"RuleOfTheReservedId",
                R"({"name": "a", "quantize": {"rules": [{"id": "default", "scheme": "keep"}]}})",
                {"/variants/0/quantize/rules/0/id: 'default' is reserved"}},
        Mistake{"RuleWithUnknownScheme",
                R"({"name": "a", "quantize": {"rules": [{"id": "x", "scheme": "q4_k"}]}})",
                {"/variants/0/quantize/rules/0/scheme: scheme 'q4_k' is neither 'keep' nor valid"}},
        Mistake{"RuleWithTooManyKeptColumns",
                R"({"name": "a", "quantize": {"rules": [{"id": "x", "scheme": "sym4-row-k99"}]}})",
                {"/variants/0/quantize/rules/0/scheme", "99 kept columns"}},
        Mistake{
            "RuleWithUnknownRole",
            R"({"name": "a", "quantize": {"rules": [{"id": "x", "roles": ["attn.q", "attn.kv"], "scheme": "keep"}]}})",
            {"/variants/0/quantize/rules/0/roles: role 'attn.kv' matches no role"}},
        Mistake{
            "RuleWithBadLayers",
            R"({"name": "a", "quantize": {"rules": [{"id": "x", "layers": "0,all", "scheme": "keep"}]}})",
            {"/variants/0/quantize/rules/0/layers: layers 'all': expected a number"}},
        Mistake{
            "RuleWithAnEmptyRange",
            R"({"name": "a", "quantize": {"rules": [{"id": "x", "layers": "5-2", "scheme": "keep"}]}})",
            {"/variants/0/quantize/rules/0/layers: layers '5-2': the range is empty"}},
        Mistake{"EmptyName", R"({"name": "", "quantize": {}})", {"/variants/0/name", "1 to 64"}},
        Mistake{
            "HeldoutIsCalibrationText",
            R"({ "version": 1, "model": "m", "data": {"calibration": ["c", "x/../h"], "heldout": "h"}, "variants": [{"name": "a", "quantize": {}}]})",
            {"/data/heldout: found ", "which /data/calibration has too"}},
        Mistake{
            "HeldoutIsTrainingText",
            R"({ "version": 1, "model": "m", "data": {"calibration": "c", "training": "h", "heldout": "h"}, "variants": [{"name": "a", "quantize": {}}]})",
            {"/data/heldout: found ", "which /data/training has too"}},
        Mistake{
            "VariableInACircle",
            R"({ "version": 1, "vars": {"a": "${vars.b}", "b": "x${vars.a}"}, "model": "${vars.a}"})",
            {"/vars/a: the variable refers to itself"}},
        Mistake{"VariableThatNamesAnUnsetOne",
                R"({ "version": 1, "vars": {"a": "${vars.nope}"}, "model": "${vars.a}/${vars.a}"})",
                {"/vars/a: ${vars.nope} is not set"}},
        Mistake{"NeitherQuantizeNorQat", R"({"name": "a"})", {"either \"quantize\" or \"qat\""}},
        Mistake{"QatWithoutFrom",
                R"({"name": "a", "qat": {}})",
                {"/variants/0/from: expected the name of an earlier variant"}},
        Mistake{"QatFromLaterVariant",
                R"({"name": "a", "from": "b", "qat": {}}, {"name": "b", "quantize": {}})",
                {"/variants/0/from", "\"b\""}},
        Mistake{"QuantizeWithFrom",
                R"({"name": "a", "from": "float", "quantize": {}})",
                {"/variants/0/from: only for \"qat\""}},
        Mistake{"TwoVariantsOfOneName",
                R"({"name": "a", "quantize": {}}, {"name": "a", "quantize": {}})",
                {"/variants/1/name: a second variant \"a\""}},
        Mistake{"NameOfTheModelItself",
                R"({"name": "float", "quantize": {}})",
                {"/variants/0/name", "the model itself"}},
        Mistake{"NameThatLeavesTheFolder",
                R"({"name": "../a", "quantize": {}})",
                {"/variants/0/name", "names a file"}},
        Mistake{"VariantIsText", R"("a")", {"/variants/0: found string \"a\", expected an object"}},
        Mistake{"TrailingComma", R"({ "version": 1, "model": "m",})", {"syntax error"}},
        Mistake{"TwiceTheSameKey",
                R"({ "version": 1, "model": "m", "model": "n"})",
                {"duplicate", "/model"}},
        Mistake{"NoVersion", R"({ "model": "m"})", {"/version: missing"}},
        Mistake{"NewerVersion", R"({ "version": 2})", {"/version: found 2", "newer elastiq"}},
        Mistake{"NothingGiven",
                R"({ "version": 1})",
                {"/model: missing", "/data: missing", "/variants: expected a list"}},
        Mistake{
            "GptqWithoutCalibration",
            R"({ "version": 1, "model": "m", "data": {"heldout": "h"}, "variants": [{"name": "a", "quantize": {"method": "gptq"}}]})",
            {"/variants/0/quantize/method: \"gptq\" needs /data/calibration"}},
        Mistake{"VariantsIsObject",
                R"({ "version": 1, "variants": {}})",
                {"/variants: expected a list"}},
        Mistake{"VariableNotSet",
                R"({ "version": 1, "model": "${vars.nope}"})",
                {"/model: ${vars.nope} is not set; give --set vars.nope=VALUE"}},
        Mistake{"VariableOfOtherKind",
                R"({ "version": 1, "model": "${env.HOME}"})",
                {"${env.HOME} is no ${vars.NAME}"}},
        Mistake{"VariableNotClosed",
                R"({ "version": 1, "model": "${vars.a"})",
                {"\"${\" without \"}\""}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Recipe, AllMistakesAreReportedAtOnce) {
  const auto recipe =
      load(with_variant(R"({"name": "a", "quantize": {"shceme": "x", "damping": "y"}},
      {"name": "b", "qat": {"batch": 0}})"),
           {});
  ASSERT_TRUE(refused(recipe, ErrorCode::kRecipe,
                      {"4 problems", "/variants/0/quantize/shceme", "/variants/0/quantize/damping",
                       "/variants/1/qat/batch", "/variants/1/from"}));
}

TEST(Recipe, CommentsAndByteOrderMarkAreFine) {
  EXPECT_TRUE(accepted(load("\xEF\xBB\xBF// hello\n" + std::string(kShort) + "/* end */", {})));
}

TEST(Recipe, Utf16IsRefusedByName) {
  const std::string utf16("\xFF\xFE{\0}\0", 6);
  EXPECT_TRUE(refused(load(utf16, {}), ErrorCode::kRecipe, {"UTF-16"}));
}

TEST(Recipe, MissingFileIsABadRecipe) {
  EXPECT_TRUE(refused(load_recipe({"/nonexistent/r.json", {}}), ErrorCode::kRecipe,
                      {"/nonexistent/r.json"}));
}

TEST(Recipe, VariablesKeepTheirType) {
  const std::string text = R"({"version": 1, "vars": {"dir": "d", "n": 9}, "model": "${vars.dir}/m",
      "data": {"heldout": "x-${vars.n}.txt"}, "threads": "${vars.n}",
      "variants": [{"name": "a", "quantize": {}}]})";
  const auto recipe = load(text, {});
  ASSERT_TRUE(accepted(recipe));
  EXPECT_EQ(recipe.value().model.filename(), "m");
  EXPECT_EQ(recipe.value().model.parent_path().filename(), "d");
  EXPECT_EQ(recipe.value().heldout.filename(), "x-9.txt");
  EXPECT_EQ(recipe.value().threads, 9);
}

TEST(Recipe, VariablesMayStandInVariables) {
  const std::string text = R"({"version": 1,
      "vars": {"root": "r", "dir": "${vars.root}/d", "n": 3, "m": "${vars.n}"},
      "model": "${vars.dir}/m", "threads": "${vars.m}", "data": {"heldout": "h"},
      "variants": [{"name": "a", "quantize": {}}]})";
  const TempFolder folder;
  const auto recipe = load_recipe({folder.put("r.json", text), {"vars.root=q"}});
  ASSERT_TRUE(accepted(recipe));
  EXPECT_EQ(recipe.value().model, folder / "q/d/m");
  EXPECT_EQ(recipe.value().threads, 3);
}

TEST(Recipe, HeldoutUnderAnotherNameIsStillTheSameFile) {
  const TempFolder folder;
  folder.put("c", "text");
  std::filesystem::create_symlink("c", folder / "h");
  const auto file = folder.put("r.json", with_variant(R"({"name": "a", "quantize": {}})"));
  EXPECT_TRUE(refused(load_recipe({file, {}}), ErrorCode::kRecipe, {"/data/heldout"}));
}

TEST(Recipe, SetRefusesJsonThatARecipeMayNotHave) {
  const std::string text = with_variant(R"({"name": "a", "quantize": {}})");
  EXPECT_TRUE(refused(load(text, {R"(evaluate={"context": 8, "context": 16})"}), ErrorCode::kUsage,
                      {"--set evaluate", "duplicate key /context"}));
  EXPECT_TRUE(refused(load(text, {"title=\xff"}), ErrorCode::kUsage, {"--set title", "UTF-8"}));
  const auto as_text = load(text, {"title={not json"});
  ASSERT_TRUE(accepted(as_text));
  EXPECT_EQ(as_text.value().title, "{not json");
}

TEST(Recipe, SetChangesValuesByKeyNameAndIndex) {
  const auto recipe =
      load(with_variant(R"({"name": "a", "quantize": {}}, {"name": "b", "from": "a", "qat": {}})"),
           {"variants.b.qat.scale_steps=300", "variants.0.quantize.scheme=seq1-row", "threads=3",
            "title=7 of 9"});
  ASSERT_TRUE(accepted(recipe));
  EXPECT_EQ(recipe.value().variants[1].qat->scale_steps, 300);
  EXPECT_EQ(recipe.value().variants[0].quantize->scheme, "seq1-row");
  EXPECT_EQ(recipe.value().threads, 3);
  EXPECT_EQ(recipe.value().title, "7 of 9");
}

TEST(Recipe, SetPathsThatExistStartAtTheWorkingFolder) {
  const auto recipe = load(kShort, {"model=.", "data.heldout=no-such-file.txt"});
  ASSERT_TRUE(accepted(recipe));
  const auto here = (std::filesystem::current_path() / "").lexically_normal();
  EXPECT_EQ((recipe.value().model / "").lexically_normal(), here);
  EXPECT_NE(recipe.value().heldout.parent_path(), std::filesystem::current_path());
}

TEST(Recipe, BadSetIsAUsageError) {
  EXPECT_TRUE(refused(load(kShort, {"threads"}), ErrorCode::kUsage, {"expected KEY=VALUE"}));
  EXPECT_TRUE(refused(load(kShort, {"variants.zz.name=a"}), ErrorCode::kUsage, {"\"zz\""}));
  EXPECT_TRUE(refused(load(kShort, {"threads.a.b=1"}), ErrorCode::kRecipe, {"/threads"}));
  EXPECT_TRUE(refused(load(kShort, {"model.a=1"}), ErrorCode::kUsage, {"below a value"}));
  EXPECT_TRUE(refused(load(kShort, {"evalute.context=8"}), ErrorCode::kRecipe,
                      {"/evalute: unknown key, did you mean \"evaluate\"?"}));
}

TEST(Recipe, ExtendsMergesObjectsAndReplacesTheRest) {
  const TempFolder folder;
  folder.put("base.json", R"({"version": 1, "model": "m", "threads": 5, "evaluate": {"context": 64},
      "data": {"calibration": "c", "heldout": "h"}, "variants": [{"name": "base", "quantize": {}}]})");
  const auto file = folder.put("top.json", R"({"version": 1, "extends": "base.json",
      "evaluate": {"contexts": 3}, "variants": [{"name": "top", "quantize": {}}]})");
  const auto recipe = load_recipe({file, {}});
  ASSERT_TRUE(accepted(recipe));
  EXPECT_EQ(recipe.value().threads, 5);
  EXPECT_EQ(recipe.value().evaluate.context, 64);
  EXPECT_EQ(recipe.value().evaluate.contexts, 3);
  ASSERT_EQ(recipe.value().variants.size(), 1u);
  EXPECT_EQ(recipe.value().variants[0].name, "top");
}

TEST(Recipe, ExtendsInACircleIsRefused) {
  const TempFolder folder;
  const auto a = folder.put("a.json", R"({"version": 1, "extends": ["b.json"]})");
  folder.put("b.json", R"({"version": 1, "extends": "./a.json"})");
  EXPECT_TRUE(refused(load_recipe({a, {}}), ErrorCode::kRecipe, {"extends itself"}));
  const auto c = folder.put("c.json", R"({"version": 1, "extends": "gone.json"})");
  EXPECT_TRUE(refused(load_recipe({c, {}}), ErrorCode::kRecipe, {"gone.json"}));
}

}  // namespace
}  // namespace elastiq
