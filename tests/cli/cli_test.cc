// The program as a user or a script meets it: status, standard output, standard error.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "core/json.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace elastiq {
namespace {

namespace fs = std::filesystem;
using testing::slurp;
using testing::TempFolder;

/// elastiq beside this test program.
fs::path program() {
  return fs::read_symlink("/proc/self/exe").parent_path() / "elastiq";
}

struct Outcome {
  int status = -1;
  std::string out;
  std::string err;
};

/// Runs `elastiq ARGUMENTS` in a shell.
Outcome elastiq(const TempFolder& folder, const std::string& arguments) {
  const fs::path out = folder / "stdout";
  const fs::path err = folder / "stderr";
  const std::string command = "cd '" + folder.path().string() + "' && '" + program().string() +
                              "' " + arguments + " >stdout 2>stderr";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(out), slurp(err)};
}

struct Case {
  const char* name;
  const char* arguments;
  int status;
  const char* words;  ///< In standard error, or in standard output when the status is 0.
};

constexpr const char* kRecipe =
    R"({"version": 1, "model": "model", "data": {"calibration": {"files": "t.txt", "sequence_length": 64}, "heldout": "h.txt"},
  "evaluate": {"context": 64}, "variants": [{"name": "a", "quantize": {"scheme": "sym4-g32-u8"}}]})";

void put_inputs(const TempFolder& folder) {
  fs::create_directories(folder / "model");
  write_hf_model(testing::hf_model(testing::hf_t1(), testing::HfType::kBf16, 1), folder / "model");
  folder.put("t.txt", "some text");
  folder.put("h.txt", "other text");
  folder.put("good.json", kRecipe);
  folder.put("bad.json", R"({"version": 1, "modle": "model"})");
  folder.put("no-model.json", R"({"version": 1, "model": "gone", "data": {"heldout": "t.txt"},
    "variants": [{"name": "a", "quantize": {}}]})");
  folder.put("unmatched.json", R"({"version": 1, "model": "model", "data": {"heldout": "t.txt"},
    "evaluate": {"context": 64},
    "variants": [{"name": "a", "quantize": {"rules": [{"id": "x", "layers": "7", "scheme": "keep"}]}}]})");
  folder.put("bad-report.json", R"({"format": "elastiq.report/1", "runs": []})");
  folder.put("text.elq", "this is no package");
}

class CliCase : public ::testing::TestWithParam<Case> {};

