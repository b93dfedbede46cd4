#include <gtest/gtest.h>

#include "report/run_report.h"
#include "report/svg.h"
#include "report/table.h"

namespace elastiq {
namespace {

TEST(ReportText, ShortenedCountsCodePoints) {
  EXPECT_EQ(shortened("qat-2bit", 8), "qat-2bit");
  EXPECT_EQ(shortened("qat-2bit-long", 8), "qat-2bi\xE2\x80\xA6");
  EXPECT_EQ(shortened("\xC3\xA4\xC3\xB6\xC3\xBC", 2), "\xC3\xA4\xE2\x80\xA6");
}

TEST(ReportAxis, TicksAreRoundAndCoverTheRange) {
  const Axis linear(Axis::Kind::kLinear, 0.3, 9.4, 0, 100);
  EXPECT_EQ(linear.ticks(), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_DOUBLE_EQ(linear.at(5), 50);
  const Axis log(Axis::Kind::kLog, 0.02, 4, 0, 300);
  EXPECT_NEAR(log.at(0.01), 0, 1e-9);
  EXPECT_NEAR(log.at(0.1), 100, 1e-9);
  EXPECT_NEAR(log.at(10), 300, 1e-9);
  const Axis flat(Axis::Kind::kLinear, 5, 5, 0, 100);
  EXPECT_GT(flat.ticks().size(), 1u);
  EXPECT_GE(flat.at(5), 0);
}

TEST(ReportText, ComparisonSaysWhoIsBetterOrThatNobodyKnows) {
  EXPECT_EQ(comparison_sentence({"a", "b", -0.5, 0.1, -0.7, -0.3, true}),
            "a has a lower mean KL than b by 0.5000 (95 % interval 0.3000 to 0.7000)");
  EXPECT_EQ(comparison_sentence({"a", "b", 0.5, 0.1, 0.3, 0.7, true}),
            "b has a lower mean KL than a by 0.5000 (95 % interval 0.3000 to 0.7000)");
  EXPECT_EQ(comparison_sentence({"a", "b", 0.01, 0.1, -0.2, 0.2, false}),
            "a and b cannot be told apart on this text");
}

TEST(ReportText, RolesFallIntoGroups) {
  EXPECT_STREQ(role_group_name(role_group("embed")), "embedding, head");
  EXPECT_STREQ(role_group_name(role_group("attn")), "attention");
  EXPECT_STREQ(role_group_name(role_group("attn.q")), "attention");
  EXPECT_STREQ(role_group_name(role_group("mlp.down")), "MLP");
  EXPECT_STREQ(role_group_name(role_group("scales")), "scales, kept columns");
  EXPECT_STREQ(role_group_name(role_group("kept")), "scales, kept columns");
  EXPECT_STREQ(role_group_name(role_group("metadata")), "norms, tokenizer, other");
}

TEST(ReportView, FloatModelHasTheSizeOfItsWeights) {
  const Json run = Json::parse(R"({"name": "f", "kind": "float", "bits_per_weight": {"file": null,
      "ram": 16, "basis": "short"}, "bytes": {"package": null, "by_role": {"attn": 3, "embed": 4}},
      "metrics": {}})");
  Json packed = run;
  packed["kind"] = "ptq";
  packed["name"] = "p";
  packed["bits_per_weight"]["basis"] = "longer text";
  const ReportView view =
      make_view({{"format", "elastiq.report/1"}, {"runs", Json::array({run, packed})}});
  EXPECT_EQ(view.runs[0].package_bytes, 7);
  EXPECT_EQ(view.runs[0].bits_file, 16);
  EXPECT_FALSE(view.runs[1].package_bytes);
  EXPECT_FALSE(view.runs[1].bits_file);
  EXPECT_EQ(basis_of(view), "longer text");
}

TEST(ReportView, NullIsAsGoodAsAbsent) {
  const Json report = Json::parse(R"({"format": "elastiq.report/1", "title": null, "runs": [
      {"name": "a", "kind": "qat", "bits_per_weight": {"file": null}, "bytes": {"package": null},
       "metrics": {}, "layers": [{"role": "attn.q", "layer": null, "scheme": null, "rule": 5},
                                 {"role": "attn.q", "layer": 1.0}]}],
      "stages": [{"id": "s", "use": null, "cached": null}]})");
  ASSERT_TRUE(check_report(report).ok());
  const ReportView view = make_view(report);
  EXPECT_EQ(view.runs[0].layers[0].layer, -1);
  EXPECT_EQ(view.runs[0].layers[0].rule, "");
  EXPECT_EQ(view.runs[0].layers[1].layer, 1);
  EXPECT_FALSE(view.stages[0].cached);
}

}  // namespace
}  // namespace elastiq
