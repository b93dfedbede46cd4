#include <gtest/gtest.h>

#include <cmath>

#include "qat/run_qat.h"
#include "tests/qat/tiny_runs.h"

namespace elastiq {
namespace {

namespace fs = std::filesystem;
using testing::accepted;
using testing::refused;
using testing::slurp;

class RunTrain : public testing::TinyRun {
 protected:
  TrainOptions train_options(const std::string& out) const {
    TrainOptions o;
    o.config = folder_ / "model";
    o.out = folder_ / out;
    o.data.files = {folder_ / "text.txt"};
    o.data.sequence_length = 32;
    o.data.windows = 0;
    o.batch = 8;
    o.steps = 60;
    o.rate = 1e-2;
    o.threads = 1;
    return o;
  }
};

TEST_F(RunTrain, LearnsTheTextAndWritesAModelFolder) {
  const auto report = run_train(train_options("trained"));
  ASSERT_TRUE(accepted(report));
  // Fresh weights are close to uniform over 67 tokens; the text has far less entropy.
  EXPECT_NEAR(report.value().at("curve").at(0).at("loss").get<double>(), std::log(67.0), 0.3);
  EXPECT_LT(report.value().at("loss").get<double>(), 2.0);

  const auto config = read_model_config(folder_ / "trained");
  ASSERT_TRUE(accepted(config));
  const auto stored = Checkpoint::open(folder_ / "trained");
  ASSERT_TRUE(accepted(stored));
  const auto roles = assign_roles(stored.value(), config.value());
  ASSERT_TRUE(accepted(roles));
  EXPECT_TRUE(roles.value().tied);
  for (const TensorView& view : stored.value().tensors()) EXPECT_EQ(view.dtype, DType::kBf16);
  EXPECT_EQ(slurp(folder_ / "trained/tokenizer.json"), slurp(folder_ / "model/tokenizer.json"));
}

TEST_F(RunTrain, SameSeedSameBytes) {
  TrainOptions o = train_options("a");
  o.steps = 5;
  ASSERT_TRUE(accepted(run_train(o)));
  o.out = folder_ / "b";
  ASSERT_TRUE(accepted(run_train(o)));
  EXPECT_EQ(slurp(folder_ / "a/model.safetensors"), slurp(folder_ / "b/model.safetensors"));
  o.out = folder_ / "c";
  o.seed = 2;
  ASSERT_TRUE(accepted(run_train(o)));
  EXPECT_NE(slurp(folder_ / "a/model.safetensors"), slurp(folder_ / "c/model.safetensors"));
}

TEST_F(RunTrain, DivergenceNamesTheStepAndWritesNothing) {
  TrainOptions o = train_options("out");
  o.rate = 1e30;
  o.warmup = 0;
  EXPECT_TRUE(refused(run_train(o), ErrorCode::kNonFinite, {"step"}));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(RunTrain, NeedsTheTieStated) {
  testing::HfShape shape = testing::hf_t1();
  shape.tied = testing::HfTied::kUnstated;
  write_hf_model(testing::hf_model(shape, testing::HfType::kBf16, 3), folder_ / "model");
  EXPECT_TRUE(refused(run_train(train_options("out")), ErrorCode::kInvalidArgument,
                      {"tie_word_embeddings"}));
}

TEST_F(RunTrain, AnUntiedModelHasAHead) {
  testing::HfShape shape = testing::hf_t1();
  shape.tied = testing::HfTied::kNo;
  write_hf_model(testing::hf_model(shape, testing::HfType::kBf16, 3), folder_ / "model");
  TrainOptions o = train_options("out");
  o.steps = 2;
  ASSERT_TRUE(accepted(run_train(o)));
  const auto stored = Checkpoint::open(folder_ / "out");
  ASSERT_TRUE(accepted(stored));
  EXPECT_NE(stored.value().find("lm_head.weight"), nullptr);
}

}  // namespace
}  // namespace elastiq
