#include "report/text.h"

#include <gtest/gtest.h>

#include "report/svg.h"
#include "report/table.h"

namespace elastiq {
namespace {

TEST(ReportText, BytesInDecimalUnits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(999.7), "1.00 kB");
  EXPECT_EQ(format_bytes(1520000), "1.52 MB");
  EXPECT_EQ(format_bytes(84800000), "84.8 MB");
  EXPECT_EQ(format_bytes(269e6), "269 MB");
}

TEST(ReportText, NumbersWithFourDigits) {
  EXPECT_EQ(format_number(0), "0");
  EXPECT_EQ(format_number(22.8721), "22.87");
  EXPECT_EQ(format_number(0.012345), "0.01235");
  EXPECT_EQ(format_number(1284.4), "1284");
  EXPECT_EQ(format_number(1.5e-7), "1.500e-07");
  EXPECT_EQ(format_number(-0.5), "-0.5000");
}

TEST(ReportText, Seconds) {
  EXPECT_EQ(format_seconds(0.4123), "412 ms");
  EXPECT_EQ(format_seconds(12.34), "12.3 s");
  EXPECT_EQ(format_seconds(245), "4 min 05 s");
  EXPECT_EQ(format_seconds(3725), "1 h 02 min");
}

TEST(ReportText, Escapes) {
  EXPECT_EQ(escape_html("<a href=\"x\">&'\x01"),
            "&lt;a href=&quot;x&quot;&gt;&amp;&#39;\xEF\xBF\xBD");
  EXPECT_EQ(escape_markdown("a|b\n<c>*"), "a\\|b &lt;c&gt;\\*");
  EXPECT_EQ(escape_terminal("a\x1b[0m"), "a?[0m");
}

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

}  // namespace
}  // namespace elastiq
