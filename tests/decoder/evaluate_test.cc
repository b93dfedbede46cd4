// Evaluation: what is scored, and figures that can be worked out without it.
#include "model/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "export/run_export.h"
#include "model/run_evaluate.h"
#include "quantize/run_quantize.h"
#include "report/run_report.h"
#include "tests/support/decoder_models.h"
#include "tests/support/expect_error.h"
#include "tests/support/reference_forward.h"
#include "tests/support/temp_folder.h"

namespace elastiq::testing {
namespace {

std::string some_text(std::size_t bytes) {
  const std::string alphabet = "etaoin shrdlu cmfw";
  Rng rng(23);
  std::string text;
  while (text.size() < bytes) text += alphabet[rng.below(alphabet.size())];
  return text;
}

// T2's folder, 2000 bytes of text, and options over them.
struct Bench {
  TempFolder folder;
  HfModel model = hf_model(hf_t2(), HfType::kBf16, 31);
  EvaluateOptions options;

  Bench() {
    write_hf_model(model, folder / "float");
    options.float_model = folder / "float";
    options.model = folder / "float";
    options.text = folder.put("text.txt", some_text(2000));
    options.context = 32;
    options.contexts = 3;
  }

  void quantize(const std::string& scheme) const {
    QuantizeOptions quantize;
    quantize.model = folder / "float";
    quantize.out = folder / "ptq";
    quantize.scheme = scheme;
    ASSERT_TRUE(accepted(run_quantize(quantize)));
    ExportOptions packed;
    packed.model = folder / "ptq";
    packed.out = folder / "out";
    ASSERT_TRUE(accepted(run_export(packed)));
  }
};

// -log p(next) by the reference, over the second half of each context: BOS first, then the ids.
double reference_nll(const HfModel& model, const std::vector<std::uint32_t>& ids, std::size_t n,
                     std::size_t contexts) {
  ReferenceForward forward(model);
  double sum = 0;
  std::size_t scored = 0;
  std::vector<std::uint32_t> stream = {0};
  stream.insert(stream.end(), ids.begin(), ids.end());
  for (std::size_t c = 0; c < contexts; ++c) {
    const auto first = stream.begin() + static_cast<std::ptrdiff_t>(c * n);
    std::vector<std::uint32_t> window(first, first + static_cast<std::ptrdiff_t>(n));
    window[0] = 0;
    const std::vector<ReferenceForward::Row> logits = forward.run(window);
    for (std::size_t j = n / 2; j <= n - 2; ++j) {
      double total = 0;
      for (const double v : logits[j]) total += std::exp(v);
      sum += std::log(total) - logits[j][window[j + 1]];
      ++scored;
    }
  }
  return sum / static_cast<double>(scored);
}

TEST(Evaluate, TheFloatModelAgainstItselfHasKlZeroAndTheReferencesPerplexity) {
  const Bench bench;
  const auto run = run_evaluate(bench.options);
  ASSERT_TRUE(accepted(run));
  const Json& metrics = run.value()["metrics"];
  EXPECT_EQ(run.value()["kind"], "float");
  EXPECT_EQ(run.value()["name"], "float");
  EXPECT_EQ(metrics["kl_mean"].get<double>(), 0.0);
  EXPECT_EQ(metrics["kl_p99"].get<double>(), 0.0);
  EXPECT_EQ(metrics["top1"].get<double>(), 1.0);
  EXPECT_EQ(metrics["perplexity_ratio"].get<double>(), 1.0);
  EXPECT_TRUE(metrics["task_accuracy"].is_null());
  EXPECT_EQ(run.value()["contexts"], 3);
  EXPECT_EQ(run.value()["tokens"], 3 * 15);  // Positions 16 to 30 of each 32.
  const auto tokenizer = Tokenizer::open(bench.folder / "float");
  ASSERT_TRUE(accepted(tokenizer));
  const std::vector<std::uint32_t> ids = tokenizer.value().encode(some_text(2000));
  const double expected = std::exp(reference_nll(bench.model, ids, 32, 3));
  EXPECT_NEAR(metrics["perplexity"].get<double>() / expected, 1.0, 1e-5);
}

TEST(Evaluate, APackageIsNearItsFolderAndBothAreWorseThanFloat) {
  Bench bench;
  bench.quantize("seq3-g32-u8-k4");
  bench.options.model = bench.folder / "ptq";
  const auto folder = run_evaluate(bench.options);
  ASSERT_TRUE(accepted(folder));
  bench.options.model = bench.folder / "out" / "model.elq";
  const auto package = run_evaluate(bench.options);
  ASSERT_TRUE(accepted(package));
  const auto kl = [](const Json& run) { return run["metrics"]["kl_mean"].get<double>(); };
  EXPECT_GT(kl(folder.value()), 0.001);
  // Int8 activations add about (1 %)^2 / 2 times the logits' variance to the KL of some 0.01 to
  // 0.1.
  EXPECT_NEAR(kl(package.value()) / kl(folder.value()), 1.0, 0.2);
  EXPECT_NE(kl(package.value()), kl(folder.value()));
  EXPECT_EQ(folder.value()["kind"], "ptq");
  EXPECT_EQ(package.value()["kind"], "ptq");
  EXPECT_TRUE(folder.value()["speed"]["decode_tps"].is_null());
  EXPECT_GT(package.value()["speed"]["prefill_tps"].get<double>(), 0.0);
  EXPECT_GT(package.value()["speed"]["decode_tps"].get<double>(), 0.0);
  EXPECT_TRUE(package.value()["isa"].is_string());
  EXPECT_EQ(package.value()["kl_per_context"].size(), 3u);
  const Json report = {{"format", "elastiq.report/1"},
                       {"runs", Json::array({folder.value(), package.value()})}};
  EXPECT_TRUE(accepted(check_report(report)));
}

// The figures are computed from the package itself; the manifest is written by the exporter.
TEST(Evaluate, SizesEqualTheManifestOfTheExport) {
  Bench bench;
  bench.quantize("seq2-g64-u8-k8");
  bench.options.model = bench.folder / "out" / "model.elq";
  const auto run = run_evaluate(bench.options);
  ASSERT_TRUE(accepted(run));
  const auto manifest = read_json_file(bench.folder / "out" / "manifest.json", JsonLimits{});
  ASSERT_TRUE(accepted(manifest));
  EXPECT_EQ(run.value()["bits_per_weight"], manifest.value()["bits_per_weight"]);
  EXPECT_EQ(run.value()["bytes"]["package"], manifest.value()["bytes"]["package"]);
  for (const auto& [role, bytes] : manifest.value()["bytes"]["by_role"].items()) {
    const Json& ours = run.value()["bytes"]["by_role"];
    EXPECT_EQ(ours.contains(role) ? ours[role].get<std::uint64_t>() : 0u,
              bytes.get<std::uint64_t>())
        << role;
  }
}

TEST(Evaluate, FewerContextsThanAskedForAreRefusedWithBothCounts) {
  Bench bench;
  bench.options.text = bench.folder.put("short.txt", "a short text");
  EXPECT_TRUE(refused(run_evaluate(bench.options), ErrorCode::kTooLittleData, {"3"}));
  bench.options.contexts = 0;
  EXPECT_TRUE(refused(run_evaluate(bench.options), ErrorCode::kTooLittleData, {"1"}));
}

TEST(Evaluate, BadOptionsAreRefused) {
  Bench bench;
  bench.options.context = 129;
  EXPECT_TRUE(refused(run_evaluate(bench.options), ErrorCode::kInvalidArgument, {"129", "128"}));
  bench.options.context = 32;
  bench.options.kind = "fast";
  EXPECT_TRUE(refused(run_evaluate(bench.options), ErrorCode::kInvalidArgument, {"fast"}));
  bench.options.kind = "";
  bench.options.model = bench.folder / "nothing";
  EXPECT_TRUE(refused(run_evaluate(bench.options), ErrorCode::kIo, {"nothing"}));
}

TEST(Evaluate, AnotherVocabularyIsRefused) {
  Bench bench;
  write_hf_model(hf_model(hf_t1(), HfType::kBf16, 1), bench.folder / "other");
  bench.options.model = bench.folder / "other";
  EXPECT_TRUE(refused(run_evaluate(bench.options), ErrorCode::kInconsistent, {"67", "512"}));
}

TEST(Evaluate, ANonFiniteLogitIsAnErrorNotAFigure) {
  const std::vector<std::vector<std::uint32_t>> windows = {{0, 1, 2, 3}};
  LogitSource source{"model", 4, 8, {}};
  source.run = [](std::span<const std::uint32_t>, std::span<float> logits) -> Status {
    std::fill(logits.begin(), logits.end(), 0.0F);
    logits[2] = NAN;
    return ok_status();
  };
  EXPECT_TRUE(refused(score_windows(source, nullptr, windows, 1), ErrorCode::kNonFinite,
                      {"model", "window 0"}));
}

// Of four tokens only position 2 is scored; equal logits give each of 4 tokens 1/4.
TEST(Evaluate, ScoresTheSecondHalfByHand) {
  LogitSource source{"model", 4, 8, {}};
  std::size_t seen = 0;
  source.run = [&](std::span<const std::uint32_t> tokens, std::span<float> logits) -> Status {
    seen = tokens.size();
    std::fill(logits.begin(), logits.end(), 1.0F);
    return ok_status();
  };
  const auto scores = score_windows(source, nullptr, {{0, 1, 2, 3}}, 1);
  ASSERT_TRUE(accepted(scores));
  EXPECT_EQ(seen, 3u);  // The last token is predicted, never read.
  ASSERT_EQ(scores.value().size(), 1u);
  ASSERT_EQ(scores.value()[0].size(), 1u);
  EXPECT_NEAR(scores.value()[0][0].nll_float, std::log(4.0), 1e-12);
}

TEST(Evaluate, IdsOutsideTheVocabularyAndTooLongInputAreRefused) {
  LogitSource source{"model", 4, 3, {}};
  source.run = [](std::span<const std::uint32_t>, std::span<float>) { return ok_status(); };
  std::vector<float> logits(4);
  const std::vector<std::uint32_t> bad = {1, 4};
  EXPECT_TRUE(refused(last_logits(source, bad, logits), ErrorCode::kInvalidArgument, {"4"}));
  const std::vector<std::uint32_t> longer = {1, 1, 1, 1};
  EXPECT_TRUE(refused(last_logits(source, longer, logits), ErrorCode::kLimitExceeded, {"3"}));
}

}  // namespace
}  // namespace elastiq::testing
