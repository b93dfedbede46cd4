// Calibration statistics against sums by hand and against the double-precision reference.
#include <gtest/gtest.h>

#include <cmath>

#include "calibrate/observer.h"
#include "calibrate/run_calibrate.h"
#include "model/tokenizer.h"
#include "model/windows.h"
#include "tests/support/decoder_models.h"
#include "tests/support/expect_error.h"
#include "tests/support/reference_forward.h"
#include "tests/support/temp_folder.h"

namespace elastiq::testing {
namespace {

// Three tokens (1, 2), (3, -1), (0, 4): mean x0^2 = 10/3, x1^2 = 21/3, x0 x1 = (2 - 3 + 0) / 3.
TEST(Observer, MeansByHandOverTwoBatches) {
  Observer observer;
  observer.observe("a", torch::tensor({1.0F, 2.0F, 3.0F, -1.0F}).view({2, 2}));
  observer.observe("a", torch::tensor({0.0F, 4.0F}).view({1, 2}));
  const auto inputs = observer.finish({"a"}, 3);
  ASSERT_TRUE(accepted(inputs));
  const InputStats& stats = inputs.value().at("a");
  EXPECT_EQ(stats.tokens, 3u);
  EXPECT_EQ(stats.columns, 2);
  EXPECT_EQ(stats.importance, (std::vector<float>{10.0F / 3, 7.0F}));
  EXPECT_EQ(stats.second_moment, (std::vector<float>{10.0F / 3, -1.0F / 3, -1.0F / 3, 7.0F}));
}

// 600 columns: three strips, the last one short.
TEST(Observer, WideInputsAreSymmetricWithTheImportanceOnTheDiagonal) {
  constexpr std::int64_t kColumns = 600;
  torch::manual_seed(3);
  const torch::Tensor x = torch::randn({40, kColumns});
  Observer observer;
  observer.observe("a", x);
  const auto inputs = observer.finish({"a"}, 40);
  ASSERT_TRUE(accepted(inputs));
  const InputStats& stats = inputs.value().at("a");
  const torch::Tensor exact = x.to(torch::kFloat64).t().mm(x.to(torch::kFloat64)) / 40;
  const torch::Tensor found = torch::tensor(stats.second_moment).view({kColumns, kColumns});
  EXPECT_TRUE(torch::equal(found, found.t()));
  EXPECT_TRUE(torch::equal(found.diagonal(), torch::tensor(stats.importance)));
  EXPECT_LT((found - exact).abs().max().item<double>(), 2e-6);
}

TEST(Observer, CountsThatDifferFromTheDataAreOurBug) {
  const torch::Tensor x = torch::ones({2, 3});
  Observer observer;
  observer.observe("a", x);
  EXPECT_TRUE(refused(observer.finish({"a"}, 3), ErrorCode::kInternal, {"a", "2", "3"}));
  observer = Observer();
  observer.observe("a", x);
  EXPECT_TRUE(refused(observer.finish({"a", "b"}, 2), ErrorCode::kInternal, {"b", "0"}));
  observer = Observer();
  observer.observe("a", x);
  observer.observe("c", x);
  EXPECT_TRUE(refused(observer.finish({"a"}, 2), ErrorCode::kInternal, {"c"}));
}

TEST(Observer, ANonFiniteInputIsRefused) {
  Observer observer;
  observer.observe("a", torch::tensor({1.0F, INFINITY}).view({1, 2}));
  EXPECT_TRUE(refused(observer.finish({"a"}, 1), ErrorCode::kNonFinite, {"a"}));
}

std::string some_text(std::size_t bytes) {
  const std::string alphabet = "etaoin shrdlu cmfw";
  Rng rng(29);
  std::string text;
  while (text.size() < bytes) text += alphabet[rng.below(alphabet.size())];
  return text;
}

struct Bench {
  TempFolder folder;
  HfModel model = hf_model(hf_t2(), HfType::kBf16, 41);
  CalibrateOptions options;

  Bench() {
    write_hf_model(model, folder / "float");
    options.model = folder / "float";
    options.data.files = {folder.put("text.txt", some_text(3000))};
    options.data.sequence_length = 24;
    options.data.windows = 5;
    options.out = folder / "stats";
  }

