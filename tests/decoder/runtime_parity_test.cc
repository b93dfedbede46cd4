// A package in the C runtime against the LibTorch decoder on the same dequantized weights.
#include <gtest/gtest.h>

#include <cmath>

#include "export/run_export.h"
#include "model/package_model.h"
#include "quantize/run_quantize.h"
#include "tests/support/decoder_models.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace elastiq::testing {
namespace {

struct Parity {
  double rms = 0;       ///< Root mean square of the logits.
  double emulated = 0;  ///< Largest difference to the decoder with int8 inputs, in units of rms.
  double typical = 0;   ///< Median of it.
  double plain = 0;     ///< Rms difference to the decoder with float inputs, in units of rms.
};

std::vector<float> package_logits(const std::filesystem::path& file,
                                  const std::vector<std::uint32_t>& tokens) {
  PackageModel::Options options;
  options.threads = 2;
  auto model = PackageModel::open(file, options);
  EXPECT_TRUE(accepted(model));
  if (!model.ok()) return {};
  std::vector<float> logits(tokens.size() * model.value().config().vocab);
  EXPECT_TRUE(
      accepted(model.value().eval(tokens, static_cast<std::uint32_t>(tokens.size()), logits)));
  return logits;
}

Parity compare(const torch::Tensor& runtime, const torch::Tensor& emulated,
               const torch::Tensor& plain) {
  Parity parity;
  parity.rms = plain.square().mean().sqrt().item<double>();
  const torch::Tensor difference = (runtime - emulated).abs() / parity.rms;
  parity.emulated = difference.max().item<double>();
  parity.typical = difference.median().item<double>();
  parity.plain = (runtime - plain).square().mean().sqrt().item<double>() / parity.rms;
  return parity;
}

// Quantizes, exports and evaluates a tiny model three ways.
Parity parity_of(const HfShape& shape, const std::string& scheme, const std::string& embed) {
  const torch::NoGradGuard no_gradient;
  const TempFolder folder;
  const HfModel model = hf_model(shape, HfType::kBf16, 11);
  write_hf_model(model, folder / "float");
  QuantizeOptions quantize;
  quantize.model = folder / "float";
  quantize.out = folder / "ptq";
  quantize.scheme = scheme;
  quantize.rules = {{"embed", {"embed"}, "", "", embed}};
  EXPECT_TRUE(accepted(run_quantize(quantize)));
  ExportOptions options;
  options.model = folder / "ptq";
  options.out = folder / "out";
  EXPECT_TRUE(accepted(run_export(options)));
  const auto checkpoint = read_quantized_checkpoint(folder / "ptq");
  EXPECT_TRUE(accepted(checkpoint));
  if (!checkpoint.ok()) return {};
  const auto weights = load_weights(checkpoint.value());
  EXPECT_TRUE(accepted(weights));
  if (!weights.ok()) return {};

  const std::vector<std::uint32_t> tokens = some_tokens(shape.vocab, 24);
  const ModelConfig config = decoder_config(model);
  const Decoder rounded(config, MatmulType::kF32, int8_inputs(checkpoint.value()));
  const Decoder plain(config, MatmulType::kF32);
  std::vector<float> runtime = package_logits(folder / "out" / "model.elq", tokens);
  if (runtime.empty()) return {};
  const torch::Tensor ids = id_tensor(tokens);
  return compare(torch::tensor(runtime).view({24, shape.vocab}),
                 rounded.forward(weights.value(), ids, nullptr)[0],
                 plain.forward(weights.value(), ids, nullptr)[0]);
}

// With int8 inputs emulated, both sides do the same arithmetic up to float32 rounding (1e-6). Now
// and then that rounding moves an activation across a tie, and one input of one product changes by
// a 127th of the token's largest: against sqrt(48) and more inputs of that size this moves what
// follows by less than 0.5 %. So nearly all logits agree to 1e-4, and none differs by more than 2
// %.
void expect_emulated(const Parity& parity) {
  EXPECT_LT(parity.typical, 1e-4);
  EXPECT_LT(parity.emulated, 0.02);
}

// Without emulation each input carries an error of variance (amax / 127)^2 / 12. A normal vector of
// some 100 entries has amax near 2.8 sigma (5 sigma at most), so a product errs by
// 2.8 / 127 / sqrt(12) = 0.64 % (1.1 %) of its size. Seven products per layer and two layers add up
// as a random walk: sqrt(15) * 1.1 % = 4.4 % bounds it, and less than 0.1 % would mean that the
// runtime does not round its activations.
void expect_plain(const Parity& parity) {
  EXPECT_LT(parity.plain, 0.044);
  EXPECT_GT(parity.plain, 0.001);
}

TEST(RuntimeParity, FourBitsWithKeptColumnsOfATiedModel) {
  const Parity parity = parity_of(hf_t1(), "seq4-g32-u8-k4", "sym8-row");
  expect_emulated(parity);
  expect_plain(parity);
}

TEST(RuntimeParity, TwoBitsOfAnUntiedModelWithFloatTables) {
  const Parity parity = parity_of(hf_t2(), "seq2-g64-u8-k8", "keep");
  expect_emulated(parity);
  expect_plain(parity);
}

TEST(RuntimeParity, TernaryWithHalfScales) {
  const Parity parity = parity_of(hf_t2(), "ternary-g64-f16", "sym4-g32-f16");
  expect_emulated(parity);
  expect_plain(parity);
}

// The norm between two products hides the scale of the kept columns' share; biases and odd heads
// are covered here on the way.
TEST(RuntimeParity, ThreeBitsWithBiases) {
  HfShape shape = hf_t1();
  shape.attention_bias = true;
  shape.mlp_bias = true;
  const Parity parity = parity_of(shape, "sym3-row", "keep");
  expect_emulated(parity);
  expect_plain(parity);
}

// Nothing packed: the C runtime multiplies float activations with bf16 weights.
TEST(RuntimeParity, AFloatPackageAgreesToFloatRounding) {
  const torch::NoGradGuard no_gradient;
  const TempFolder folder;
  const HfModel model = hf_model(hf_t2(), HfType::kBf16, 12);
  write_hf_model(model, folder / "float");
  ExportOptions options;
  options.model = folder / "float";
  options.out = folder / "out";
  ASSERT_TRUE(accepted(run_export(options)));
  const std::vector<std::uint32_t> tokens = some_tokens(model.shape.vocab, 24);
  const std::vector<float> runtime = package_logits(folder / "out" / "model.elq", tokens);
  ASSERT_FALSE(runtime.empty());
  const Decoder decoder(decoder_config(model), MatmulType::kF32);
  const torch::Tensor expected =
      decoder.forward(decoder_weights(model), id_tensor(tokens), nullptr)[0];
  const torch::Tensor found = torch::tensor(runtime).view({24, model.shape.vocab});
  EXPECT_LT((found - expected).abs().max().item<double>(), 1e-4);
}

}  // namespace
}  // namespace elastiq::testing
