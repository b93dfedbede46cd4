// docs/errors.md says of every error what the program does.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "core/error.h"
#include "tests/support/temp_folder.h"

namespace elastiq {
namespace {

TEST(ErrorsPage, HasARowForEveryCode) {
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  const std::string page = testing::slurp(root / "docs" / "errors.md");
  const std::string internal = code_name(ErrorCode::kInternal);
  int rows = 0;
  for (int number = 1; number < 100; ++number) {
    const auto code = static_cast<ErrorCode>(number);
    const std::string name = code_name(code);
    if (name == internal && code != ErrorCode::kInternal) continue;  // Not in use.
    const std::string row = "| E-" + std::to_string(number) + " | " + name + " | " +
                            std::to_string(exit_status(Error{code, "", "", 0})) + " |";
    EXPECT_NE(page.find(row), std::string::npos) << row;
    ++rows;
  }
  EXPECT_EQ(rows, 23);
}

}  // namespace
}  // namespace elastiq
