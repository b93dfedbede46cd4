#include "model/config.h"

#include <gtest/gtest.h>

#include <string>

#include "core/json.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace elastiq {
namespace {

using testing::accepted;
using testing::refused;
using testing::TempFolder;

// hidden 64, 4 heads, 2 key-value heads, head size 24: cases.md T2.
Json base() {
  return Json::parse(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 24, "intermediate_size": 172, "vocab_size": 512, "max_position_embeddings": 128,
    "rms_norm_eps": 1e-6, "rope_theta": 500000.0, "hidden_act": "silu",
    "tie_word_embeddings": false, "bos_token_id": 0, "eos_token_id": [1, 2]})");
}

Result<ModelConfig> read(const Json& json) {
  const TempFolder folder;
  folder.put("config.json", json.dump());
  return read_model_config(folder.path());
}

Result<ModelConfig> read_with(const char* key, const Json& value) {
  Json json = base();
  json[key] = value;
  return read(json);
}

Result<ModelConfig> read_without(const char* key) {
  Json json = base();
  json.erase(key);
  return read(json);
}

TEST(Config, EveryFieldIsRead) {
  const auto result = read(base());
  ASSERT_TRUE(accepted(result));
  const ModelConfig& c = result.value();
  EXPECT_EQ(c.architecture, "LlamaForCausalLM");
  EXPECT_EQ(c.hidden, 64);
  EXPECT_EQ(c.layers, 2);
  EXPECT_EQ(c.heads, 4);
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_EQ(c.head_dim, 24);
  EXPECT_EQ(c.ffn, 172);
  EXPECT_EQ(c.vocab, 512);
  EXPECT_EQ(c.max_positions, 128);
  EXPECT_EQ(c.rms_eps, 1e-6);
  EXPECT_EQ(c.rope_theta, 500000.0);
  EXPECT_EQ(c.tied, ModelConfig::Tied::kNo);
  EXPECT_FALSE(c.attention_bias);
  EXPECT_EQ(c.bos, 0);
  EXPECT_EQ(c.eos, (std::vector<std::int64_t>{1, 2}));
}

TEST(Config, MissingKeyValueHeadsMeanAsManyAsHeads) {
  const auto result = read_without("num_key_value_heads");
  ASSERT_TRUE(accepted(result));
  EXPECT_EQ(result.value().kv_heads, 4);
}

TEST(Config, NullHeadSizeMeansHiddenByHeads) {
  const auto result = read_with("head_dim", nullptr);
  ASSERT_TRUE(accepted(result));
  EXPECT_EQ(result.value().head_dim, 16);
}

TEST(Config, UnstatedTieIsKeptApartFromNo) {
  const auto result = read_without("tie_word_embeddings");
  ASSERT_TRUE(accepted(result));
  EXPECT_EQ(result.value().tied, ModelConfig::Tied::kUnstated);
}

TEST(Config, HeadShapesThatDoNotFitAreRefused) {
  EXPECT_TRUE(refused(read_with("num_key_value_heads", 3), ErrorCode::kInconsistent,
                      {"4 attention heads", "3 key-value heads"}));
  EXPECT_TRUE(refused(read_with("head_dim", 15), ErrorCode::kInconsistent, {"15", "even"}));
  Json json = base();
  json.erase("head_dim");
  json["hidden_size"] = 66;
  EXPECT_TRUE(refused(read(json), ErrorCode::kInconsistent, {"66", "4 heads"}));
}

TEST(Config, BothRopeSpellingsAreRead) {
  Json json = base();
  json.erase("rope_theta");
  json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 130000.0}};
  auto result = read(json);
  ASSERT_TRUE(accepted(result));
  EXPECT_EQ(result.value().rope_theta, 130000.0);

  json["rope_parameters"] = {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 7.0}}}};
  result = read(json);
  ASSERT_TRUE(accepted(result));
  EXPECT_EQ(result.value().rope_theta, 7.0);
  EXPECT_TRUE(accepted(read_with("rope_scaling", nullptr)));
  EXPECT_TRUE(accepted(read_with("rope_scaling", {{"type", "default"}})));
}

TEST(Config, RopeScalingIsRefusedByName) {
  EXPECT_TRUE(refused(read_with("rope_scaling", {{"rope_type", "llama3"}, {"factor", 32.0}}),
                      ErrorCode::kUnsupportedType, {"rope_scaling", "llama3"}));
  EXPECT_TRUE(refused(read_with("rope_scaling", {{"type", "yarn"}}), ErrorCode::kUnsupportedType,
                      {"yarn"}));
  EXPECT_TRUE(refused(read_with("rope_parameters", {{"rope_type", "linear"}}),
                      ErrorCode::kUnsupportedType, {"rope_parameters", "linear"}));
}

