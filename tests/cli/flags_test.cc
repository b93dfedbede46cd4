// Flags made from an options struct: what they take and what they refuse.

#include "cli/flags.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/temp_folder.h"

namespace elastiq {
namespace {

/// "" when `quantize ARGUMENTS` is accepted, else what the parser says.
std::string refusal(const std::string& arguments, QuantizeOptions& options) {
  CLI::App app("test");
  FlagBinder binder(app, "");
  visit_fields(binder, options);
  try {
    app.parse("--model m --out o " + arguments);
  } catch (const CLI::ParseError& thrown) {
    return thrown.what();
  }
  return "";
}

std::string refusal(const std::string& arguments) {
  QuantizeOptions options;
  return refusal(arguments, options);
}

TEST(Flags, NumbersThatAreNoneOfTheTypeAreRefused) {
  EXPECT_EQ(refusal("--damping nan"), "--damping: found nan, allowed 0 to 10");
  EXPECT_EQ(refusal("--damping inf"), "--damping: found inf, allowed 0 to 10");
  EXPECT_EQ(refusal("--damping 1e999"), "--damping: found 1e999, allowed 0 to 10");
  EXPECT_EQ(refusal("--threads 0"), "--threads: found 0, allowed 1 to 256");
  EXPECT_EQ(refusal("--threads 4294967298"), "--threads: found 4294967298, allowed 1 to 256");
  EXPECT_EQ(refusal("--damping-steps 1.5"), "--damping-steps: found 1.5, allowed 0 to 12");
  EXPECT_EQ(refusal("--data-seed=-1"), "--data-seed: found -1, allowed 0 to 18446744073709551615");
}

TEST(Flags, SchemesAndRulesAreCheckedBeforeAModelIsOpened) {
  EXPECT_EQ(refusal("--scheme foo").rfind("--scheme: scheme 'foo' is neither 'keep' nor valid", 0),
            0u);
  EXPECT_EQ(refusal("--scheme seq2-g64-u8-k65"),
            "--scheme: scheme 'seq2-g64-u8-k65' is neither 'keep' nor valid; 65 kept columns; "
            "allowed: 0 to 64");
  EXPECT_EQ(refusal("--scheme keep"), "");
  const testing::TempFolder folder;
  const auto rules = folder.put("rules.json", R"([{"id": "default", "scheme": "keep"}])");
  EXPECT_NE(refusal("--rules " + rules.string()).find("/rules/0/id: 'default' is reserved"),
            std::string::npos);
}

TEST(Flags, NumbersAtTheEndsOfTheirRangeAreTaken) {
  QuantizeOptions options;
  ASSERT_EQ(refusal("--damping 1e-1 --threads 256 --data-seed 18446744073709551615", options), "");
  EXPECT_EQ(options.damping, 0.1);
  EXPECT_EQ(options.threads, 256);
  EXPECT_EQ(options.data.seed, 18446744073709551615u);
}

}  // namespace
}  // namespace elastiq
