#include "recipes/stage_options.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace elastiq {
namespace {

using testing::accepted;
using testing::refused;

template <class T>
void expect_round_trip(const T& options) {
  const Json json = options_json(options);
  const auto back = options_from_json<T>(json, "stage.json");
  ASSERT_TRUE(accepted(back));
  EXPECT_EQ(options_json(back.value()), json) << json.dump(2);
}

TEST(StageOptions, EveryStructSurvivesTheFile) {
  QuantizeOptions quantize;
  quantize.model = "m";
  quantize.stats = "s";
  quantize.out = "o";
  quantize.method = QuantizeOptions::Method::kGptq;
  quantize.rules = {{"id", {"attn.q", "embed"}, "model.*", "0-1,-1", "keep"}};
  quantize.data.files = {"a", "b"};
  quantize.damping = 0.125;
  quantize.fallback = QuantizeOptions::Fallback::kForbidden;
  expect_round_trip(quantize);
  QatOptions qat;
  qat.model = "m";
  qat.ptq = "p";
  qat.out = "o";
  qat.seed = 18446744073709551615u;
  qat.resume = QatOptions::Resume::kFresh;
  qat.scale_rate = 1.0 / 3;
  expect_round_trip(qat);
  CalibrateOptions calibrate;
  calibrate.model = "m";
  calibrate.out = "o";
  expect_round_trip(calibrate);
  TrainOptions train;
  train.config = "c";
  train.out = "o";
  expect_round_trip(train);
  EvaluateOptions evaluate;
  evaluate.float_model = "f";
  evaluate.model = "m";
  evaluate.text = "t";
  evaluate.kind = "qat";
  expect_round_trip(evaluate);
  ExportOptions packaging;
  packaging.model = "m";
  packaging.out = "o";
  packaging.weights = ExportOptions::Weights::kZstd;
  packaging.provenance = {{"recipe", {{"a", 1}}}};
  expect_round_trip(packaging);
}

TEST(StageOptions, ContentHasNoPathsAndNoThreads) {
  QuantizeOptions options;
  options.model = "/home/secret/model";
  options.data.files = {"/home/secret/text"};
  options.threads = 7;
  const Json content = options_content(options);
  EXPECT_EQ(content.dump().find("secret"), std::string::npos);
  EXPECT_FALSE(content.contains("threads"));
  EXPECT_EQ(content["scheme"], "seq2-g64-u8-k8");
  EXPECT_EQ(content["data"]["sequence_length"], 512);
}

TEST(StageOptions, WrongFileIsAUsageErrorWithEveryKey) {
  const Json json = {{"model", 3}, {"out", "o"}, {"theads", 2}, {"data", {{"windows", -1}}}};
  EXPECT_TRUE(refused(
      options_from_json<CalibrateOptions>(json, "c.json"), ErrorCode::kUsage,
      {"c.json", "/model: found number 3", "/theads: unknown key, did you mean \"threads\"?",
       "/data/windows: found number -1, allowed 0"}));
  EXPECT_TRUE(refused(options_from_json<CalibrateOptions>(Json::array(), "c.json"),
                      ErrorCode::kUsage, {"expected an object"}));
}

TEST(NearestKey, SwapsAndOmissionsAreNear) {
  const std::vector<std::string> keys = {"scheme", "scale_steps", "run", "seed"};
  EXPECT_EQ(nearest_key("shceme", keys), "scheme");
  EXPECT_EQ(nearest_key("scale_step", keys), "scale_steps");
  EXPECT_EQ(nearest_key("rnu", keys), "run");
  EXPECT_EQ(nearest_key("temperature", keys), "");
}

TEST(PointerToken, EscapesAsRfc6901Says) {
  EXPECT_EQ(pointer_token("a/b~c"), "/a~1b~0c");
}

}  // namespace
}  // namespace elastiq
