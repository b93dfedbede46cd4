#include "core/crc32c.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace elastiq {
namespace {

std::uint32_t of(const std::string& text) {
  return crc32c(0, std::as_bytes(std::span(text.data(), text.size())));
}

// RFC 3720, appendix B.4, and the check value of the CRC catalogue.
TEST(Crc32c, KnownValues) {
  EXPECT_EQ(of(""), 0u);
  EXPECT_EQ(of(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(of(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(of("123456789"), 0xe3069283u);
  std::string ascending;
  for (int i = 0; i < 32; ++i) ascending += static_cast<char>(i);
  EXPECT_EQ(of(ascending), 0x46dd794eu);
}

TEST(Crc32c, PiecesAndThePortableFormGiveTheSame) {
  std::vector<std::byte> bytes;
  for (unsigned i = 0; i < 100; ++i) bytes.push_back(static_cast<std::byte>(i * i * 7 + 3));
  for (std::size_t n = 0; n <= bytes.size(); ++n) {
    const std::span all(bytes.data(), n);
    const std::uint32_t whole = crc32c(0, all);
    EXPECT_EQ(crc32c_portable(0, all), whole) << n;
    const std::size_t cut = n / 3;
    EXPECT_EQ(crc32c(crc32c(0, all.first(cut)), all.subspan(cut)), whole) << n;
    EXPECT_EQ(crc32c_portable(crc32c_portable(0, all.first(cut)), all.subspan(cut)), whole) << n;
  }
}

}  // namespace
}  // namespace elastiq
