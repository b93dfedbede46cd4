// What a run refuses before its first stage, and the plan that it prints.

#include <gtest/gtest.h>

#include "recipes/run_recipe.h"
#include "tests/support/pretended_run.h"

namespace elastiq {
namespace {

namespace fs = std::filesystem;
using testing::accepted;
using testing::kUse;
using testing::refused;
using testing::slurp;

using RunRecipeInputs = testing::PretendedRun;

TEST_F(RunRecipeInputs, PrintsThePlanBeforeTheFirstStage) {
  ASSERT_TRUE(accepted(run({}, kUse)));
  ASSERT_FALSE(said_.empty());
  EXPECT_NE(said_[0].find("seq2-g32-u8"), std::string::npos);
  EXPECT_NE(said_[0].find("14 tensors"), std::string::npos);
  EXPECT_NE(said_[0].find("qat from a, 3 steps with codes frozen"), std::string::npos);
  EXPECT_EQ(said_[1], "calibrate: running");
}

TEST_F(RunRecipeInputs, MissingProgramSaysHowToGetIt) {
  fs::remove(work_ / "bin/elastiq-torch");
  EXPECT_TRUE(refused(run({}, kUse), ErrorCode::kMissing,
                      {"elastiq-torch", "calibrate", "-DELASTIQ_TORCH=ON"}));
}

TEST_F(RunRecipeInputs, MissingModelAndDataAreInputErrorsBeforeAnyStage) {
  const auto no_model = run({"model=/nonexistent"}, kUse);
  EXPECT_TRUE(refused(no_model, ErrorCode::kMissing, {"/nonexistent", "model"}));
  EXPECT_EQ(exit_status(no_model.error()), 4);
  EXPECT_TRUE(
      refused(run({"data.heldout=/nonexistent.txt"}, kUse), ErrorCode::kMissing, {"data.heldout"}));
  EXPECT_EQ(calls(), std::vector<std::string>());
}

TEST_F(RunRecipeInputs, LengthsAboveTheModelsPositionsAreABadRecipeBeforeAnyStage) {
  const auto result = run({"evaluate.context=129", "data.calibration.sequence_length=512",
                           "data.training.sequence_length=256"},
                          kUse);
  EXPECT_TRUE(refused(result, ErrorCode::kRecipe,
                      {"3 problems", "/evaluate/context: found 129, allowed 4 to 128",
                       "/data/calibration/sequence_length: found 512, allowed 2 to 128",
                       "/data/training/sequence_length: found 256, allowed 2 to 128",
                       "max_position_embeddings", "demo.json"}));
  EXPECT_EQ(calls(), std::vector<std::string>());
  EXPECT_TRUE(accepted(run({"evaluate.context=128", "data.calibration.sequence_length=128",
                            "data.training.sequence_length=128"},
                           kUse)));
}

TEST_F(RunRecipeInputs, TextsThatCannotBeReadAreInputErrorsBeforeAnyStage) {
  fs::create_directories(work_ / "folder");
  const std::string folder = (work_ / "folder").string();
  const std::string empty = work_.put("empty.txt", "").string();
  for (const std::string use : {"heldout", "calibration.files", "training.files", "task"}) {
    const std::string name = "data." + use.substr(0, use.find('.'));
    EXPECT_TRUE(refused(run({"data." + use + "=" + folder}, kUse), ErrorCode::kIo,
                        {folder, "not a regular file", name}));
    EXPECT_TRUE(refused(run({"data." + use + "=/nonexistent.txt"}, kUse), ErrorCode::kMissing,
                        {"/nonexistent.txt", name}));
    EXPECT_TRUE(refused(run({"data." + use + "=" + empty}, kUse), ErrorCode::kTooLittleData,
                        {empty, "found 0 bytes", name}));
  }
  EXPECT_EQ(calls(), std::vector<std::string>());
}

TEST_F(RunRecipeInputs, RuleThatMatchesNothingIsABadRecipe) {
  const auto result =
      run({R"(variants.a.quantize.rules=[{"id": "x", "name": "*.nothing.*", "scheme": "keep"}])"},
          kUse);
  EXPECT_TRUE(refused(result, ErrorCode::kRecipe, {"x"}));
  EXPECT_EQ(exit_status(result.error()), 3);
}

TEST_F(RunRecipeInputs, OfTwoMatchingRulesTheLastWinsAndThePlanShowsIt) {
  ASSERT_TRUE(accepted(
      run({R"(variants.a.quantize.rules=[{"id": "first", "roles": "attn.*", "scheme": "sym8-row"},)"
           R"({"id": "second", "roles": ["attn.q"], "scheme": "sym4-row"}])"},
          kUse)));
  EXPECT_NE(said_[0].find("rule second       attn.q"), std::string::npos) << said_[0];
  EXPECT_NE(said_[0].find("rule first        attn.k attn.v attn.o"), std::string::npos) << said_[0];
}

}  // namespace
}  // namespace elastiq
