#include "model/tensor_roles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "core/float_bits.h"
#include "model/value_scan.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace elastiq {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

/// A model folder with its opened checkpoint and config.
struct Case {
  explicit Case(const HfModel& model) {
    write_hf_model(model, folder.path());
    auto opened = Checkpoint::open(folder.path());
    EXPECT_TRUE(accepted(opened));
    if (opened.ok()) checkpoint = std::move(opened).value();
    auto read = read_model_config(folder.path());
    EXPECT_TRUE(accepted(read));
    if (read.ok()) config = read.value();
  }

  Result<ModelTensors> roles() const { return assign_roles(checkpoint, config); }

  TempFolder folder;
  Checkpoint checkpoint;
  ModelConfig config;
};

HfModel t1() {
  return hf_model(hf_t1(), HfType::kBf16, 7);
}

HfModel t2() {
  return hf_model(hf_t2(), HfType::kBf16, 7);
}

const char* const kQ0 = "model.layers.0.self_attn.q_proj.weight";

TEST(TensorRoles, OrderIsEmbeddingBlocksNormHead) {
  const Case c(t2());
  const auto result = c.roles();
  ASSERT_TRUE(accepted(result));
  const auto& tensors = result.value().tensors;
  ASSERT_EQ(tensors.size(), 1u + 2 * 9 + 2);
  EXPECT_EQ(tensors.front().name, "model.embed_tokens.weight");
  EXPECT_EQ(tensors[1].name, "model.layers.0.input_layernorm.weight");
  EXPECT_EQ(tensors[2].name, kQ0);
  EXPECT_EQ(tensors[2].role, static_cast<std::uint32_t>(ELQ_ROLE_Q));
  EXPECT_EQ(tensors[2].layer, 0);
  EXPECT_TRUE(tensors[2].is_matrix());
  EXPECT_FALSE(tensors[1].is_matrix());
  EXPECT_EQ(tensors[9].name, "model.layers.0.mlp.down_proj.weight");
  EXPECT_EQ(tensors[10].layer, 1);
  EXPECT_EQ(tensors[19].name, "model.norm.weight");
  EXPECT_EQ(tensors[20].name, "lm_head.weight");
  EXPECT_FALSE(result.value().tied);
  EXPECT_TRUE(result.value().stripped.empty());
}

TEST(TensorRoles, BiasesFollowTheirMatrices) {
  HfShape shape = hf_t1();
  shape.attention_bias = shape.mlp_bias = true;
  const Case c(hf_model(shape, HfType::kF32, 7));
  const auto result = c.roles();
  ASSERT_TRUE(accepted(result));
  const auto& tensors = result.value().tensors;
  ASSERT_EQ(tensors.size(), 1u + 2 * 16 + 1);
  EXPECT_EQ(tensors[3].name, "model.layers.0.self_attn.q_proj.bias");
  EXPECT_EQ(tensors[3].role, static_cast<std::uint32_t>(ELQ_ROLE_Q | ELQ_ROLE_BIAS));
  EXPECT_FALSE(tensors[3].is_matrix());
}

TEST(TensorRoles, BiasesMustAgreeWithTheConfig) {
  HfModel model = t1();
  model.tensors["model.layers.1.mlp.up_proj.bias"] = {{80}, std::vector<float>(80, 0.0F)};
  EXPECT_TRUE(refused(Case(model).roles(), ErrorCode::kInconsistent, {"up_proj.bias", "mlp_bias"}));

  HfShape shape = hf_t1();
  shape.attention_bias = true;
  HfModel biased = hf_model(shape, HfType::kBf16, 7);
  biased.tensors.erase("model.layers.1.self_attn.o_proj.bias");
  EXPECT_TRUE(
      refused(Case(biased).roles(), ErrorCode::kMissing, {"model.layers.1.self_attn.o_proj.bias"}));
}

// cases.md 1
TEST(TensorRoles, TiedModelWithoutHeadTensorLoads) {
  const auto result = Case(t1()).roles();
  ASSERT_TRUE(accepted(result));
  EXPECT_TRUE(result.value().tied);
  EXPECT_EQ(result.value().tensors.back().name, "model.norm.weight");
}

TEST(TensorRoles, MissingHeadWithUnstatedTieNamesTensorAndFlag) {
  HfModel model = t1();
  model.shape.tied = HfTied::kUnstated;
  EXPECT_TRUE(refused(Case(model).roles(), ErrorCode::kMissing,
                      {"lm_head.weight", "tie_word_embeddings", "not stated"}));
}

TEST(TensorRoles, IdenticalHeadIsTiedWhateverTheFlagSays) {
  HfModel model = t2();
  model.tensors["lm_head.weight"] = model.tensors["model.embed_tokens.weight"];
  const auto result = Case(model).roles();
  ASSERT_TRUE(accepted(result));
  EXPECT_TRUE(result.value().tied);
  ASSERT_EQ(result.value().stripped.size(), 1u);
  EXPECT_EQ(result.value().stripped[0].name, "lm_head.weight");
  EXPECT_EQ(result.value().stripped[0].bytes, 512u * 64 * 2);
}

