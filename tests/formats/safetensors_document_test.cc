// SUBSET-safetensors.md against the code: its example, its types, its limit.

#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <sstream>
#include <string>

#include "formats/safetensors.h"
#include "formats/safetensors_header.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace elastiq {
namespace {

using testing::accepted;
using testing::slurp;
using testing::TempFolder;

std::string document() {
  return slurp(std::filesystem::path(__FILE__).parent_path() /
               "../../formats/SUBSET-safetensors.md");
}

/// The bytes of the hex dump in the section "Example": the first 48 characters of each line.
std::string example_bytes(const std::string& text) {
  const std::size_t start = text.find("```\n", text.find("## Example")) + 4;
  std::istringstream lines(text.substr(start, text.find("```", start) - start));
  std::string bytes;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream digits(line.substr(0, 48));
    for (std::string pair; digits >> pair;) {
      bytes += static_cast<char>(std::stoi(pair, nullptr, 16));
    }
  }
  return bytes;
}

TEST(SafetensorsDocument, TheExampleIsWhatTheWriterWrites) {
  const std::string example = example_bytes(document());
  ASSERT_EQ(example.size(), 66u);
  const TempFolder folder;
  const std::string data = "\x01\x02";
  ASSERT_TRUE(accepted(write_safetensors(
      folder / "w", {{"w", DType::kU8, {2}, std::as_bytes(std::span(data.data(), 2))}}, {})));
  EXPECT_EQ(slurp(folder / "w"), example);
  EXPECT_NE(document().find("66 bytes in all"), std::string::npos);
}

TEST(SafetensorsDocument, TypesAndLimit) {
  const std::string text = document();
  std::string types = "Types: ";
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) {
    if (i > 0) types += ' ';
    types += dtype_name(static_cast<DType>(i));
  }
  EXPECT_NE(text.find(types + '.'), std::string::npos) << types;
  EXPECT_EQ(kMaxSafetensorsHeaderBytes, 100'000'000u);
  EXPECT_NE(text.find("at most 100,000,000"), std::string::npos);
}

}  // namespace
}  // namespace elastiq
