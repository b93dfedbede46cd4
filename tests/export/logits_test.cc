// The way of a tensor to its end: quantized folder -> package -> C runtime, against a decoder in
// double that shares no code with any of them.

#include <gtest/gtest.h>

#include "tests/support/export_case.h"

namespace elastiq::testing {
namespace {

// In units of the logits' standard deviation. Float rounding alone, 24-bit mantissas through two
// blocks: 1e-6 measured.
constexpr double kFloatBound = 2e-5;
// A value next to a rounding tie of the int8 activations may fall on the other side in double,
// which moves it by 1/127 of the largest activation; what follows in that prompt then differs by
// some hundredths (0.075 measured). Most prompts have no such value.
constexpr double kTieBound = 0.2;
constexpr std::size_t kPrompts = 9;
constexpr std::size_t kPromptTokens = 4;

/// Errors of separate prompts, ascending.
std::vector<double> exported_errors(const ExportCase& c, const ExportOptions& options) {
  std::vector<double> errors;
  const auto manifest = run_export(options);
  EXPECT_TRUE(manifest.ok()) << to_string(manifest.error());
  const auto tokens = hf_prompt(c.model.shape.vocab, kPrompts * kPromptTokens);
  HfReference reference(c.model, c.quantized);
  for (std::size_t i = 0; i < kPrompts; ++i) {
    const auto from = tokens.begin() + static_cast<std::ptrdiff_t>(i * kPromptTokens);
    const std::vector<std::uint32_t> prompt(from, from + kPromptTokens);
    errors.push_back(logit_error(runtime_logits(c.package(), prompt), reference.run(prompt)));
  }
  std::sort(errors.begin(), errors.end());
  return errors;
}

void expect_float_equal(const ExportCase& c, const ExportOptions& options) {
  EXPECT_LT(exported_errors(c, options).back(), kFloatBound);
}

void expect_quantized_equal(const ExportCase& c, const std::string& what) {
  const auto errors = exported_errors(c, c.options());
  EXPECT_LT(errors[kPrompts / 2], kFloatBound) << what;
  EXPECT_LT(errors.back(), kTieBound) << what;
}

std::string all_linear(const std::string& name, const std::string& scheme) {
  return name.find("layers.") != std::string::npos ? scheme : "";
}

TEST(ExportLogits, KeptAtSourceTypeEqualTheFloatModel) {
  for (const HfShape& shape : {hf_t1(), hf_t2(), hf_t3()}) {
    const ExportCase c("logits_keep", shape, [](const std::string&) { return ""; });
    ExportOptions from_hf = c.options();
    from_hf.model = c.root / "hf";
    expect_float_equal(c, from_hf);
    expect_float_equal(c, c.options());
  }
}

// Case 8: 172 and 576 columns leave tails at groups of 32, 64 and 128; per row has none.
TEST(ExportLogits, EverySchemeMatchesTheReferenceWithTailGroups) {
  for (const char* scheme :
       {"seq2-g64-u8-k8", "seq2-g128-f16", "ternary-g32-u8", "seq1-g32-f16-k4", "seq3-g64-u8",
        "seq4-g128-u8-k2", "sym3-g256-f16", "sym4-row-k8", "sym8-row", "sym8-g64-f16"}) {
    const ExportCase c("logits_schemes", hf_t2(),
                       [&](const std::string& name) { return all_linear(name, scheme); });
    expect_quantized_equal(c, scheme);
  }
}

TEST(ExportLogits, BiasesAndQuantizedHeadAndEmbedding) {
  HfShape shape = hf_t2();
  shape.attention_bias = true;
  shape.mlp_bias = true;
  const ExportCase c("logits_bias", shape, [](const std::string& name) {
    return name.find("layers.") == std::string::npos ? "sym8-g64-f16" : "seq4-g32-u8";
  });
  expect_quantized_equal(c, "mixed");
}

TEST(ExportLogits, WidthsOfARealModel) {
  const ExportCase c("logits_t3", hf_t3(), [](const std::string& name) {
    return all_linear(
        name, name.find("down_proj") != std::string::npos ? "seq4-g128-u8-k8" : "seq2-g256-u8-k8");
  });
  expect_quantized_equal(c, "mixed");
}

// Case 1: tied without a head tensor against the same model with the head written out.
TEST(ExportLogits, TiedModelEqualsItsExplicitHead) {
  const ExportCase tied("logits_tied", hf_t1(), [](const std::string&) { return ""; });
  ExportOptions from_hf = tied.options();
  from_hf.model = tied.root / "hf";
  expect_float_equal(tied, from_hf);

  HfModel explicit_head = tied.model;
  explicit_head.tensors["lm_head.weight"] = explicit_head.tensors["model.embed_tokens.weight"];
  write_hf_model(explicit_head, tied.root / "explicit");
  ExportOptions from_explicit = from_hf;
  from_explicit.model = tied.root / "explicit";
  from_explicit.out = tied.root / "out_explicit";
  const auto manifest = run_export(from_explicit);
  ASSERT_TRUE(manifest.ok()) << to_string(manifest.error());

  const auto tokens = hf_prompt(67, 12);
  EXPECT_EQ(runtime_logits(tied.package(), tokens),
            runtime_logits(from_explicit.out / "model.elq", tokens));
  for (const auto& path : {tied.package(), from_explicit.out / "model.elq"}) {
    const auto package = Package::open(path);
    ASSERT_TRUE(package.ok());
    const auto& tensors = package.value().tensors();
    EXPECT_EQ(tensors[0].name, "lm_head.weight");
    ASSERT_NE(tensors[0].record.alias_of, 0u);
    EXPECT_EQ(tensors[tensors[0].record.alias_of - 1].name, "model.embed_tokens.weight");
  }
}

}  // namespace
}  // namespace elastiq::testing