TEST(TensorRoles, DifferentHeadOfATiedModelIsRefused) {
  HfModel model = t2();
  model.shape.tied = HfTied::kYes;
  EXPECT_TRUE(refused(Case(model).roles(), ErrorCode::kInconsistent,
                      {"lm_head.weight", "tie_word_embeddings", "true"}));
}

// cases.md 3
TEST(TensorRoles, EmptyAndSingleValuesAreListedNotQuantized) {
  HfModel model = t1();
  model.tensors["extra.empty"] = {{0}, {}};
  model.tensors["extra.flat"] = {{3, 0}, {}};
  model.tensors["extra.value"] = {{}, {1.0F}};
  const Case c(model);
  const auto result = c.roles();
  ASSERT_TRUE(accepted(result));
  ASSERT_EQ(result.value().stripped.size(), 3u);
  EXPECT_EQ(result.value().stripped[0].reason, "empty tensor");
  EXPECT_EQ(result.value().stripped[1].reason, "empty tensor");
  EXPECT_EQ(result.value().stripped[2].name, "extra.value");
  EXPECT_EQ(result.value().stripped[2].bytes, 2u);
  EXPECT_EQ(result.value().tensors.size(), 1u + 2 * 9 + 1);
}

// cases.md 6
TEST(TensorRoles, NanAndInfinityAreFoundWithPositionAndCount) {
  HfModel nan = t1();
  nan.tensors[kQ0].values[3 * 48 + 17] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(
      refused(Case(nan).roles(), ErrorCode::kNonFinite, {kQ0, "[3, 17]", "1 of 2304 values"}));

  HfModel infinite = t1();
  auto& norm = infinite.tensors["model.layers.1.post_attention_layernorm.weight"].values;
  norm[5] = norm[40] = -std::numeric_limits<float>::infinity();
  EXPECT_TRUE(refused(Case(infinite).roles(), ErrorCode::kNonFinite,
                      {"layers.1.post_attention_layernorm", "[5]", "2 of 48"}));

  HfModel embedding = t1();
  embedding.tensors["model.embed_tokens.weight"].values[66 * 48 + 47] = std::nanf("");
  EXPECT_TRUE(refused(Case(embedding).roles(), ErrorCode::kNonFinite, {"[66, 47]"}));
}

// cases.md 4
TEST(TensorRoles, SubnormalWeightsAreCountedInAWarning) {
  EXPECT_TRUE(Case(t2()).roles().value().warnings.empty());
  HfModel model = t2();
  model.tensors[kQ0].values[7] = 0x1p-133F;
  model.tensors["model.norm.weight"].values[3] = -0x1p-130F;
  model.tensors["model.norm.weight"].values[4] = 0.0F;
  EXPECT_EQ(Case(model).roles().value().warnings,
            std::vector<std::string>{"2 subnormal values in 2 tensors, first in " +
                                     std::string(kQ0) + "; kept as they are"});
}

// cases.md 28: missing KV heads mean as many as heads, and then k and v do not fit.
TEST(TensorRoles, WrongShapeNamesFoundAndExpected) {
  Case c(t2());
  c.config.kv_heads = 4;
  EXPECT_TRUE(refused(c.roles(), ErrorCode::kInconsistent, {"k_proj", "[48, 64]", "[96, 64]"}));
}

// cases.md 30
TEST(TensorRoles, NamesWithoutThePrefixAreTheSameModel) {
  HfModel model = t1();
  HfModel bare = model;
  bare.tensors.clear();
  for (const auto& [name, tensor] : model.tensors) bare.tensors[name.substr(6)] = tensor;
  const Case c(bare);
  const auto result = c.roles();
  ASSERT_TRUE(accepted(result));
  EXPECT_EQ(result.value().tensors.front().name, "embed_tokens.weight");
  EXPECT_EQ(result.value().tensors.size(), 20u);

  bare.tensors["model.norm.weight"] = model.tensors["model.norm.weight"];
  EXPECT_TRUE(refused(Case(bare).roles(), ErrorCode::kDuplicate, {"norm.weight"}));
}

TEST(TensorRoles, InverseFrequenciesAreStripped) {
  HfModel model = t1();
  model.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {{8},
                                                                   std::vector<float>(8, 0.5F)};
  const auto result = Case(model).roles();
  ASSERT_TRUE(accepted(result));
  ASSERT_EQ(result.value().stripped.size(), 1u);
  EXPECT_EQ(result.value().stripped[0].reason, "rotary inverse frequencies");
  EXPECT_EQ(result.value().stripped[0].bytes, 16u);
}

