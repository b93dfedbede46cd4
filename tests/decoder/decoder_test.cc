// The LibTorch decoder against a double-precision reference that shares no code with it.
#include "model/decoder.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/decoder_models.h"
#include "tests/support/expect_error.h"
#include "tests/support/reference_forward.h"

namespace elastiq::testing {
namespace {

struct Distance {
  double largest = 0;
  double rms = 0;  ///< Of the difference, relative to the rms of the reference.
};

Distance distance(const torch::Tensor& logits, const std::vector<ReferenceForward::Row>& expected) {
  const torch::Tensor flat = logits.reshape({-1, logits.size(-1)}).contiguous();
  Distance result;
  double square = 0;
  double reference = 0;
  for (std::size_t t = 0; t < expected.size(); ++t) {
    const float* row = flat[static_cast<std::int64_t>(t)].data_ptr<float>();
    for (std::size_t i = 0; i < expected[t].size(); ++i) {
      const double difference = static_cast<double>(row[i]) - expected[t][i];
      result.largest = std::max(result.largest, std::fabs(difference));
      square += difference * difference;
      reference += expected[t][i] * expected[t][i];
    }
  }
  result.rms = std::sqrt(square / reference);
  return result;
}

Distance distance_of(const HfModel& model, MatmulType type, std::size_t length) {
  const torch::NoGradGuard no_gradient;
  const std::vector<std::uint32_t> tokens = some_tokens(model.shape.vocab, length);
  const Decoder decoder(decoder_config(model), type);
  const torch::Tensor logits = decoder.forward(decoder_weights(model), id_tensor(tokens), nullptr);
  return distance(logits, ReferenceForward(model).run(tokens));
}

HfModel with_biases(HfShape shape) {
  shape.attention_bias = true;
  shape.mlp_bias = true;
  return hf_model(shape, HfType::kBf16, 5);
}

// Logits are of size 1 to 10. A float32 sum of 1536 products errs by sqrt(1536) x 2^-24 = 2.3e-6 of
// its size on average when it is added one by one, and about ten such sums follow each other; the
// order of adding is the BLAS kernel's, so it differs between CPUs (3e-5 and 5.3e-5 were seen).
// Four times that for the largest of all logits. A wrong formula errs by 1e-2 and more.
constexpr double kFloatBound = 2e-4;

TEST(Decoder, OddHeadsWithOneKvHeadMatchTheReference) {
  const HfModel model = hf_model(hf_t1(), HfType::kBf16, 1);
  EXPECT_LT(distance_of(model, MatmulType::kF32, 33).largest, kFloatBound);
}

TEST(Decoder, ExplicitHeadSizeAndOwnHeadMatchTheReference) {
  const HfModel model = hf_model(hf_t2(), HfType::kBf16, 2);
  EXPECT_LT(distance_of(model, MatmulType::kF32, 33).largest, kFloatBound);
}

TEST(Decoder, WidthsOfA135MModelMatchTheReference) {
  const HfModel model = hf_model(hf_t3(), HfType::kBf16, 3);
  EXPECT_LT(distance_of(model, MatmulType::kF32, 5).largest, kFloatBound);
}

TEST(Decoder, BiasesMatchTheReference) {
  EXPECT_LT(distance_of(with_biases(hf_t1()), MatmulType::kF32, 17).largest, kFloatBound);
  EXPECT_LT(distance_of(with_biases(hf_t2()), MatmulType::kF32, 17).largest, kFloatBound);
}

TEST(Decoder, OtherRopeBaseAndEpsMatchTheReference) {
  HfModel model = hf_model(hf_t2(), HfType::kF32, 4);
  model.rope_theta = 1e6;
  model.rms_eps = 1e-3;
  EXPECT_LT(distance_of(model, MatmulType::kF32, 33).largest, kFloatBound);
}

// A bf16 operand errs by at most 2^-9; some ten products follow each other on the way to a logit,
// so their common effect stays within a few per cent. Below 1e-4 it would not be bf16 at all.
TEST(Decoder, Bf16ProductsStayNearTheReferenceAndAreBf16) {
  const Distance d = distance_of(with_biases(hf_t2()), MatmulType::kBf16, 33);
  EXPECT_LT(d.rms, 0.03);
  EXPECT_GT(d.rms, 1e-4);
}

TEST(Decoder, ASequenceDoesNotSeeItsNeighboursInTheBatchNorItsFuture) {
  const torch::NoGradGuard no_gradient;
  const HfModel model = hf_model(hf_t1(), HfType::kF32, 6);
  const Weights weights = decoder_weights(model);
  const Decoder decoder(decoder_config(model), MatmulType::kF32);
  const torch::Tensor a = id_tensor(some_tokens(model.shape.vocab, 12));
  const torch::Tensor b = (a + 1).remainder(model.shape.vocab);
  const torch::Tensor both = decoder.forward(weights, torch::cat({a, b}), nullptr);
  const torch::Tensor prefix = decoder.forward(weights, a.slice(1, 0, 7), nullptr);
  EXPECT_LT((both[0].slice(0, 0, 7) - prefix[0]).abs().max().item<float>(), 1e-5F);
  EXPECT_GT((both[0] - both[1]).abs().max().item<float>(), 0.1F);
}

TEST(Decoder, TapsShowTheInputsOfTheReference) {
  const torch::NoGradGuard no_gradient;
  const HfModel model = hf_model(hf_t2(), HfType::kBf16, 7);
  const std::vector<std::uint32_t> tokens = some_tokens(model.shape.vocab, 9);
  std::map<std::string, torch::Tensor> seen;
  const Tap tap = [&](const std::string& key, const torch::Tensor& x) {
    EXPECT_FALSE(seen.contains(key)) << key;
    seen[key] = x.clone();
  };
  Decoder(decoder_config(model), MatmulType::kF32)
      .forward(decoder_weights(model), id_tensor(tokens), tap);
  ReferenceForward reference(model);
  reference.run(tokens);
  ASSERT_EQ(seen.size(), 9u);  // Four per layer and the head's.
  const std::map<std::string, std::int64_t> columns = {{"layers.0.attn_in", 64},
                                                       {"layers.0.attn_out", 96},
                                                       {"layers.1.mlp_in", 64},
                                                       {"layers.1.mlp_out", 172},
                                                       {"head_in", 64}};
  for (const auto& [key, width] : columns) {
    ASSERT_TRUE(seen.contains(key)) << key;
    EXPECT_EQ(seen[key].sizes(), (std::vector<std::int64_t>{9, width})) << key;
  }
  for (const auto& [key, rows] : reference.inputs) {
    EXPECT_LT(distance(seen[key], rows).largest, kFloatBound) << key;
  }
}

TEST(Decoder, GradientsReachEveryWeight) {
  const HfModel model = with_biases(hf_t1());
  Weights weights = decoder_weights(model);
  for (auto& [name, tensor] : weights) tensor.requires_grad_();
  const Decoder decoder(decoder_config(model), MatmulType::kBf16);
  const torch::Tensor ids = id_tensor(some_tokens(model.shape.vocab, 8));
  decoder.forward(weights, ids, nullptr).square().sum().backward();
  for (const auto& [name, tensor] : weights) {
    ASSERT_TRUE(tensor.grad().defined()) << name;
    EXPECT_EQ(tensor.grad().dtype(), torch::kFloat32) << name;
    // A key bias shifts all scores of a query by the same amount: its gradient is rounding only.
    if (name.find("k_proj.bias") != std::string::npos) continue;
    EXPECT_GT(tensor.grad().abs().max().item<float>(), 0.0F) << name;
  }
}

TEST(CheckWeights, NamesTheMissingTensorAndTheWrongShape) {
  const HfModel model = hf_model(hf_t1(), HfType::kF32, 1);
  const ModelConfig config = decoder_config(model);
  Weights weights = decoder_weights(model);
  EXPECT_TRUE(accepted(check_weights(config, weights, "m")));
  weights.erase("model.layers.1.mlp.up_proj.weight");
  EXPECT_TRUE(refused(check_weights(config, weights, "m"), ErrorCode::kMissing,
                      {"model.layers.1.mlp.up_proj.weight"}));
  weights = decoder_weights(model);
  weights["model.norm.weight"] = torch::ones({47});
  EXPECT_TRUE(refused(check_weights(config, weights, "m"), ErrorCode::kInconsistent,
                      {"model.norm.weight", "[47]", "[48]"}));
}

// The largest magnitude outside the kept column 2 is 127, so the scale is 1 and ties are
// exact: 63.5 and 1.5 go up to the even code, 2.5 down.
TEST(RoundActivations, FollowsTheKernelsRuleByHand) {
  const torch::Tensor x =
      torch::tensor({63.5F, -127.0F, 1000.3F, 1.5F, 2.5F, -0.6F, 0.0F}).unsqueeze(0);
  const std::vector<std::uint16_t> kept = {2};
  const torch::Tensor expected =
      torch::tensor({64.0F, -127.0F, 1000.3F, 2.0F, 2.0F, -1.0F, 0.0F}).unsqueeze(0);
  EXPECT_TRUE(torch::equal(round_activations(x, kept), expected));
  EXPECT_TRUE(torch::equal(round_activations(torch::zeros({2, 4}), {}), torch::zeros({2, 4})));
}

TEST(RoundActivations, PassesTheGradientAndKeepsTheValue) {
  torch::Tensor x = torch::tensor({0.3F, -0.7F, 0.11F}).unsqueeze(0);
  const torch::Tensor plain = round_activations(x, {});
  x.requires_grad_();
  const torch::Tensor y = round_activations(x, {});
  EXPECT_TRUE(torch::equal(y.detach(), plain));
  (y * torch::tensor({1.0F, 2.0F, 3.0F})).sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), torch::tensor({1.0F, 2.0F, 3.0F}).unsqueeze(0)));
}

}  // namespace
}  // namespace elastiq::testing