  Windows windows() const {
    const auto tokenizer = Tokenizer::open(options.model);
    auto windows = load_windows(options.data, tokenizer.value());
    EXPECT_TRUE(accepted(windows));
    return std::move(windows).value();
  }
};

TEST(Calibrate, StatisticsAndLossMatchTheReference) {
  const Bench bench;
  const auto stage = run_calibrate(bench.options);
  ASSERT_TRUE(accepted(stage));
  const auto stats = read_stats(bench.options.out);
  ASSERT_TRUE(accepted(stats));
  const Windows windows = bench.windows();
  std::map<std::string, std::vector<double>> sums;
  double nll = 0;
  for (const std::vector<std::uint32_t>& window : windows.tokens) {
    ReferenceForward forward(bench.model);
    const std::vector<ReferenceForward::Row> logits = forward.run(window);
    for (std::size_t j = 0; j + 1 < window.size(); ++j) {
      double total = 0;
      for (const double v : logits[j]) total += std::exp(v);
      nll += std::log(total) - logits[j][window[j + 1]];
    }
    for (const auto& [key, rows] : forward.inputs) {
      sums[key].resize(rows[0].size());
      for (const auto& row : rows) {
        for (std::size_t i = 0; i < row.size(); ++i) sums[key][i] += row[i] * row[i];
      }
    }
  }
  // Single inputs err by rounding, means over 120 tokens by less.
  EXPECT_NEAR(stage.value()["loss"].get<double>() / (nll / (5 * 23)), 1.0, 0.01);
  ASSERT_EQ(stats.value().inputs.size(), sums.size());
  for (const auto& [key, sum] : sums) {
    const InputStats& input = stats.value().inputs.at(key);
    ASSERT_EQ(input.importance.size(), sum.size()) << key;
    double error = 0;
    double size = 0;
    for (std::size_t i = 0; i < sum.size(); ++i) {
      error += std::fabs(static_cast<double>(input.importance[i]) - sum[i] / 120);
      size += sum[i] / 120;
    }
    EXPECT_LT(error / size, 0.03) << key;
  }
}

TEST(Calibrate, CountsTokensAndStatesWhatWasRead) {
  const Bench bench;
  const auto stage = run_calibrate(bench.options);
  ASSERT_TRUE(accepted(stage));
  const auto stats = read_stats(bench.options.out);
  ASSERT_TRUE(accepted(stats));
  std::vector<std::uint64_t> counts(512);
  for (const auto& window : bench.windows().tokens) {
    for (const std::uint32_t id : window) ++counts[id];
  }
  EXPECT_EQ(stats.value().token_counts, counts);
  EXPECT_EQ(counts[0], 5u);  // BOS begins each window.
  for (const auto& [key, input] : stats.value().inputs) EXPECT_EQ(input.tokens, 120u) << key;
  const Json& info = stage.value();
  EXPECT_EQ(info["tokens"], 120);
  EXPECT_EQ(info["windows"], 5);
  EXPECT_EQ(info["distinct_ids"].get<std::int64_t>(),
            512 - std::count(counts.begin(), counts.end(), 0u));
  EXPECT_EQ(info["model_digest"].get<std::string>().size(), 64u);
  EXPECT_EQ(info["data_digest"].get<std::string>().size(), 64u);
  EXPECT_GT(info["peak_rss_bytes"].get<std::uint64_t>(), 0u);
  EXPECT_TRUE(std::filesystem::exists(bench.options.out / "stage.json"));
}

TEST(Calibrate, TwoRunsWithDifferentThreadCountsWriteTheSameFiles) {
  Bench bench;
  bench.options.threads = 1;
  ASSERT_TRUE(accepted(run_calibrate(bench.options)));
  const std::string tensors = slurp(bench.options.out / "stats.safetensors");
  const std::string json = slurp(bench.options.out / "stats.json");
  bench.options.threads = 2;
  bench.options.out = bench.folder / "again";
  ASSERT_TRUE(accepted(run_calibrate(bench.options)));
  EXPECT_FALSE(tensors.empty());
  EXPECT_TRUE(tensors == slurp(bench.options.out / "stats.safetensors"));
  EXPECT_EQ(json, slurp(bench.options.out / "stats.json"));
}

TEST(Calibrate, BlankAndShortDataAreRefusedAndLeaveNothing) {
  Bench bench;
  bench.options.data.files = {bench.folder.put("blank.txt", "\n \n")};
  EXPECT_TRUE(refused(run_calibrate(bench.options), ErrorCode::kTooLittleData, {"blank.txt"}));
  bench.options.data.files = {bench.folder.put("short.txt", "a few words")};
  EXPECT_TRUE(refused(run_calibrate(bench.options), ErrorCode::kTooLittleData, {}));
  EXPECT_FALSE(std::filesystem::exists(bench.options.out));
}

TEST(Calibrate, AWindowLongerThanTheModelsPositionsIsRefused) {
  Bench bench;
  bench.options.data.sequence_length = 129;
  EXPECT_TRUE(refused(run_calibrate(bench.options), ErrorCode::kInvalidArgument, {"129", "128"}));
}

// Finite weights, but the activations overflow float32: refused before anything is written.
TEST(Calibrate, ALossThatIsNotFiniteIsRefused) {
  Bench bench;
  for (float& v : bench.model.tensors.at("model.norm.weight").values) v = 3e38F;
  for (float& v : bench.model.tensors.at("lm_head.weight").values) v = 3e38F;
  bench.model.type = HfType::kF32;
  write_hf_model(bench.model, bench.folder / "float");
  EXPECT_TRUE(refused(run_calibrate(bench.options), ErrorCode::kNonFinite, {"loss"}));
  EXPECT_FALSE(std::filesystem::exists(bench.options.out));
}

}  // namespace
}  // namespace elastiq::testing
