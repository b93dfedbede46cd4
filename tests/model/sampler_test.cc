#include "model/sampler.h"

#include <gtest/gtest.h>

#include <cmath>

namespace elastiq {
namespace {

SamplingOptions at_temperature(double temperature) {
  SamplingOptions options;
  options.temperature = temperature;
  options.top_k = 0;
  return options;
}

TEST(PickToken, GreedyTakesTheFirstOfEquals) {
  const std::vector<float> logits = {1.0f, 3.0f, 3.0f, -1.0f};
  EXPECT_EQ(pick_token(logits, SamplingOptions{}, 0.99), 1u);
}

// exp: 1, 3 and 4 parts of 8 in order 2 (4), 1 (3), 0 (1).
const std::vector<float> kEighths = {std::log(1.0f), std::log(3.0f), std::log(4.0f)};

TEST(PickToken, DrawsByMassFromTheMostLikely) {
  const SamplingOptions all = at_temperature(1);
  EXPECT_EQ(pick_token(kEighths, all, 0.0), 2u);
  EXPECT_EQ(pick_token(kEighths, all, 0.49), 2u);
  EXPECT_EQ(pick_token(kEighths, all, 0.51), 1u);
  EXPECT_EQ(pick_token(kEighths, all, 0.86), 1u);
  EXPECT_EQ(pick_token(kEighths, all, 0.89), 0u);
}

TEST(PickToken, TopKDrawsFromSoMany) {
  SamplingOptions two = at_temperature(1);
  two.top_k = 2;
  EXPECT_EQ(pick_token(kEighths, two, 0.99), 1u);  // 4 and 3 of 7.
  EXPECT_EQ(pick_token(kEighths, two, 0.56), 2u);
}

TEST(PickToken, LowTemperatureSharpens) {
  SamplingOptions sharp = at_temperature(0.5);
  sharp.top_k = 2;  // 16 and 9 of 25.
  EXPECT_EQ(pick_token(kEighths, sharp, 0.63), 2u);
  EXPECT_EQ(pick_token(kEighths, sharp, 0.65), 1u);
}

TEST(PickToken, TopPKeepsTheFewestWithTheMass) {
  SamplingOptions nucleus = at_temperature(1);
  nucleus.top_p = 0.49;  // The first alone has half of the mass.
  EXPECT_EQ(pick_token(kEighths, nucleus, 0.99), 2u);
  nucleus.top_p = 0.51;
  EXPECT_EQ(pick_token(kEighths, nucleus, 0.56), 2u);
  EXPECT_EQ(pick_token(kEighths, nucleus, 0.99), 1u);
  nucleus.top_p = 1;
  EXPECT_EQ(pick_token(kEighths, nucleus, 0.99), 0u);
  nucleus.top_p = 1e-6;  // Never none.
  EXPECT_EQ(pick_token(kEighths, nucleus, 0.99), 2u);
}

TEST(PenalizeRepetition, DividesPositiveAndMultipliesNegativeOnce) {
  std::vector<float> logits = {3.0f, -2.0f, 5.0f, 0.0f};
  const std::vector<std::uint32_t> recent = {0, 1, 0, 3};
  penalize_repetition(logits, recent, 2.0);
  EXPECT_EQ(logits, (std::vector<float>{1.5f, -4.0f, 5.0f, 0.0f}));
  penalize_repetition(logits, recent, 1.0);
  EXPECT_EQ(logits[0], 1.5f);
}

TEST(StopWords, TextEndsBeforeTheFirstWord) {
  const StopCheck check = check_stop_words("one two three", {"three", "two"});
  EXPECT_TRUE(check.stopped);
  EXPECT_EQ(check.shown, 4u);
}

TEST(StopWords, ATailThatMayBecomeAWordIsHeldBack) {
  EXPECT_EQ(check_stop_words("say </", {"</s>"}).shown, 4u);
  EXPECT_EQ(check_stop_words("say </b", {"</s>"}).shown, 7u);
  EXPECT_EQ(check_stop_words("abab", {"ababc", "bx"}).shown, 0u);
  EXPECT_EQ(check_stop_words("text", {}).shown, 4u);
  EXPECT_EQ(check_stop_words("text", {""}).shown, 4u);
  EXPECT_FALSE(check_stop_words("say </", {"</s>"}).stopped);
}

}  // namespace
}  // namespace elastiq
