// cases.md 20 through the stage: calibration text whose second moments are singular or lopsided.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "quantize/run_quantize.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace elastiq {
namespace {

constexpr const char* kGptqPath = "gptq";
constexpr const char* kNotDefinite = "rtn: second moment not definite";
constexpr const char* kRtnBetter = "rtn: smaller calibration loss";

class NotDefinite : public ::testing::Test {
 protected:
  /// T3 of one block, with one input channel scaled.
  void put_model(float channel) const {
    testing::HfShape shape = testing::hf_t3();
    shape.layers = 1;
    testing::HfModel model = testing::hf_model(shape, testing::HfType::kBf16, 7);
    model.tensors["model.layers.0.input_layernorm.weight"].values[17] *= channel;
    write_hf_model(model, folder_ / "model");
  }

  QuantizeOptions options(const std::string& text, std::int64_t length) const {
    QuantizeOptions o;
    o.model = folder_ / "model";
    o.out = folder_ / "ptq";
    o.method = QuantizeOptions::Method::kGptq;
    o.scheme = "seq2-g64-u8-k8";
    o.data.files = {folder_.put("text.txt", text)};
    o.data.sequence_length = length;
    o.data.windows = 1;
    return o;
  }

  /// Every matrix with its damping and path; none worse than RTN on the calibration text.
  static void expect_sound(const QuantizeOptions& o) {
    const auto stage = run_quantize(o);
    ASSERT_TRUE(stage.ok()) << to_string(stage.error());
    int matrices = 0;
    for (const Json& line : stage.value().at("plan")) {
      if (line.value("method", "") != "gptq") continue;
      ++matrices;
      const auto name = line.at("name").get<std::string>();
      const auto path = line.at("path").get<std::string>();
      EXPECT_TRUE(path == kGptqPath || path == kNotDefinite || path == kRtnBetter) << path;
      // Four tenfold steps from 0.05 at most.
      EXPECT_LE(line.at("damping").get<double>(), 500.0 * (1 + 1e-12)) << name;
      EXPECT_LE(line.at("relative_loss").get<double>(), line.at("relative_rtn_loss").get<double>())
          << name;
    }
    EXPECT_EQ(matrices, 7);
  }

  testing::TempFolder folder_;
};

TEST_F(NotDefinite, OneSampleOfThreeTokens) {
  put_model(1);
  expect_sound(options("abc", 3));
}

TEST_F(NotDefinite, CopiesOfOneToken) {
  put_model(1);
  expect_sound(options(std::string(200, 'q'), 100));
}

TEST_F(NotDefinite, OneChannelTenThousandTimesTheOthers) {
  put_model(1e4F);
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>('a' + i * i % 26);
  expect_sound(options(text, 64));
}

TEST_F(NotDefinite, WithoutDampingItFallsBackWhereAllowedAndIsAnErrorWhereNot) {
  put_model(1);
  QuantizeOptions o = options("abc", 3);
  o.damping = 0;
  o.damping_steps = 0;
  const auto stage = run_quantize(o);
  ASSERT_TRUE(stage.ok()) << to_string(stage.error());
  EXPECT_GT(stage.value().at("rtn_fallbacks"), 0);
  const Json& plan = stage.value().at("plan");
  EXPECT_TRUE(std::any_of(plan.begin(), plan.end(),
                          [](const Json& line) { return line.value("path", "") == kNotDefinite; }));
  o.fallback = QuantizeOptions::Fallback::kForbidden;
  o.out = folder_ / "forbidden";
  const auto refused = run_quantize(o);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kNumeric);
  EXPECT_EQ(exit_status(refused.error()), 4);
  EXPECT_NE(refused.error().subject.find("layers.0"), std::string::npos)
      << to_string(refused.error());
  EXPECT_FALSE(std::filesystem::exists(o.out));
}

}  // namespace
}  // namespace elastiq
