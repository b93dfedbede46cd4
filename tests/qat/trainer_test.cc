#include "qat/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <limits>
#include <set>
#include <vector>

#include "qat/batches.h"
#include "qat/digests.h"
#include "qat/interrupt.h"
#include "qat/kl_loss.h"
#include "tests/support/expect_error.h"

namespace elastiq {
namespace {

using testing::accepted;
using testing::refused;

TEST(Schedule, WarmsUpThenFollowsACosineToTheFloor) {
  const Schedule s{.steps = 101, .warmup = 0.1, .floor = 0.05};  // 10 warm-up steps.
  EXPECT_DOUBLE_EQ(schedule_factor(s, 0), 1.0 / 11);
  EXPECT_DOUBLE_EQ(schedule_factor(s, 9), 10.0 / 11);
  EXPECT_DOUBLE_EQ(schedule_factor(s, 10), 1.0);
  EXPECT_NEAR(schedule_factor(s, 55), 0.05 + 0.95 / 2, 1e-12);  // Half way.
  EXPECT_NEAR(schedule_factor(s, 100), 0.05, 1e-12);
}

TEST(Schedule, OfOneStepIsTheFullRate) {
  EXPECT_DOUBLE_EQ(schedule_factor({.steps = 1, .warmup = 0.03, .floor = 0.05}, 0), 1.0);
}

TEST(StepWindows, VisitEveryWindowOncePerEpoch) {
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<std::size_t> seen;
    for (std::int64_t step = 0; step < 5; ++step) {
      for (const std::size_t w : step_windows(7, epoch * 5 + step, 2, 10)) seen.insert(w);
    }
    EXPECT_EQ(seen.size(), 10u);
  }
}

TEST(StepWindows, ArePureInSeedAndStep) {
  EXPECT_EQ(step_windows(7, 123, 4, 33), step_windows(7, 123, 4, 33));
  EXPECT_NE(step_windows(7, 0, 20, 33), step_windows(8, 0, 20, 33));
  EXPECT_NE(step_windows(7, 0, 33, 33), step_windows(7, 1, 33, 33));  // Epochs differ.
}

TEST(StepWindows, AStepMaySpanEpochs) {
  const auto chosen = step_windows(1, 0, 5, 2);
  EXPECT_EQ(chosen.size(), 5u);
  EXPECT_NE(chosen[0], chosen[1]);
  EXPECT_NE(chosen[2], chosen[3]);
}

torch::Tensor leaf(std::vector<float> values) {
  return torch::tensor(values).set_requires_grad(true);
}

void set_gradient(const torch::Tensor& value, std::vector<float> gradient) {
  value.mutable_grad() = torch::tensor(gradient);
}

TEST(AdamW, FollowsTheFormulas) {
  AdamW adam;
  const torch::Tensor w = leaf({1.0f, -2.0f});
  adam.add({.name = "w", .value = w, .rate = 0.1, .decay = 0.5});
  // First step: m / (1 - b1) = g and v / (1 - b2) = g^2, so the move is rate * sign(g).
  set_gradient(w, {0.3f, -0.4f});
  const auto norm = adam.step(1.0, 10.0, 1);
  ASSERT_TRUE(accepted(norm));
  EXPECT_NEAR(norm.value(), 0.5, 1e-7);
  EXPECT_NEAR(w[0].item<double>(), 1.0 * 0.95 - 0.1, 1e-6);
  EXPECT_NEAR(w[1].item<double>(), -2.0 * 0.95 + 0.1, 1e-6);
  EXPECT_FALSE(w.grad().defined());
  // Second step, half the rate, gradient 0.1 in the first element.
  const double before = w[0].item<double>();
  set_gradient(w, {0.1f, 0.0f});
  ASSERT_TRUE(accepted(adam.step(0.5, 10.0, 2)));
  const double m = (0.9 * 0.03 + 0.1 * 0.1) / (1 - 0.81);
  const double v = (0.95 * 0.05 * 0.09 + 0.05 * 0.01) / (1 - 0.9025);
  EXPECT_NEAR(w[0].item<double>(), before * (1 - 0.05 * 0.5) - 0.05 * m / std::sqrt(v), 1e-6);
}

TEST(AdamW, ClipsByTheNormOverAllParameters) {
  AdamW adam;
  const torch::Tensor a = leaf({0.0f});
  const torch::Tensor b = leaf({0.0f});
  adam.add({.name = "a", .value = a, .rate = 1.0});
  adam.add({.name = "b", .value = b, .rate = 1.0});
  set_gradient(a, {30.0f});
  set_gradient(b, {40.0f});
  ASSERT_TRUE(accepted(adam.step(1.0, 5.0, 1)));  // Norm 50: a tenth remains.
  EXPECT_NEAR(adam.parameters()[0].first[0].item<double>(), 0.1 * 3.0, 1e-6);
  EXPECT_NEAR(adam.parameters()[1].first[0].item<double>(), 0.1 * 4.0, 1e-6);
}

TEST(AdamW, KeepsValuesInTheirBounds) {
  AdamW adam;
  const torch::Tensor w = leaf({0.95f, -0.95f});
  adam.add({.name = "w", .value = w, .rate = 0.1, .low = -1.0f, .high = 1.0f});
  set_gradient(w, {-1.0f, 1.0f});
  ASSERT_TRUE(accepted(adam.step(1.0, 10.0, 1)));
  EXPECT_EQ(w[0].item<float>(), 1.0f);
  EXPECT_EQ(w[1].item<float>(), -1.0f);
}

TEST(AdamW, NamesParameterAndStepOfANonFiniteGradientAndChangesNothing) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    AdamW adam;
    const torch::Tensor a = leaf({1.0f});
    const torch::Tensor b = leaf({2.0f, 3.0f});
    adam.add({.name = "layers.0.a", .value = a, .rate = 0.1});
    adam.add({.name = "layers.1.b", .value = b, .rate = 0.1});
    set_gradient(a, {1.0f});
    set_gradient(b, {0.0f, bad});
    EXPECT_TRUE(refused(adam.step(1.0, 1.0, 42), ErrorCode::kNonFinite, {"layers.1.b", "step 42"}));
    EXPECT_EQ(a.item<float>(), 1.0f);
    EXPECT_EQ(adam.updates(), 0);
  }
}

