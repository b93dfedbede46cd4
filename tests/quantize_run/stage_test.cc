#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "calibrate/run_calibrate.h"
#include "core/file.h"
#include "core/rng.h"
#include "formats/quantized_checkpoint.h"
#include "model/decoder.h"
#include "quantize/run_quantize.h"
#include "tests/support/tiny_model.h"

namespace elastiq {
namespace {

namespace fs = std::filesystem;

/// A tiny model, a text of words over the letters that every test tokenizer has, and its
/// statistics.
class StageTest : public ::testing::Test {
 protected:
  void prepare(const testing::HfShape& shape, const std::string& name) {
    folder_ = testing::hf_test_folder(name);
    fs::create_directories(folder_);
    testing::write_hf_model(testing::hf_model(shape, testing::HfType::kBf16, 7), folder_ / "model");
    Rng rng(3);
    std::string text;
    for (int i = 0; i < 6000; ++i) {
      text += i % 7 == 6 ? ' ' : static_cast<char>('a' + rng.below(26));
    }
    testing::hf_write_text(folder_ / "text.txt", text);
  }

  DataOptions data() const {
    DataOptions options;
    options.files = {folder_ / "text.txt"};
    options.sequence_length = 32;
    options.windows = 24;
    return options;
  }

  void calibrate() {
    CalibrateOptions options;
    options.model = folder_ / "model";
    options.data = data();
    options.out = folder_ / "stats";
    const auto result = run_calibrate(options);
    ASSERT_TRUE(result.ok()) << to_string(result.error());
  }