TEST(Config, RopeScalingWithoutATypeIsRefused) {
  for (const Json& value : {Json{{"factor", 8.0}}, Json{{"rope_type", nullptr}, {"factor", 8.0}},
                            Json::object(), Json{{"type", ""}}}) {
    EXPECT_TRUE(refused(read_with("rope_scaling", value), ErrorCode::kUnsupportedType,
                        {"rope_scaling", "without a type", "supported is rope_type default"}))
        << value;
  }
  EXPECT_TRUE(refused(read_with("rope_parameters", {{"rope_theta", 5.0}, {"factor", 8.0}}),
                      ErrorCode::kUnsupportedType, {"rope_parameters", "without a type"}));
  EXPECT_TRUE(accepted(read_with("rope_parameters", {{"rope_theta", 5.0}})));
}

TEST(Config, OtherArithmeticIsRefusedByName) {
  EXPECT_TRUE(refused(read_with("architectures", {"Qwen2ForCausalLM"}), ErrorCode::kUnsupportedType,
                      {"Qwen2ForCausalLM", "LlamaForCausalLM"}));
  EXPECT_TRUE(refused(read_with("hidden_act", "gelu"), ErrorCode::kUnsupportedType, {"gelu"}));
  EXPECT_TRUE(refused(read_with("quantization_config", {{"quant_method", "gptq"}}),
                      ErrorCode::kUnsupportedType, {"already quantized by gptq"}));
  EXPECT_TRUE(refused(read_with("sliding_window", 4096), ErrorCode::kUnsupportedType,
                      {"sliding_window", "4096"}));
  EXPECT_TRUE(
      refused(read_with("logits_scaling", 8.0), ErrorCode::kUnsupportedType, {"logits_scaling"}));
}

TEST(Config, MistralWithoutWindowIsALlama) {
  Json json = base();
  json["architectures"] = {"MistralForCausalLM"};
  json["sliding_window"] = nullptr;
  EXPECT_TRUE(accepted(read(json)));
}

TEST(Config, ModelTypeDecidesWithoutArchitectures) {
  const auto result = read_without("architectures");
  ASSERT_TRUE(accepted(result));
  EXPECT_EQ(result.value().architecture, "LlamaForCausalLM");
}

TEST(Config, ErrorsNameTheKeyAndTheAllowedRange) {
  EXPECT_TRUE(refused(read_without("hidden_size"), ErrorCode::kMissing, {"hidden_size"}));
  EXPECT_TRUE(refused(read_with("num_hidden_layers", 5000), ErrorCode::kLimitExceeded,
                      {"num_hidden_layers", "5000", "1024"}));
  EXPECT_TRUE(refused(read_with("hidden_size", -1), ErrorCode::kLimitExceeded, {"-1"}));
  EXPECT_TRUE(refused(read_with("hidden_size", "64"), ErrorCode::kInconsistent, {"string"}));
  EXPECT_TRUE(refused(read_with("rope_theta", 0), ErrorCode::kInconsistent, {"rope_theta"}));
  EXPECT_TRUE(
      refused(read_with("eos_token_id", 512), ErrorCode::kInconsistent, {"eos_token_id", "511"}));
  const TempFolder empty;
  EXPECT_TRUE(refused(read_model_config(empty.path()), ErrorCode::kMissing, {"config.json"}));
}

TEST(Config, GenerationConfigCorrectsTheEndTokens) {
  const TempFolder folder;
  folder.put("config.json", base().dump());
  folder.put("generation_config.json", R"({"eos_token_id": 7})");
  const auto result = read_model_config(folder.path());
  ASSERT_TRUE(accepted(result));
  EXPECT_EQ(result.value().eos, (std::vector<std::int64_t>{7}));
}

TEST(Config, ByteOrderMarkIsDropped) {
  const TempFolder folder;
  folder.put("config.json", "\xef\xbb\xbf" + base().dump());
  EXPECT_TRUE(accepted(read_model_config(folder.path())));
}

TEST(Config, WrittenTextIsReadBackEqual) {
  const auto first = read(base());
  ASSERT_TRUE(accepted(first));
  const TempFolder folder;
  const std::string text = model_config_json(first.value(), "bfloat16");
  folder.put("config.json", text);
  const auto second = read_model_config(folder.path());
  ASSERT_TRUE(accepted(second));
  EXPECT_EQ(model_config_json(second.value(), "bfloat16"), text);
  EXPECT_EQ(second.value().head_dim, 24);
  EXPECT_EQ(second.value().eos, first.value().eos);
}

}  // namespace
}  // namespace elastiq
