// elastiq bench on an exported package: the session holds what a round runs, no more and no less.

#include "model/run_bench.h"

#include "core/json.h"
#include "tests/support/export_case.h"

namespace elastiq::testing {
namespace {

std::string seq2(const std::string& name) {
  return name.find("layers.") != std::string::npos ? "seq2-g64-u8-k8" : "";
}

TEST(Bench, SessionHoldsThePromptAndWhatIsGenerated) {
  HfShape shape = hf_t2();
  shape.max_positions = 9000;  // Half of it is more than a session holds when nobody asks.
  const ExportCase c("bench_session", shape, seq2);
  ASSERT_TRUE(run_export(c.options()).ok());
  BenchOptions options;
  options.package = c.package();
  options.repeats = 1;
  options.threads = 1;
  for (const auto& [prompt, generate] : {std::pair(8, 4), std::pair(4094, 6)}) {
    options.prompt = prompt;
    options.generate = generate;
    const auto result = run_bench(options);
    ASSERT_TRUE(result.ok()) << to_string(result.error());
    EXPECT_EQ(result.value()["generate"], generate);
    PackageModel::Options session;
    session.max_tokens = static_cast<std::uint32_t>(prompt + generate);
    const auto model = PackageModel::open(c.package(), session);
    ASSERT_TRUE(model.ok());
    EXPECT_EQ(result.value()["session_bytes"], model.value().session_bytes());
  }
}

TEST(Bench, SaysWhatDoesNotFitTheModel) {
  const ExportCase c("bench_cut", hf_t1(), seq2);  // 128 positions.
  ASSERT_TRUE(run_export(c.options()).ok());
  BenchOptions options;
  options.package = c.package();
  options.repeats = 1;
  options.threads = 1;
  options.prompt = 120;
  options.generate = 8;
  const auto fits = run_bench(options);
  ASSERT_TRUE(fits.ok()) << to_string(fits.error());
  EXPECT_EQ(fits.value()["prompt"], 120);
  EXPECT_EQ(fits.value()["warnings"], Json::array());
  options.prompt = 121;
  options.generate = 65;
  const auto cut = run_bench(options);
  ASSERT_TRUE(cut.ok()) << to_string(cut.error());
  EXPECT_EQ(cut.value()["prompt"], 64);
  EXPECT_EQ(cut.value()["generate"], 64);
  EXPECT_EQ(cut.value()["warnings"],
            (Json{"--prompt 121 was cut to 64: the model has 128 positions",
                  "--generate 65 was cut to 64: the model has 128 positions"}));
}

}  // namespace
}  // namespace elastiq::testing