  QuantizeOptions options(QuantizeOptions::Method method, const std::string& out) const {
    QuantizeOptions result;
    result.model = folder_ / "model";
    result.out = folder_ / out;
    result.method = method;
    result.scheme = "seq3-g32-u8-k2";
    result.data = data();
    return result;
  }

  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
};

using Method = QuantizeOptions::Method;

QuantRule rule(const char* role, const char* scheme) {
  return {role, {role}, "", "", scheme};
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST_F(StageTest, RtnWritesAModelWithPlainTensorsByteForByte) {
  prepare(testing::hf_t1(), "quantize_rtn");
  calibrate();
  QuantizeOptions o = options(Method::kRtn, "ptq");
  o.stats = folder_ / "stats";
  o.rules = {rule("attn.v", "sym4-g32-f16")};
  const auto stage = run_quantize(o);
  ASSERT_TRUE(stage.ok()) << to_string(stage.error());

  const auto checkpoint = read_quantized_checkpoint(folder_ / "ptq");
  ASSERT_TRUE(checkpoint.ok()) << to_string(checkpoint.error());
  // 7 matrices in each of 2 blocks; embedding, 4 norms and the final norm stay.
  EXPECT_EQ(checkpoint.value().matrices.size(), 14u);
  EXPECT_EQ(checkpoint.value().plain.size(), 6u);
  const auto source = Checkpoint::open(folder_ / "model");
  ASSERT_TRUE(source.ok());
  for (const auto& [name, plain] : checkpoint.value().plain) {
    const TensorView* view = source.value().find(name);
    ASSERT_NE(view, nullptr) << name;
    EXPECT_TRUE(
        std::equal(plain.bytes.begin(), plain.bytes.end(), view->bytes.begin(), view->bytes.end()))
        << name;
  }
  const auto& matrices = checkpoint.value().matrices;
  EXPECT_EQ(scheme_name(matrices.at("model.layers.1.self_attn.v_proj.weight").scheme),
            "sym4-g32-f16");
  EXPECT_EQ(matrices.at("model.layers.1.mlp.up_proj.weight").kept_index.size(), 2u);

  const Json& plan = checkpoint.value().info.at("plan");
  ASSERT_EQ(plan.size(), 15u);
  for (const Json& line : plan) {
    if (line.at("role") == "embed") {
      EXPECT_EQ(line.at("scheme"), "keep");
      EXPECT_TRUE(line.contains("reason"));
      continue;
    }
    EXPECT_EQ(line.at("method"), "rtn");
    EXPECT_EQ(line.at("rule"), line.at("role") == "attn.v" ? "attn.v" : "default");
    // 3 and 4 bits on random weights: .5 % to 4 % of the energy.
    EXPECT_GT(line.at("relative_error").get<double>(), 0.005);
    EXPECT_LT(line.at("relative_error").get<double>(), 0.04);
  }
}

// An untied model: embedding by equal importance, head last, both quantized.
TEST_F(StageTest, GptqBeatsRtnOnEveryMatrixAndQuantizesTheHead) {
  prepare(testing::hf_t2(), "quantize_gptq");
  QuantizeOptions o = options(Method::kGptq, "ptq");
  o.rules = {rule("embed", "sym4-g32-u8"), rule("head", "seq4-g32-u8")};
  const auto stage = run_quantize(o);
  ASSERT_TRUE(stage.ok()) << to_string(stage.error());
  EXPECT_EQ(stage.value().at("rtn_fallbacks"), 0);
  int swept = 0;
  double ratio = 0.0;
  for (const Json& line : stage.value().at("plan")) {
    if (line.at("method") != "gptq") continue;
    EXPECT_EQ(line.at("path"), "gptq");
    EXPECT_LE(line.at("relative_loss").get<double>(), line.at("relative_rtn_loss").get<double>());
    ratio += line.at("relative_loss").get<double>() / line.at("relative_rtn_loss").get<double>();
    ++swept;
  }
  EXPECT_EQ(swept, 15);
  EXPECT_LT(ratio / swept, 0.8);
}

TEST_F(StageTest, ThreadCountDoesNotChangeAByte) {
  prepare(testing::hf_t1(), "quantize_threads");
  calibrate();
  for (const int threads : {1, 2}) {
    QuantizeOptions o = options(Method::kGptq, "ptq" + std::to_string(threads));
    o.stats = folder_ / "stats";
    o.rules = {rule("embed", "sym4-g32-u8")};
    o.threads = threads;
    const auto stage = run_quantize(o);
    ASSERT_TRUE(stage.ok()) << to_string(stage.error());
  }
  for (const char* file : {"model.safetensors", "quantization.json"}) {
    const std::string one = bytes_of(folder_ / "ptq1" / file);
    EXPECT_FALSE(one.empty());
    EXPECT_EQ(one, bytes_of(folder_ / "ptq2" / file)) << file;
  }
}

TEST_F(StageTest, RefusesWhatIsMissing) {
  prepare(testing::hf_t1(), "quantize_missing");
  QuantizeOptions o = options(Method::kGptq, "ptq");
  o.rules = {rule("embed", "sym4-g32-u8")};
  auto stage = run_quantize(o);
  ASSERT_FALSE(stage.ok());
  EXPECT_EQ(stage.error().code, ErrorCode::kRecipe);
  EXPECT_NE(stage.error().detail.find("head_in"), std::string::npos);

  o.rules.clear();
  o.data.files.clear();
  stage = run_quantize(o);
  ASSERT_FALSE(stage.ok());
  EXPECT_EQ(stage.error().code, ErrorCode::kRecipe);
  EXPECT_NE(stage.error().detail.find("data.files"), std::string::npos);

  o.drift_share = 1.5;
  EXPECT_EQ(run_quantize(o).error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(fs::exists(folder_ / "ptq"));
}

// cases.md 30: names without "model."; what reads the result knows one name per tensor.
TEST_F(StageTest, BareTensorNamesAreStoredAsTheUsualOnes) {
  prepare(testing::hf_t1(), "quantize_bare");
  testing::HfModel model = testing::hf_model(testing::hf_t1(), testing::HfType::kBf16, 7);
  const std::string prefix = "model.";
  std::map<std::string, testing::HfTensor> bare;
  for (auto& [name, tensor] : model.tensors) {
    bare[name.rfind(prefix, 0) == 0 ? name.substr(prefix.size()) : name] = tensor;
  }
  model.tensors = bare;
  testing::write_hf_model(model, folder_ / "model");
  const auto stage = run_quantize(options(Method::kRtn, "ptq"));
  ASSERT_TRUE(stage.ok()) << to_string(stage.error());
  const auto out = read_quantized_checkpoint(folder_ / "ptq");
  ASSERT_TRUE(out.ok()) << to_string(out.error());
  EXPECT_TRUE(out.value().matrices.contains("model.layers.0.self_attn.q_proj.weight"));
  EXPECT_TRUE(out.value().plain.contains("model.embed_tokens.weight"));
  EXPECT_TRUE(load_weights(out.value()).ok());
}

TEST_F(StageTest, RefusesStatisticsOfAnotherModel) {
  prepare(testing::hf_t1(), "quantize_fingerprint");
  calibrate();
  testing::write_hf_model(testing::hf_model(testing::hf_t1(), testing::HfType::kBf16, 8),
                          folder_ / "model");
  QuantizeOptions o = options(Method::kRtn, "ptq");
  o.stats = folder_ / "stats";
  const auto stage = run_quantize(o);
  ASSERT_FALSE(stage.ok());
  EXPECT_EQ(stage.error().code, ErrorCode::kFingerprint);
}

}  // namespace
}  // namespace elastiq
