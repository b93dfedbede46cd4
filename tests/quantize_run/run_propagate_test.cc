#include "quantize/run_propagate.h"

#include <gtest/gtest.h>

#include "core/rng.h"
#include "formats/safetensors.h"
#include "quantize/run_blocks.h"
#include "tests/support/tiny_model.h"

namespace elastiq {
namespace {

struct Loaded {
  ModelConfig config;
  Weights weights;
};

Loaded load(const testing::HfShape& shape, std::uint64_t seed) {
  const std::filesystem::path folder = testing::hf_test_folder("propagate" + std::to_string(seed));
  testing::write_hf_model(testing::hf_model(shape, testing::HfType::kF32, seed), folder);
  Loaded result;
  auto config = read_model_config(folder);
  auto checkpoint = Checkpoint::open(folder);
  auto tensors = assign_roles(checkpoint.value(), config.value());
  result.config = config.value();
  result.weights = load_weights(tensors.value()).value();
  std::filesystem::remove_all(folder);
  return result;
}

Windows random_windows(std::int64_t vocab, std::size_t count, std::size_t length) {
  Rng rng(11);
  Windows windows;
  for (std::size_t w = 0; w < count; ++w) {
    windows.tokens.emplace_back();
    for (std::size_t t = 0; t < length; ++t) {
      windows.tokens.back().push_back(
          static_cast<std::uint32_t>(rng.below(static_cast<std::uint64_t>(vocab))));
    }
  }
  return windows;
}

torch::Tensor ids_of(const Windows& windows) {
  std::vector<std::int64_t> flat;
  for (const auto& window : windows.tokens) flat.insert(flat.end(), window.begin(), window.end());
  return torch::tensor(flat).view({static_cast<std::int64_t>(windows.tokens.size()), -1});
}

/// Inputs of all linear groups from one plain forward pass.
std::map<std::string, torch::Tensor> tapped(const Decoder& decoder, const Weights& weights,
                                            const Windows& windows) {
  std::map<std::string, torch::Tensor> inputs;
  decoder.forward(weights, ids_of(windows), [&](const std::string& key, const torch::Tensor& x) {
    inputs[key] = x.to(torch::kFloat64);
  });
  return inputs;
}

void expect_moment(const std::vector<double>& found, const torch::Tensor& x, const char* what) {
  const torch::Tensor expected = torch::mm(x.t(), x) / static_cast<double>(x.size(0));
  const torch::Tensor moment =
      torch::from_blob(const_cast<double*>(found.data()), expected.sizes(), torch::kFloat64);
  EXPECT_LT((moment - expected).abs().max().item<double>(),
            1e-5 * expected.abs().max().item<double>())
      << what;
}

// 80 windows of 40 tokens make two batches. Stage by stage the moments are those of the inputs that
// a plain forward pass shows; the drift is that of the two models.
TEST(Propagation, MomentsAreThoseOfAPlainForwardPass) {
  const Loaded original = load(testing::hf_t2(), 1);
  const Weights other = load(testing::hf_t2(), 2).weights;
  const Decoder decoder(original.config, MatmulType::kF32);
  const Windows windows = random_windows(original.config.vocab, 80, 40);
  const auto inputs = tapped(decoder, other, windows);
  const auto float_inputs = tapped(decoder, original.weights, windows);

  Propagation propagation(decoder, windows, Propagation::Drift::kMeasure);
  EXPECT_EQ(propagation.tokens(), 3200u);
  propagation.start(other, original.weights);
  const char* names[] = {"attn_in", "attn_out", "mlp_in", "mlp_out"};
  for (std::int64_t layer = 0; layer < original.config.layers; ++layer) {
    for (int stage = 0; stage < 4; ++stage) {
      const auto moments =
          propagation.advance(other, original.weights, layer, static_cast<BlockInput>(stage));
      ASSERT_TRUE(moments.ok());
      const std::string key = "layers." + std::to_string(layer) + "." + names[stage];
      const torch::Tensor& x = inputs.at(key);
      expect_moment(moments.value().second_moment, x, key.c_str());
      const torch::Tensor drift = torch::mm((float_inputs.at(key) - x).t(), x) / 3200.0;
      EXPECT_LT((moments.value().input_drift - drift).abs().max().item<double>(),
                1e-5 * drift.abs().max().item<double>())
          << key;
      EXPECT_EQ(moments.value().residual_drift.defined(), stage % 2 == 1) << key;
    }
    propagation.finish_block(other, original.weights, layer);
  }
  const auto moments = propagation.final_input(other, original.weights);
  ASSERT_TRUE(moments.ok());
  expect_moment(moments.value().second_moment, inputs.at("head_in"), "head_in");
}

// The float model against itself has no drift, so the share of its correction changes nothing: the
// first block of a model whose embedding is not quantized.
TEST(Propagation, TheSameModelHasNoDrift) {
  const Loaded model = load(testing::hf_t1(), 3);
  const Decoder decoder(model.config, MatmulType::kF32);
  Propagation propagation(decoder, random_windows(model.config.vocab, 4, 16),
                          Propagation::Drift::kMeasure);
  propagation.start(model.weights, model.weights);
  const auto moments = propagation.advance(model.weights, model.weights, 0, BlockInput::kAttnIn);
  ASSERT_TRUE(moments.ok());
  EXPECT_EQ(moments.value().input_drift.abs().max().item<double>(), 0.0);
}

TEST(Propagation, NonFiniteStatesAreAnError) {
  Loaded model = load(testing::hf_t1(), 4);
  model.weights["model.layers.0.self_attn.o_proj.weight"] =
      torch::full({48, 48}, std::numeric_limits<float>::infinity());
  const Decoder decoder(model.config, MatmulType::kF32);
  Propagation propagation(decoder, random_windows(model.config.vocab, 2, 8),
                          Propagation::Drift::kIgnore);
  propagation.start(model.weights, model.weights);
  for (const BlockInput stage : {BlockInput::kAttnIn, BlockInput::kAttnOut}) {
    ASSERT_TRUE(propagation.advance(model.weights, model.weights, 0, stage).ok());
  }
  const auto moments = propagation.advance(model.weights, model.weights, 0, BlockInput::kMlpIn);
  ASSERT_FALSE(moments.ok());
  EXPECT_EQ(moments.error().code, ErrorCode::kNonFinite);
}

}  // namespace
}  // namespace elastiq