TEST_P(CliCase, HasItsStatusAndSaysWhy) {
  const TempFolder folder;
  put_inputs(folder);
  const Outcome outcome = elastiq(folder, GetParam().arguments);
  EXPECT_EQ(outcome.status, GetParam().status) << outcome.err;
  const std::string& text = GetParam().status == 0 ? outcome.out : outcome.err;
  EXPECT_NE(text.find(GetParam().words), std::string::npos) << text;
  if (GetParam().status != 0) {
    EXPECT_EQ(outcome.out, "");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, CliCase,
    ::testing::Values(
        Case{"Help", "--help", 0, "validate"}, Case{"HelpOfRun", "run --help", 0, "--fresh"},
        Case{"Version", "--version", 0, "0.1.0"},
        Case{"VersionCommand", "version --json", 0, "\"elastiq.version/1\""},
        Case{"Doctor", "doctor", 0, "kernels"}, Case{"NoCommand", "", 2, "subcommand"},
        Case{"UnknownCommand", "rnu", 2, "did you mean \"run\"?"},
        Case{"UnknownFlag", "plan good.json --bogus", 2, "--bogus"},
        Case{"MissingArgument", "verify", 2, "package"},
        Case{"NumberOutOfRange", "bench x.elq --threads 0", 2, "threads"},
        Case{"ErrorsHaveTheHouseForm", "plan good.json --bogus", 2, "elastiq: E-3 usage: plan: "},
        Case{"NanTemperature", "generate x.elq --prompt a --temperature nan", 2,
             "E-3 usage: generate: --temperature: found nan, allowed 0 to 100"},
        Case{"InfiniteTemperature", "generate x.elq --prompt a --temperature inf", 2,
             "--temperature: found inf"},
        Case{"NegativeTemperature", "generate x.elq --prompt a --temperature=-0.5", 2,
             "--temperature: found -0.5"},
        Case{"NanTopP", "generate x.elq --prompt a --top-p nan", 2, "--top-p: found nan"},
        Case{"TopPAboveOne", "generate x.elq --prompt a --top-p 1.5", 2, "allowed 1e-06 to 1"},
        Case{"NanPenalty", "generate x.elq --prompt a --repetition-penalty nan", 2,
             "--repetition-penalty: found nan"},
        Case{"NegativeSeed", "generate x.elq --prompt a --seed=-1", 2, "--seed: found -1"},
        Case{"SeedAbove64Bits", "generate x.elq --prompt a --seed 18446744073709551616", 2,
             "--seed: found 18446744073709551616, allowed 0 to 18446744073709551615"},
        Case{"TokensAbove64Bits", "generate x.elq --prompt a -n 99999999999999999999", 2,
             "--max-tokens: found 99999999999999999999"},
        Case{"TopKThatWraps", "generate x.elq --prompt a --top-k 4294967297", 2, "--top-k: found"},
        Case{"NeitherPackageNorShape", "bench --threads 1", 2, "--shape"},
        Case{"PackageAndShape", "bench x.elq --shape 135m", 2, "--shape"},
        Case{"UnknownShape", "bench --shape 2b", 2, "1.8b"},
        Case{"ValidRecipe", "validate good.json", 0, "valid"},
        Case{"BadRecipe", "validate bad.json", 3, "did you mean \"model\"?"},
        Case{"BadRecipeRun", "run bad.json --out o", 3, "E-4"},
        Case{"NoRecipe", "validate gone.json", 3, "gone.json"},
        Case{"BadSet", "validate good.json --set threads", 2, "KEY=VALUE"},
        Case{"SetOfUnknownKey", "validate good.json --set thread=3", 3,
             "did you mean \"threads\"?"},
        Case{"Plan", "plan good.json", 0, "14 tensors"},
        Case{"PlanJson", "plan good.json --json", 0, "\"elastiq.plan/1\""},
        Case{"MissingModel", "plan no-model.json", 4, "gone"},
        Case{"MissingModelRun", "run no-model.json --out o", 4, "E-17"},
        Case{"ContextAboveThePositions", "plan good.json --set evaluate.context=512", 3,
             "/evaluate/context: found 512, allowed 4 to 128"},
        Case{"HeldoutIsAFolder", "plan good.json --set data.heldout=model", 4,
             "not a regular file (data.heldout)"},
        Case{"UnmatchedRule", "plan unmatched.json", 3, "x"},
        Case{"InspectFolder", "inspect model", 0, "model.layers.1.mlp.down_proj.weight"},
        Case{"InspectNothing", "inspect gone", 4, "gone"},
        Case{"InspectText", "inspect text.elq", 4, "text.elq"},
        Case{"VerifyText", "verify text.elq", 7, "text.elq"},
        Case{"VerifyNothing", "verify gone.elq", 4, "gone.elq"},
        Case{"GenerateNothing", "generate gone.elq --prompt x", 4, "gone.elq"},
        Case{"BadReport", "report bad-report.json", 4, "/runs: holds no run"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Cli, PathsThatNobodyCanLookAtAreInputErrors) {
  const TempFolder folder;
  const std::string path(5000, 'a');
  fs::create_symlink("loop", folder / "loop");
  for (const std::string& arguments :
       {"inspect " + path, "verify " + path, "report " + path, "export --out o --model " + path,
        "export --out o --model " + std::string(300, 'a'),
        std::string("export --out o --model loop"), "generate --prompt x " + path}) {
    const Outcome outcome = elastiq(folder, arguments);
    EXPECT_EQ(outcome.status, 4) << arguments.substr(0, 40) << ": " << outcome.err;
    EXPECT_EQ(outcome.err.find("elastiq: E-"), 0u) << outcome.err;
  }
}

TEST(Cli, ErrorsWithJsonAreOneDocument) {
  const TempFolder folder;
  put_inputs(folder);
  const Outcome outcome = elastiq(folder, "validate bad.json --json");
  EXPECT_EQ(outcome.status, 3);
  const auto json = parse_json(outcome.out, "stdout", JsonLimits{});
  ASSERT_TRUE(json.ok()) << outcome.out;
  EXPECT_EQ(json.value()["exit"], 3);
  EXPECT_EQ(json.value()["error"]["code"], 4);
}

TEST(Cli, UsageErrorsWithJsonAreOneDocumentToo) {
  const TempFolder folder;
  for (const std::string arguments : {"plan --bogus --json", "verify --json", "rnu --json"}) {
    const Outcome outcome = elastiq(folder, arguments);
    EXPECT_EQ(outcome.status, 2);
    const auto json = parse_json(outcome.out, "stdout", JsonLimits{});
    ASSERT_TRUE(json.ok()) << outcome.out;
    EXPECT_EQ(json.value()["format"], "elastiq.error/1");
    EXPECT_EQ(json.value()["error"]["code"], 3);
  }
}

TEST(Cli, OutputThatCannotBeWrittenIsAnError) {
  const TempFolder folder;
  put_inputs(folder);
  fs::copy(fs::path(__FILE__).parent_path().parent_path() / "report" / "golden", folder / "golden");
  for (const std::string arguments :
       {"inspect model", "inspect model --json", "--help", "--version", "run --help", "doctor",
        "version", "plan good.json", "plan good.json --json", "validate good.json",
        "report golden/report.json", "report golden/report.json --format html"}) {
    const Outcome outcome = elastiq(folder, arguments + " 2>/dev/null >/dev/full; exit $? #");
    EXPECT_EQ(outcome.status, 6) << arguments;
  }
  const std::string command =
      "'" + program().string() + "' version 2>'" + (folder / "err").string() + "' > /dev/full";
  EXPECT_NE(std::system(command.c_str()), 0);
  EXPECT_EQ(slurp(folder / "err"),
            "elastiq: E-31 not enough memory or disk: standard output: cannot write: No space left "
            "on device\n");
}

TEST(Cli, WarningsGoToStandardErrorAndIntoTheDocument) {
  const TempFolder folder;
  put_inputs(folder);
  folder.put("model/model.safetensors.index.json", "{}");
  for (const std::string arguments :
       {"inspect model", "plan good.json", "export --model model --out out"}) {
    const Outcome text = elastiq(folder, arguments);
    ASSERT_EQ(text.status, 0) << text.err;
    EXPECT_EQ(text.err.find("elastiq: warning: unused file model.safetensors.index.json"), 0u)
        << arguments << ": " << text.err;
    const Outcome document = elastiq(folder, arguments + " --json");
    EXPECT_EQ(Json::parse(document.out)["warnings"].size(), 1u) << arguments;
  }
}

TEST(Cli, PlanAndValidateWriteNothing) {
  const TempFolder folder;
  put_inputs(folder);
  const std::size_t before = folder.entries();
  ASSERT_EQ(elastiq(folder, "plan good.json").status, 0);
  EXPECT_EQ(folder.entries(), before + 2);  // This test's stdout and stderr.
}

TEST(Cli, HelpStartsFast) {
  const TempFolder folder;
  elastiq(folder, "--help");
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) elastiq(folder, "--help");
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  // 50 ms each is the promise; a shell and a loaded machine are in this figure too.
  EXPECT_LT(seconds.count() / 10, 0.25);
}

TEST(Cli, PackageIsMadeVerifiedRunAndRefusedWhenDamaged) {
  const TempFolder folder;
  put_inputs(folder);
  const Outcome made = elastiq(folder, "export --model model --out out --name tiny --json");
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_TRUE(parse_json(made.out, "stdout", JsonLimits{}).ok());
  const Outcome sound = elastiq(folder, "verify out/tiny.elq");
  ASSERT_EQ(sound.status, 0) << sound.err;
  EXPECT_NE(sound.out.find("verified  true"), std::string::npos);
  EXPECT_EQ(elastiq(folder, "inspect out/tiny.elq").status, 0);
  const Outcome speed = elastiq(folder, "bench out/tiny.elq --repeats 1 --json");
  ASSERT_EQ(speed.status, 0) << speed.err;
  const Json figures = Json::parse(speed.out);
  for (const char* key : {"prefill_tps", "decode_tps", "read_gbps", "machine_read_gbps",
                          "bandwidth_share", "ttft_ms", "p50_ms", "p95_ms", "p99_ms",
                          "cold_start_ms", "load_ms_p50", "load_ms_max", "peak_rss_bytes"}) {
    EXPECT_GT(figures.at(key).get<double>(), 0) << key;
  }
  EXPECT_LE(figures["p50_ms"], figures["p95_ms"]);
  EXPECT_LE(figures["p95_ms"], figures["p99_ms"]);
  const Outcome text = elastiq(folder, "generate out/tiny.elq --prompt ab --max-tokens 5 --json");
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_LE(Json::parse(text.out)["tokens"].size(), 5u);
  const Outcome again = elastiq(folder, "generate out/tiny.elq --prompt ab --max-tokens 5 --json");
  EXPECT_EQ(Json::parse(text.out)["tokens"], Json::parse(again.out)["tokens"]);
  std::ofstream(folder / "prompt.txt") << "ab";
  const Outcome file =
      elastiq(folder, "generate out/tiny.elq --prompt-file prompt.txt --max-tokens 5 --json");
  EXPECT_EQ(Json::parse(file.out)["tokens"], Json::parse(text.out)["tokens"]);
  const Outcome piped =
      elastiq(folder, "generate out/tiny.elq --prompt-file - --max-tokens 5 --json < prompt.txt");
  EXPECT_EQ(Json::parse(piped.out)["tokens"], Json::parse(text.out)["tokens"]);
  const std::string bytes = slurp(folder / "out/tiny.elq");
  // Header, table of contents, middle, last byte.
  for (const std::size_t at :
       {std::size_t{0}, std::size_t{40}, std::size_t{300}, bytes.size() / 2, bytes.size() - 1}) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    folder.put("damaged.elq", damaged);
    const Outcome refused = elastiq(folder, "verify damaged.elq");
    EXPECT_EQ(refused.status, 7) << "byte " << at << ": " << refused.out << refused.err;
  }
  folder.put("short.elq", bytes.substr(0, bytes.size() - 100));
  EXPECT_EQ(elastiq(folder, "verify short.elq").status, 7);
}

TEST(Cli, ReportRendersAgainToTheSameBytes) {
  const TempFolder folder;
  const fs::path golden = fs::path(__FILE__).parent_path().parent_path() / "report" / "golden";
  const Outcome html =
      elastiq(folder, "report '" + (golden / "report.json").string() + "' --format html");
  ASSERT_EQ(html.status, 0) << html.err;
  EXPECT_TRUE(html.out == slurp(golden / "report.html"));
}

}  // namespace
}  // namespace elastiq
