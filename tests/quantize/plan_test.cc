#include "quantize/plan.h"

#include <gtest/gtest.h>

#include "quantize/plan_rules.h"

namespace elastiq {
namespace {

std::vector<PlanInput> four_blocks() {
  std::vector<PlanInput> tensors = {{"model.embed_tokens.weight", "embed", -1, 512, 64, 65536}};
  for (std::int64_t layer = 0; layer < 4; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    tensors.push_back({prefix + "self_attn.q_proj.weight", "attn.q", layer, 64, 64, 8192});
    tensors.push_back({prefix + "self_attn.v_proj.weight", "attn.v", layer, 32, 64, 4096});
    tensors.push_back({prefix + "mlp.down_proj.weight", "mlp.down", layer, 64, 172, 22016});
  }
  return tensors;
}

QuantRule rule(const char* id, std::vector<std::string> roles, const char* name, const char* layers,
               const char* scheme) {
  return {id, std::move(roles), name, layers, scheme};
}

std::string scheme_at(const std::vector<PlanEntry>& plan, const std::string& name) {
  for (const PlanEntry& entry : plan) {
    if (entry.tensor.name == name)
      return (entry.scheme ? scheme_name(*entry.scheme) : "keep") + " " + entry.rule;
  }
  return "absent";
}

TEST(Plan, DefaultCoversTheBlocksAndKeepsTheEmbedding) {
  const auto plan = make_plan(four_blocks(), "seq2-g64-u8-k8", {});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan.value().size(), 13u);
  EXPECT_EQ(scheme_at(plan.value(), "model.embed_tokens.weight"), "keep default");
  EXPECT_EQ(scheme_at(plan.value(), "model.layers.2.mlp.down_proj.weight"),
            "seq2-g64-u8-k8 default");
}

TEST(Plan, LastMatchingRuleWins) {
  const auto plan = make_plan(
      four_blocks(), "seq2-g64-u8",
      {rule("v", {"attn.*"}, "", "", "seq4-g64-u8"), rule("ends", {}, "", "0,-1", "seq3-g64-u8"),
       rule("e", {"embed"}, "", "", "sym4-g64-u8"),
       rule("down2", {}, "*.2.mlp.down*", "", "keep")});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(scheme_at(plan.value(), "model.embed_tokens.weight"), "sym4-g64-u8 e");
  EXPECT_EQ(scheme_at(plan.value(), "model.layers.0.self_attn.v_proj.weight"), "seq3-g64-u8 ends");
  EXPECT_EQ(scheme_at(plan.value(), "model.layers.1.self_attn.v_proj.weight"), "seq4-g64-u8 v");
  EXPECT_EQ(scheme_at(plan.value(), "model.layers.3.mlp.down_proj.weight"), "seq3-g64-u8 ends");
  EXPECT_EQ(scheme_at(plan.value(), "model.layers.2.mlp.down_proj.weight"), "keep down2");
  EXPECT_EQ(scheme_at(plan.value(), "model.layers.1.mlp.down_proj.weight"), "seq2-g64-u8 default");
}

// 64 x 64 at 2 bits: 1024 bytes of codes in 4 panels; per panel one row-scale line of 64 bytes and
// one scale line of 64 bytes.
TEST(Plan, BytesAreThePackedOnes) {
  const auto plan = make_plan(four_blocks(), "seq2-g64-u8", {});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan.value()[1].bytes, 1024u + 4u * 128u);
  EXPECT_EQ(plan.value()[0].bytes, 65536u);
  const Json json = plan_json(plan.value());
  EXPECT_EQ(json[1]["scheme"], "seq2-g64-u8");
  EXPECT_DOUBLE_EQ(json[1]["bits_per_weight"].get<double>(), 3.0);
  EXPECT_EQ(json[0]["scheme"], "keep");
}

struct BadRule {
  QuantRule rule;
  const char* expected;
};

