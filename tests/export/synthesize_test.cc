#include <gtest/gtest.h>

#include "export/run_synthesize.h"
#include "formats/package.h"
#include "model/package_model.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace elastiq {
namespace {

SynthesizeOptions small_shape(const std::filesystem::path& out) {
  SynthesizeOptions options;
  options.shape = "135m";
  options.out = out;
  return options;
}

TEST(Synthesize, PackageHasTheShapeAndTheBitsAndRuns) {
  const testing::TempFolder folder;
  const auto options = small_shape(folder.path() / "a.elq");
  ASSERT_TRUE(run_synthesize(options).ok());
  auto model = PackageModel::open(options.out, {.max_tokens = 8});
  ASSERT_TRUE(model.ok()) << to_string(model.error());
  EXPECT_EQ(model.value().config().hidden, 576u);
  EXPECT_EQ(model.value().config().layers, 30u);
  EXPECT_EQ(model.value().config().vocab, 49152u);
  for (const PackageTensor& t : model.value().package().tensors()) {
    if (t.record.layout != ELQ_LAYOUT_PACKED) continue;
    const bool embed = t.record.role == ELQ_ROLE_EMBED || t.record.role == ELQ_ROLE_HEAD;
    EXPECT_EQ(t.record.bits, embed ? 4 : 2) << t.name;
    EXPECT_EQ(t.record.n_kept, embed ? 0u : 8u) << t.name;
  }
  std::vector<float> logits(model.value().config().vocab);
  const std::uint32_t tokens[] = {1, 2, 3};
  ASSERT_TRUE(model.value().eval(tokens, 1, logits).ok());
  for (const float logit : logits) ASSERT_TRUE(std::isfinite(logit));
}

TEST(Synthesize, RefusesAnUnknownShapeAndNamesTheKnownOnes) {
  const testing::TempFolder folder;
  auto options = small_shape(folder.path() / "a.elq");
  options.shape = "2b";
  EXPECT_TRUE(testing::refused(run_synthesize(options), ErrorCode::kInvalidArgument, {"1.8b"}));
  options = small_shape(folder.path() / "a.elq");
  options.bits = 5;
  EXPECT_TRUE(testing::refused(run_synthesize(options), ErrorCode::kInvalidArgument, {"bits"}));
  EXPECT_FALSE(std::filesystem::exists(options.out));
}

}  // namespace
}  // namespace elastiq
