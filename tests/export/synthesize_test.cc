#include <gtest/gtest.h>

#include "export/run_synthesize.h"
#include "formats/package.h"
#include "model/package_model.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace elastiq {
namespace {

SynthesizeOptions to_file(const std::filesystem::path& out) {
  SynthesizeOptions options;
  options.shape = "135m";
  options.out = out;
  return options;
}

// config.json of SmolLM2-135M.
TEST(Synthesize, KnowsTheShapesOfTheModelsItNames) {
  const auto shape = synthetic_shape("135m");
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape.value().hidden, 576);
  EXPECT_EQ(shape.value().layers, 30);
  EXPECT_EQ(shape.value().heads, 9);
  EXPECT_EQ(shape.value().kv_heads, 3);
  EXPECT_EQ(shape.value().head_dim, 64);
  EXPECT_EQ(shape.value().ffn, 1536);
  EXPECT_EQ(shape.value().vocab, 49152);
  for (const std::string& name : synthetic_shapes()) {
    EXPECT_EQ(synthetic_shape(name).value().name, name);
  }
}

TEST(Synthesize, PackageHasTheShapeAndTheBitsAndRuns) {
  const testing::TempFolder folder;
  const auto options = to_file(folder.path() / "a.elq");
  ASSERT_TRUE(synthesize_package({"small", 64, 3, 4, 2, 24, 192, 700}, options).ok());
  PackageModel::Options session;
  session.max_tokens = 8;
  auto model = PackageModel::open(options.out, session);
  ASSERT_TRUE(model.ok()) << to_string(model.error());
  const elq_config& config = model.value().config();
  EXPECT_EQ(config.hidden, 64u);
  EXPECT_EQ(config.layers, 3u);
  EXPECT_EQ(config.heads, 4u);
  EXPECT_EQ(config.kv_heads, 2u);
  EXPECT_EQ(config.head_dim, 24u);
  EXPECT_EQ(config.ffn, 192u);
  EXPECT_EQ(config.vocab, 700u);
  int packed = 0;
  for (const PackageTensor& t : model.value().package().tensors()) {
    if (t.record.layout != ELQ_LAYOUT_PACKED) continue;
    ++packed;
    const bool embed = t.record.role == ELQ_ROLE_EMBED || t.record.role == ELQ_ROLE_HEAD;
    EXPECT_EQ(t.record.bits, embed ? 4 : 2) << t.name;
    EXPECT_EQ(t.record.n_kept, embed ? 0u : 8u) << t.name;
  }
  EXPECT_EQ(packed, 2 + 3 * 7);  // Embedding, head (an alias), and 7 matrices in each block.
  std::vector<float> logits(config.vocab);
  const std::uint32_t tokens[] = {1, 2, 3};
  ASSERT_TRUE(model.value().eval(tokens, 1, logits).ok());
  for (const float logit : logits) ASSERT_TRUE(std::isfinite(logit));
}

TEST(Synthesize, RefusesAnUnknownShapeAndNamesTheKnownOnes) {
  const testing::TempFolder folder;
  auto options = to_file(folder.path() / "a.elq");
  options.shape = "2b";
  EXPECT_TRUE(testing::refused(run_synthesize(options), ErrorCode::kInvalidArgument, {"1.8b"}));
  options = to_file(folder.path() / "a.elq");
  options.bits = 5;
  EXPECT_TRUE(testing::refused(run_synthesize(options), ErrorCode::kInvalidArgument, {"bits"}));
  EXPECT_FALSE(std::filesystem::exists(options.out));
}

}  // namespace
}  // namespace elastiq