TEST(TensorRoles, LeftoversAreRefusedWithAReason) {
  const std::pair<const char*, const char*> cases[] = {
      {"model.layers.0.self_attn.qkv_proj.weight", "fused"},
      {"model.layers.0.mlp.gate_up_proj.weight", "fused"},
      {"model.layers.0.self_attn.q_proj.lora_A.weight", "adapter"},
      {"model.layers.0.self_attn.q_proj.weight_scale", "already quantized"},
      {"model.layers.0.self_attn.q_proj.qweight", "already quantized"},
      {"model.layers.0.self_attn.k_norm.weight", "no tensor of a Llama decoder"},
      {"model.layers.00.mlp.up_proj.weight", "no tensor of a Llama decoder"},
  };
  for (const auto& [name, reason] : cases) {
    HfModel model = t1();
    model.tensors[name] = {{4}, {1, 2, 3, 4}};
    EXPECT_TRUE(refused(Case(model).roles(), ErrorCode::kUnsupportedType, {name, reason}));
  }
}

TEST(TensorRoles, MissingTensorAndExtraLayerAreNamed) {
  HfModel model = t1();
  model.tensors.erase("model.layers.1.mlp.down_proj.weight");
  EXPECT_TRUE(
      refused(Case(model).roles(), ErrorCode::kMissing, {"model.layers.1.mlp.down_proj.weight"}));
  HfModel extra = t1();
  extra.tensors["model.layers.2.input_layernorm.weight"] = {{48}, std::vector<float>(48, 1.0F)};
  EXPECT_TRUE(refused(Case(extra).roles(), ErrorCode::kInconsistent, {"layers.2", "2 layers"}));
}

TEST(TensorRoles, NamesAndKeysOfRoles) {
  EXPECT_STREQ(role_name(ELQ_ROLE_Q), "attn.q");
  EXPECT_STREQ(role_name(ELQ_ROLE_DOWN), "mlp.down");
  EXPECT_STREQ(role_name(ELQ_ROLE_MLP_NORM), "norm");
  EXPECT_STREQ(role_name(ELQ_ROLE_O | ELQ_ROLE_BIAS), "bias");
  EXPECT_EQ(input_key(ELQ_ROLE_V, 3), "layers.3.attn_in");
  EXPECT_EQ(input_key(ELQ_ROLE_O, 3), "layers.3.attn_out");
  EXPECT_EQ(input_key(ELQ_ROLE_UP, 0), "layers.0.mlp_in");
  EXPECT_EQ(input_key(ELQ_ROLE_DOWN, 11), "layers.11.mlp_out");
  EXPECT_EQ(input_key(ELQ_ROLE_EMBED, -1), "head_in");
  EXPECT_EQ(tensor_name(ELQ_ROLE_HEAD, -1), "lm_head.weight");
  EXPECT_EQ(tensor_name(ELQ_ROLE_Q, 3), "model.layers.3.self_attn.q_proj.weight");
  EXPECT_EQ(tensor_name(ELQ_ROLE_GATE | ELQ_ROLE_BIAS, 0), "model.layers.0.mlp.gate_proj.bias");
}

// All 65,536 patterns of both half types, against the widened value.
TEST(ValueScan, AgreesWithIsfiniteOnEveryHalf) {
  for (const DType type : {DType::kBf16, DType::kF16}) {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const auto half = static_cast<std::uint16_t>(bits);
      const float value = type == DType::kBf16 ? bf16_to_f32(half) : f16_to_f32(half);
      const auto found = scan_values(type, std::as_bytes(std::span(&half, 1)));
      ASSERT_EQ(found.non_finite, std::isfinite(value) ? 0u : 1u) << bits;
      const float least = type == DType::kBf16 ? 0x1p-126F : 0x1p-14F;
      const bool subnormal = value != 0 && std::fabs(value) < least;
      ASSERT_EQ(found.subnormal, subnormal ? 1u : 0u) << bits;
    }
  }
}

TEST(ValueScan, FirstPositionAcrossBlocks) {
  std::vector<float> values(5000, 1.0F);
  EXPECT_EQ(scan_values(DType::kF32, std::as_bytes(std::span(values))).non_finite, 0u);
  values[4999] = values[1025] = std::numeric_limits<float>::infinity();
  const auto found = scan_values(DType::kF32, std::as_bytes(std::span(values)));
  EXPECT_EQ(found.non_finite, 2u);
  EXPECT_EQ(found.first_non_finite, 1025u);
}

TEST(ValueScan, CountsSubnormalsAcrossBlocks) {
  std::vector<float> values(5000, 0.0F);
  values[0] = values[1024] = values[4999] = -1e-40F;
  const auto found = scan_values(DType::kF32, std::as_bytes(std::span(values)));
  EXPECT_EQ(found.subnormal, 3u);
  EXPECT_EQ(found.non_finite, 0u);
  const std::vector<std::uint16_t> all(5000, 0x0001);
  EXPECT_EQ(scan_values(DType::kBf16, std::as_bytes(std::span(all))).subnormal, 5000u);
}

}  // namespace
}  // namespace elastiq
