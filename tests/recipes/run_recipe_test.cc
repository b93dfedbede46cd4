// The runner with programs that only pretend: what runs, what is skipped, what is left behind.

#include "recipes/run_recipe.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>

#include "core/digest.h"
#include "model/run_kernels.h"
#include "recipes/machine.h"
#include "recipes/recipe_plan.h"
#include "recipes/run_lock.h"
#include "recipes/stage_list.h"
#include "report/run_report.h"
#include "tests/support/pretended_run.h"

namespace elastiq {
namespace {

namespace fs = std::filesystem;
using testing::accepted;
using testing::kUse;
using testing::refused;
using testing::slurp;

using RunRecipe = testing::PretendedRun;

TEST_F(RunRecipe, RunsTheStagesInOrderAndLeavesTheResults) {
  const auto report = run({}, kUse);
  ASSERT_TRUE(accepted(report));
  EXPECT_EQ(calls(),
            (std::vector<std::string>{"elastiq-torch calibrate", "elastiq-torch quantize",
                                      "elastiq export", "elastiq bench", "elastiq-torch qat",
                                      "elastiq export", "elastiq bench", "elastiq-torch evaluate",
                                      "elastiq-torch evaluate", "elastiq-torch evaluate"}));
  for (const char* name : {"report.json", "report.md", "report.html", "a.elq", "b.elq",
                           "a.manifest.json", "kernels/a.c", "recipe.lock.json",
                           "stages/quantize-a/stage.json", "stages/quantize-a/out/data.json"}) {
    EXPECT_TRUE(fs::exists(work_ / "out" / name)) << name;
  }
  const Json& r = report.value();
  ASSERT_TRUE(accepted(check_report(r)));
  ASSERT_EQ(r["runs"].size(), 3u);
  EXPECT_EQ(r["runs"][0]["name"], "float");
  EXPECT_EQ(r["runs"][1]["kind"], "ptq");
  EXPECT_EQ(r["runs"][2]["kind"], "qat");
  EXPECT_EQ(r["runs"][1]["speed"]["decode_tps"], 5);
  // T1: embedding and 2 x 7 matrices.
  EXPECT_EQ(r["runs"][1]["layers"].size(), 15u);
  EXPECT_EQ(r["training"][0]["loss"], (Json{2.5, 1.5}));
  EXPECT_EQ(r["comparisons"].size(), 1u);
  EXPECT_EQ(r["stages"].size(), 10u);
}

TEST_F(RunRecipe, WarningsAreToldOnceAndReported) {
  work_.put("model/model.safetensors.index.json", "{}");  // Unused: there is one file.
  const auto report = run({}, kUse);
  ASSERT_TRUE(accepted(report));
  const auto told = [this](const std::string& words) {
    return std::count_if(said_.begin(), said_.end(), [&words](const std::string& line) {
      return line.rfind("warning: ", 0) == 0 && line.find(words) != std::string::npos;
    });
  };
  EXPECT_EQ(told("unused file model.safetensors.index.json"), 1);
  EXPECT_EQ(told("--prompt 256 was cut"), 1);
  ASSERT_EQ(report.value()["warnings"].size(), 2u);
  EXPECT_EQ(report.value()["warnings"][1], "--prompt 256 was cut");
  // Stages that are not run again have the same to say.
  const auto again = run({}, kUse);
  ASSERT_TRUE(accepted(again));
  EXPECT_EQ(again.value()["warnings"], report.value()["warnings"]);
}

TEST_F(RunRecipe, SecondRunRunsNothing) {
  ASSERT_TRUE(accepted(run({}, kUse)));
  const std::string lock = slurp(work_ / "out/recipe.lock.json");
  const auto report = run({}, kUse);
  ASSERT_TRUE(accepted(report));
  EXPECT_EQ(calls(), std::vector<std::string>());
  EXPECT_EQ(slurp(work_ / "out/recipe.lock.json"), lock);
  EXPECT_EQ(report.value()["stages"][0]["cached"], true);
}

TEST_F(RunRecipe, ThreadsChangeOnlySpeedAndTraining) {
  ASSERT_TRUE(accepted(run({}, kUse)));
  ASSERT_TRUE(accepted(run({"threads=1"}, kUse)));
  EXPECT_EQ(calls(),
            (std::vector<std::string>{"elastiq bench", "elastiq-torch qat", "elastiq bench"}));
}

TEST_F(RunRecipe, ASecondRunInTheSameFolderIsRefused) {
  fs::create_directories(work_ / "out");
  {
    const auto other = RunLock::take(work_ / "out");
    ASSERT_TRUE(accepted(other));
    EXPECT_TRUE(refused(run({}, kUse), ErrorCode::kIo, {"another run"}));
    EXPECT_EQ(calls(), std::vector<std::string>());
  }
  EXPECT_TRUE(accepted(run({}, kUse)));
}

TEST_F(RunRecipe, AKernelsFolderOfSomebodyElseIsNotOverwritten) {
  fs::create_directories(work_ / "out/kernels/mine");
  work_.put("out/kernels/mine/notes.txt", "precious");
  EXPECT_TRUE(refused(run({}, kUse), ErrorCode::kIo, {"kernels", "not overwritten"}));
  EXPECT_EQ(slurp(work_ / "out/kernels/mine/notes.txt"), "precious");
  fs::remove_all(work_ / "out/kernels");
  EXPECT_TRUE(accepted(run({}, kUse)));
  EXPECT_TRUE(accepted(run({"variants.b.qat.scale_steps=4"}, kUse)));  // Our own is replaced.
}

TEST_F(RunRecipe, AChangedOptionRunsItsStageAndWhatReadsItsOutput) {
  ASSERT_TRUE(accepted(run({}, kUse)));
  ASSERT_TRUE(accepted(run({"variants.b.qat.scale_steps=4"}, kUse)));
  // The pretended qat writes the same bytes; export runs for its provenance holds the recipe.
  EXPECT_EQ(calls(), (std::vector<std::string>{"elastiq-torch qat", "elastiq export",
                                               "elastiq bench", "elastiq-torch evaluate"}));
}

TEST_F(RunRecipe, AChangedInputRunsWhatReadsIt) {
  ASSERT_TRUE(accepted(run({}, kUse)));
  work_.put("h.txt", "other held-out text");
  ASSERT_TRUE(accepted(run({}, kUse)));
  EXPECT_EQ(calls(), (std::vector<std::string>{"elastiq-torch evaluate", "elastiq-torch evaluate",
                                               "elastiq-torch evaluate"}));
}

TEST_F(RunRecipe, AnOutputThatWasTamperedWithIsMadeAgain) {
  ASSERT_TRUE(accepted(run({}, kUse)));
  work_.put("out/stages/quantize-a/out/data.json", "{}");
  ASSERT_TRUE(accepted(run({}, kUse)));
  EXPECT_EQ(calls(), std::vector<std::string>{"elastiq-torch quantize"});
}

TEST_F(RunRecipe, ATamperedKernelSourceIsMadeAgain) {
  ASSERT_TRUE(accepted(run({}, kUse)));
  work_.put("out/stages/export-a/out/kernels/a.c", "int y;");
  ASSERT_TRUE(accepted(run({}, kUse)));
  EXPECT_EQ(calls(), std::vector<std::string>{"elastiq export"});
  EXPECT_EQ(slurp(work_ / "out/stages/export-a/out/kernels/a.c"), "int x;\n");
}

TEST_F(RunRecipe, ADamagedRecordOnlyCostsRunningTheStageAgain) {
  ASSERT_TRUE(accepted(run({}, kUse)));
  const fs::path file = work_ / "out/stages/quantize-a/stage.json";
  const Json record = Json::parse(slurp(file));
  for (const char* key : {"key", "output_sha256", "seconds", "peak_rss_bytes", "result"}) {
    for (const Json& value : {Json(nullptr), Json::array()}) {
      Json damaged = record;
      damaged[key] = value;
      work_.put("out/stages/quantize-a/stage.json", damaged.dump());
      ASSERT_TRUE(accepted(run({}, kUse))) << key;
      EXPECT_EQ(calls(), std::vector<std::string>{"elastiq-torch quantize"}) << key;
    }
  }
  work_.put("out/stages/quantize-a/stage.json", "[5]");
  ASSERT_TRUE(accepted(run({}, kUse)));
  EXPECT_EQ(calls(), std::vector<std::string>{"elastiq-torch quantize"});
}

TEST_F(RunRecipe, SpeedOfAnotherMachineIsMeasuredAgain) {
  ASSERT_TRUE(accepted(run({}, kUse)));
  // Other kernels stand for another machine.
  ASSERT_EQ(setenv("ELQ_ISA", "none-such", 1), 0);
  const auto elsewhere = run({}, kUse);
  unsetenv("ELQ_ISA");
  ASSERT_TRUE(accepted(elsewhere));
  EXPECT_EQ(calls(), (std::vector<std::string>{"elastiq bench", "elastiq bench"}));
}

TEST_F(RunRecipe, OnlyTheKeyOfBenchKnowsTheMachine) {
  const auto recipe = load_recipe({recipe_, {}});
  ASSERT_TRUE(accepted(recipe));
  const std::string cpu = machine_json(1)["cpu"];
  for (const StageSpec& spec : stage_list(recipe.value(), work_ / "out", Json::object())) {
    const std::string content = spec.content.dump();
    EXPECT_EQ(content.find(cpu) != std::string::npos, spec.use == "bench") << content;
    if (spec.use != "bench") continue;
    EXPECT_EQ(spec.content["machine"]["cpu"], cpu);
    EXPECT_EQ(spec.content["machine"]["kernels"], run_kernels()["best"]);
  }
}

TEST_F(RunRecipe, PublishingReplacesAndLeavesNoTemporaryFiles) {
  ASSERT_TRUE(accepted(run({}, kUse)));
  work_.put("out/kernels/old.c", "int z;");
  ASSERT_TRUE(accepted(run({}, kUse)));
  EXPECT_FALSE(fs::exists(work_ / "out/kernels/old.c"));
  for (const auto& entry : fs::directory_iterator(work_ / "out")) {
    EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos) << entry.path();
  }
}

TEST_F(RunRecipe, PackagesOfVariantsThatAreGoneGoToo) {
  ASSERT_TRUE(accepted(run({}, kUse)));
  const std::string one = R"(variants=[{"name": "a", "quantize": {"scheme": "seq2-g32-u8"}}])";
  const auto report = run({one}, kUse);
  ASSERT_TRUE(accepted(report));
  EXPECT_TRUE(fs::exists(work_ / "out/a.elq"));
  EXPECT_FALSE(fs::exists(work_ / "out/b.elq"));
  EXPECT_FALSE(fs::exists(work_ / "out/b.manifest.json"));
  // What is not as a run left it stays, and is told.
  ASSERT_TRUE(accepted(run({}, kUse)));
  work_.put("out/b.elq", "somebody's own");
  work_.put("out/other.elq", "a third one");
  const auto again = run({one}, kUse);
  ASSERT_TRUE(accepted(again));
  EXPECT_EQ(slurp(work_ / "out/b.elq"), "somebody's own");
  EXPECT_EQ(slurp(work_ / "out/other.elq"), "a third one");
  const std::string warnings = again.value()["warnings"].dump();
  EXPECT_NE(warnings.find("b.elq: no result of this recipe"), std::string::npos) << warnings;
  EXPECT_NE(warnings.find("other.elq: no result of this recipe"), std::string::npos);
  EXPECT_EQ(warnings.find("\"a.elq"), std::string::npos);
}

TEST_F(RunRecipe, ALockCannotNameFilesElsewhere) {
  ASSERT_TRUE(accepted(run({}, kUse)));
  const auto precious = work_.put("precious.txt", "x");
  Json lock = Json::parse(slurp(work_ / "out/recipe.lock.json"));
  lock["outputs"] = {{{"file", "../precious.txt"}, {"sha256", to_hex(sha256("x"))}},
                     {{"file", precious.string()}, {"sha256", to_hex(sha256("x"))}},
                     {{"file", 7}},
                     "text"};
  work_.put("out/recipe.lock.json", lock.dump());
  ASSERT_TRUE(accepted(run({}, kUse)));
  EXPECT_EQ(slurp(precious), "x");
}

TEST_F(RunRecipe, FreshRunsEverything) {
  ASSERT_TRUE(accepted(run({}, kUse)));
  ASSERT_TRUE(accepted(run({}, RunOptions::Cache::kFresh)));
  EXPECT_EQ(calls().size(), 10u);
}

TEST_F(RunRecipe, AStagesErrorIsTheRunsErrorAndTheNextRunGoesOnThere) {
  work_.put("bin/fail-qat", "");
  const auto failed = run({}, kUse);
  EXPECT_TRUE(refused(failed, ErrorCode::kTooLittleData, {"train.txt", "have 3, need 4"}));
  EXPECT_FALSE(fs::exists(work_ / "out/report.json"));
  fs::remove(work_ / "bin/fail-qat");
  ASSERT_TRUE(accepted(run({}, kUse)));
  EXPECT_EQ(calls().front(), "elastiq-torch qat");
}

TEST_F(RunRecipe, AKilledStageIsNamed) {
  work_.put("bin/crash-quantize", "");
  EXPECT_TRUE(refused(run({}, kUse), ErrorCode::kResources, {"quantize-a", "was killed"}));
}

// The model of these tests has 128 positions.
// cases.md 25: a pattern that matches nothing, and two that match one tensor.
TEST_F(RunRecipe, PackagesDoNotKnowWhereTheyWereMade) {
  ASSERT_TRUE(accepted(run({}, kUse)));
  // The pretended package is its stage file; "provenance" is what would travel in it.
  const Json options = Json::parse(slurp(work_ / "out/a.elq"));
  const std::string provenance = options["provenance"].dump();
  EXPECT_EQ(provenance.find(work_.path().string()), std::string::npos) << provenance;
  EXPECT_EQ(options["provenance"]["recipe"]["model"], "model");
  EXPECT_EQ(options["provenance"]["digests"]["model"].get<std::string>().size(), 64u);
  // a does not depend on b, so b is not in a's provenance.
  EXPECT_EQ(options["provenance"]["recipe"]["variants"].size(), 1u);
  EXPECT_EQ(provenance.find("\"qat\""), std::string::npos);
}

}  // namespace
}  // namespace elastiq
