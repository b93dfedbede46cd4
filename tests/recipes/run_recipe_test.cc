// The runner with programs that only pretend: what runs, what is skipped, what is left behind.

#include "recipes/run_recipe.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "model/run_kernels.h"
#include "recipes/machine.h"
#include "recipes/recipe_plan.h"
#include "recipes/run_lock.h"
#include "recipes/stage_list.h"
#include "report/run_report.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace elastiq {
namespace {

namespace fs = std::filesystem;
using testing::accepted;
using testing::refused;
using testing::slurp;
using testing::TempFolder;

// Writes what a stage of this name leaves. $LOG gets a line per call; a file fail-USE beside the
// programs makes that stage fail.
constexpr const char* kProgram = R"sh(#!/bin/bash
here=$(dirname "$0"); use=$2; file=$3
field() { sed -n "s/^  \"$1\": \"\(.*\)\",\{0,1\}$/\1/p" "$file"; }
name=$(field name); out=$(field out)
echo "$(basename "$0") $use" >> "$here/log"
if [ -e "$here/fail-$use" ]; then
  echo '{"error": {"code": 21, "subject": "train.txt", "detail": "have 3, need 4", "byte_offset": 0}}'
  exit 4
fi
if [ -e "$here/crash-$use" ]; then kill -9 $$; fi
case $use in
  calibrate|quantize|qat) mkdir -p "$out"; echo "{\"made by\": \"$use\"}" > "$out/data.json"
    echo '{"curve": [{"step": 1, "loss": 2.5}, {"step": 2, "loss": 1.5}]}' ;;
  export) mkdir -p "$out/kernels"; cp "$file" "$out/$name.elq"; echo '{}' > "$out/manifest.json"
    echo 'int x;' > "$out/kernels/a.c"; echo '{}' ;;
  bench) echo '{"isa": "ref", "prefill_tps": 10, "decode_tps": 5, "peak_rss_bytes": 1,
      "warnings": ["--prompt 256 was cut"]}' ;;
  evaluate) kind=$(field kind)
    echo "{\"name\": \"$name\", \"kind\": \"$kind\", \"bits_per_weight\": {\"file\": 2, \"ram\": 3},
      \"bytes\": {\"package\": 5, \"by_role\": {\"embed\": 5}}, \"metrics\": {\"kl_mean\": 0.5},
      \"kl_per_context\": [0.4, 0.5, 0.6]}" ;;
esac
)sh";

constexpr const char* kRecipe = R"({"version": 1, "name": "demo", "model": "model",
  "data": {"calibration": {"files": "c.txt", "sequence_length": 64},
           "training": {"files": "t.txt", "sequence_length": 64}, "heldout": "h.txt"},
  "evaluate": {"context": 64},
  "variants": [{"name": "a", "quantize": {"method": "gptq", "scheme": "seq2-g32-u8"}},
               {"name": "b", "from": "a", "qat": {"scale_steps": 3}}]})";

class RunRecipe : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(work_ / "model");
    write_hf_model(testing::hf_model(testing::hf_t1(), testing::HfType::kBf16, 1), work_ / "model");
    for (const char* name : {"c.txt", "t.txt", "h.txt"}) work_.put(name, name);
    fs::create_directories(work_ / "bin");
    for (const char* name : {"bin/elastiq", "bin/elastiq-torch"}) {
      fs::permissions(work_.put(name, kProgram), fs::perms::owner_all);
    }
    recipe_ = work_.put("demo.json", kRecipe);
  }

  Result<Json> run(std::vector<std::string> sets, RunOptions::Cache cache) {
    work_.put("bin/log", "");
    said_.clear();
    ELQ_TRY(recipe, load_recipe({recipe_, std::move(sets)}));
    RunOptions options;
    options.out = work_ / "out";
    options.programs = work_ / "bin";
    options.cache = cache;
    options.narrate = [this](const std::string& line) { said_.push_back(line); };
    return run_recipe(recipe, options);
  }

  std::vector<std::string> calls() const {
    std::istringstream log(slurp(work_ / "bin/log"));
    std::vector<std::string> lines;
    for (std::string line; std::getline(log, line);) lines.push_back(line);
    return lines;
  }

  TempFolder work_;
  fs::path recipe_;
  std::vector<std::string> said_;
};

constexpr auto kUse = RunOptions::Cache::kUse;

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

TEST_F(RunRecipe, PrintsThePlanBeforeTheFirstStage) {
  ASSERT_TRUE(accepted(run({}, kUse)));
  ASSERT_FALSE(said_.empty());
  EXPECT_NE(said_[0].find("seq2-g32-u8"), std::string::npos);
  EXPECT_NE(said_[0].find("14 tensors"), std::string::npos);
  EXPECT_NE(said_[0].find("qat from a, 3 steps with codes frozen"), std::string::npos);
  EXPECT_EQ(said_[1], "calibrate: running");
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

TEST_F(RunRecipe, MissingProgramSaysHowToGetIt) {
  fs::remove(work_ / "bin/elastiq-torch");
  EXPECT_TRUE(refused(run({}, kUse), ErrorCode::kMissing,
                      {"elastiq-torch", "calibrate", "-DELASTIQ_TORCH=ON"}));
}

TEST_F(RunRecipe, MissingModelAndDataAreInputErrorsBeforeAnyStage) {
  const auto no_model = run({"model=/nonexistent"}, kUse);
  EXPECT_TRUE(refused(no_model, ErrorCode::kMissing, {"/nonexistent", "model"}));
  EXPECT_EQ(exit_status(no_model.error()), 4);
  EXPECT_TRUE(
      refused(run({"data.heldout=/nonexistent.txt"}, kUse), ErrorCode::kMissing, {"data.heldout"}));
  EXPECT_EQ(calls(), std::vector<std::string>());
}

// The model of these tests has 128 positions.
TEST_F(RunRecipe, LengthsAboveTheModelsPositionsAreABadRecipeBeforeAnyStage) {
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

TEST_F(RunRecipe, TextsThatCannotBeReadAreInputErrorsBeforeAnyStage) {
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

// cases.md 25: a pattern that matches nothing, and two that match one tensor.
TEST_F(RunRecipe, RuleThatMatchesNothingIsABadRecipe) {
  const auto result =
      run({R"(variants.a.quantize.rules=[{"id": "x", "name": "*.nothing.*", "scheme": "keep"}])"},
          kUse);
  EXPECT_TRUE(refused(result, ErrorCode::kRecipe, {"x"}));
  EXPECT_EQ(exit_status(result.error()), 3);
}

TEST_F(RunRecipe, OfTwoMatchingRulesTheLastWinsAndThePlanShowsIt) {
  ASSERT_TRUE(accepted(
      run({R"(variants.a.quantize.rules=[{"id": "first", "roles": "attn.*", "scheme": "sym8-row"},)"
           R"({"id": "second", "roles": ["attn.q"], "scheme": "sym4-row"}])"},
          kUse)));
  EXPECT_NE(said_[0].find("rule second       attn.q"), std::string::npos) << said_[0];
  EXPECT_NE(said_[0].find("rule first        attn.k attn.v attn.o"), std::string::npos) << said_[0];
}

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
