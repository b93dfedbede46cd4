// elastiq verify on exported packages.

#include <gtest/gtest.h>

#include "export/run_verify.h"
#include "tests/support/export_case.h"

namespace elastiq::testing {
namespace {

std::string seq2(const std::string& name) {
  return name.find("layers.") != std::string::npos ? "seq2-g64-u8" : "";
}

TEST(Verify, AModelOfAnyNumberOfPositionsThatExportsVerifies) {
  for (const int positions : {1, 3, 16, 63, 64, 128}) {
    SCOPED_TRACE(positions);
    HfShape shape = hf_t2();
    shape.max_positions = positions;
    const ExportCase c("verify_positions", shape, seq2);
    const auto exported = run_export(c.options());
    ASSERT_TRUE(exported.ok()) << to_string(exported.error());
    const auto verified = run_verify(c.package());
    EXPECT_TRUE(verified.ok()) << to_string(verified.error());
  }
}

}  // namespace
}  // namespace elastiq::testing