TEST(AdamW, HugeFiniteGradientsAreNotMistakenForInfinity) {
  AdamW adam;
  const torch::Tensor w = leaf({0.0f});
  adam.add({.name = "w", .value = w, .rate = 0.1});
  set_gradient(w, {3e38f});
  ASSERT_TRUE(accepted(adam.step(1.0, 1.0, 1)));
  EXPECT_NEAR(w.item<double>(), -0.1, 1e-6);
}

TEST(AdamW, DoesNotDependOnTheThreadCount) {
  std::vector<torch::Tensor> results;
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    torch::manual_seed(5);
    torch::Tensor w = torch::randn({300000}).set_requires_grad(true);
    AdamW adam;
    adam.add({.name = "w", .value = w, .rate = 0.01});
    w.mutable_grad() = torch::randn({300000});
    ASSERT_TRUE(accepted(adam.step(1.0, 1.0, 1)));
    results.push_back(w.detach());
  }
  EXPECT_TRUE(torch::equal(results[0], results[1]));
}

TEST(KlOfLogits, IsTheDivergenceByHand) {
  // p = (1/4, 3/4), q = (1/2, 1/2).
  const torch::Tensor teacher = torch::tensor({std::log(0.25), std::log(0.75)}).to(torch::kFloat32);
  const KlPart part = kl_of_logits(teacher.view({1, 2}), torch::zeros({1, 2}), 2.0);
  EXPECT_NEAR(part.sum, 0.25 * std::log(0.5) + 0.75 * std::log(1.5), 1e-6);
  EXPECT_NEAR(part.gradient[0][0].item<double>(), 2.0 * (0.5 - 0.25), 1e-6);
  EXPECT_NEAR(part.gradient[0][1].item<double>(), 2.0 * (0.5 - 0.75), 1e-6);
}

TEST(KlOfLogits, OfEqualLogitsIsZero) {
  torch::manual_seed(1);
  const torch::Tensor logits = torch::randn({5, 77}) * 4;
  const KlPart part = kl_of_logits(logits, logits + 3.0, 1.0);  // A shift changes nothing.
  EXPECT_NEAR(part.sum, 0.0, 1e-5);
  EXPECT_LT(part.gradient.abs().max().item<double>(), 1e-5);
}

TEST(MicroBatches, AreWholeWindowsOfAtMost512Tokens) {
  const auto parts = micro_batches(torch::zeros({5, 200}, torch::kInt64));
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].size(0), 2);
  EXPECT_EQ(parts[2].size(0), 1);
  EXPECT_EQ(micro_batches(torch::zeros({2, 4096}, torch::kInt64)).size(), 2u);
}

TEST(CheckTokenRange, NamesTheTokenAndTheVocabulary) {
  Windows windows;
  windows.tokens = {{1, 2, 66}, {3, 67, 1}};
  EXPECT_TRUE(accepted(check_token_range(windows, 68)));
  EXPECT_TRUE(refused(check_token_range(windows, 67), ErrorCode::kInconsistent, {"67"}));
}

TEST(DescribeDifference, NamesEveryChangedField) {
  const Json before{{"options", {{"clip", 1.0}, {"batch", 2}}}, {"model", {{"a", "x"}}}};
  Json now = before;
  EXPECT_EQ(describe_difference(before, now), "");
  now["options"]["clip"] = 0.5;
  now["model"] = Json::object();
  now["model"]["b"] = "y";
  EXPECT_EQ(describe_difference(before, now),
            "model/a: was \"x\", is absent; model/b: was absent, is \"y\"; options/clip: was 1.0, "
            "is 0.5");
}

TEST(InterruptGuard, NotesASignalAndGivesTheHandlerBack) {
  struct sigaction before {};

  sigaction(SIGTERM, nullptr, &before);
  {
    const InterruptGuard guard;
    EXPECT_FALSE(guard.requested());
    std::raise(SIGTERM);
    EXPECT_TRUE(guard.requested());
  }

  struct sigaction after {};

  sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
  const InterruptGuard fresh;
  EXPECT_FALSE(fresh.requested());
}

}  // namespace
}  // namespace elastiq
