#include "core/text.h"

#include <gtest/gtest.h>

namespace elastiq {
namespace {

TEST(Text, BytesInDecimalUnits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(999.7), "1.00 kB");
  EXPECT_EQ(format_bytes(1520000), "1.52 MB");
  EXPECT_EQ(format_bytes(84800000), "84.8 MB");
  EXPECT_EQ(format_bytes(269e6), "269 MB");
}

TEST(Text, NumbersWithFourDigits) {
  EXPECT_EQ(format_number(0), "0");
  EXPECT_EQ(format_number(22.8721), "22.87");
  EXPECT_EQ(format_number(0.012345), "0.01235");
  EXPECT_EQ(format_number(1284.4), "1284");
  EXPECT_EQ(format_number(1.5e-7), "1.500e-07");
  EXPECT_EQ(format_number(-0.5), "-0.5000");
}

TEST(Text, Seconds) {
  EXPECT_EQ(format_seconds(0.4123), "412 ms");
  EXPECT_EQ(format_seconds(12.34), "12.3 s");
  EXPECT_EQ(format_seconds(245), "4 min 05 s");
  EXPECT_EQ(format_seconds(3725), "1 h 02 min");
}

TEST(Text, Escapes) {
  EXPECT_EQ(escape_html("<a href=\"x\">&'\x01"),
            "&lt;a href=&quot;x&quot;&gt;&amp;&#39;\xEF\xBF\xBD");
  EXPECT_EQ(escape_markdown("a|b\n<c>*"), "a\\|b &lt;c&gt;\\*");
  EXPECT_EQ(escape_terminal("a\x1b[0m"), "a?[0m");
}

}  // namespace
}  // namespace elastiq