// cases.md 25.
TEST(Plan, RefusesRecipeMistakesWithTheNearestName) {
  const std::vector<BadRule> bad = {
      {rule("a", {"atn.q"}, "", "", "keep"), "did you mean 'attn.q'"},
      {rule("a", {"mlp.dwn"}, "", "", "keep"), "did you mean 'mlp.down'"},
      {rule("a", {}, "model.layers.1.mlp.down_proj.wieght", "", "keep"),
       "nearest to 'model.layers.1.mlp.down_proj.wieght' is 'model.layers.1.mlp.down_proj.weight'"},
      {rule("a", {"head"}, "", "", "sym4-g64-u8"), "tied to the embedding"},
      {rule("a", {"attn.o"}, "", "", "keep"), "matches no tensor"},
      {rule("a", {"embed"}, "", "0-1", "keep"), "matches no tensor"},
      {rule("a", {}, "", "2-9", "keep"), "blocks 0 to 3"},
      {rule("a", {}, "", "-5", "keep"), "blocks 0 to 3"},
      {rule("a", {}, "", "3-1", "keep"), "empty"},
      {rule("a", {}, "", "first", "keep"), "expected a number"},
      {rule("a", {}, "", "1,,2", "keep"), "expected a number"},
      {rule("a", {}, "", "", "seq5-g64-u8"), "neither 'keep' nor valid"},
      {rule("a", {}, "", "", "Keep"), "neither 'keep' nor valid"},
  };
  for (const BadRule& item : bad) {
    const auto plan = make_plan(four_blocks(), "seq2-g64-u8", {item.rule});
    ASSERT_FALSE(plan.ok()) << item.expected;
    EXPECT_EQ(plan.error().code, ErrorCode::kRecipe);
    EXPECT_EQ(plan.error().subject, "rule 1 'a'");
    EXPECT_NE(plan.error().detail.find(item.expected), std::string::npos) << plan.error().detail;
  }
  EXPECT_EQ(make_plan(four_blocks(), "seq2", {}).error().code, ErrorCode::kRecipe);
}

TEST(Plan, RefusesTheIdThatStandsForNoRule) {
  const auto plan =
      make_plan(four_blocks(), "keep", {rule("default", {"mlp.down"}, "", "", "keep")});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::kRecipe);
  EXPECT_NE(plan.error().detail.find("'default' is reserved"), std::string::npos);
}

TEST(Plan, RefusesTwoRulesOfOneId) {
  const auto plan =
      make_plan(four_blocks(), "seq2-g64-u8",
                {rule("a", {"attn.q"}, "", "", "keep"), rule("a", {"attn.v"}, "", "", "keep")});
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().detail.find("already taken"), std::string::npos);
}

std::string selected(const char* text) {
  const auto layers = select_layers(text, 6, "rule");
  if (!layers.ok()) return "error";
  std::string result;
  for (const bool layer : layers.value()) result += layer ? '1' : '0';
  return result;
}

TEST(PlanRules, LayersGrammar) {
  EXPECT_EQ(selected("0-1,-1"), "110001");
  EXPECT_EQ(selected("odd"), "010101");
  EXPECT_EQ(selected("even"), "101010");
  EXPECT_EQ(selected(" 2 , odd"), "011101");
  EXPECT_EQ(selected("-3--1"), "000111");
  EXPECT_EQ(selected("4--1"), "000011");
  EXPECT_EQ(selected("6"), "error");
  EXPECT_EQ(selected("1-"), "error");
  EXPECT_EQ(selected("1x"), "error");
  EXPECT_EQ(selected("99999999999999999999"), "error");
}

TEST(PlanRules, Globs) {
  EXPECT_TRUE(glob_match("attn.*", "attn.q"));
  EXPECT_TRUE(glob_match("*down*weight", "model.layers.1.mlp.down_proj.weight"));
  EXPECT_TRUE(glob_match("model.layers.?.mlp*", "model.layers.7.mlp.up_proj.weight"));
  EXPECT_FALSE(glob_match("model.layers.?.mlp*", "model.layers.17.mlp.up_proj.weight"));
  EXPECT_FALSE(glob_match("attn.*", "mlp.up"));
  EXPECT_FALSE(glob_match("", "x"));
  EXPECT_TRUE(glob_match("**", ""));
  EXPECT_TRUE(glob_match("a*a*a*b", "aaaaaaaaaaaaaaaaaab"));
}

}  // namespace
}  // namespace elastiq
