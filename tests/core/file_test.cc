#include "core/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace elastiq {
namespace {

using namespace std::string_view_literals;
using testing::refused;
using testing::slurp;
using testing::TempFolder;

TEST(Utf8, FirstBadByteByTable) {
  struct Row {
    std::string_view text;
    std::size_t bad;
  };

  constexpr std::size_t kNone = std::string_view::npos;
  // Boundaries of RFC 3629 section 4, and the forms of its section 10 that decoders let through.
  const std::array rows = {
      Row{""sv, kNone},
      Row{"plain"sv, kNone},
      Row{"\x00\x7f"sv, kNone},
      Row{"\xC2\x80\xDF\xBF"sv, kNone},                  // U+0080, U+07FF
      Row{"\xE0\xA0\x80\xEF\xBF\xBF"sv, kNone},          // U+0800, U+FFFF
      Row{"\xED\x9F\xBF\xEE\x80\x80"sv, kNone},          // around the surrogates
      Row{"\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"sv, kNone},  // U+10000, U+10FFFF
      Row{"ab\x80"sv, 2},                                // lone continuation
      Row{"\xC0\x80"sv, 0},                              // overlong NUL
      Row{"\xC1\xBF"sv, 0},                              // overlong U+007F
      Row{"\xE0\x9F\xBF"sv, 0},                          // overlong U+07FF
      Row{"\xF0\x8F\xBF\xBF"sv, 0},                      // overlong U+FFFF
      Row{"x\xED\xA0\x80"sv, 1},                         // surrogate D800
      Row{"\xED\xBF\xBF"sv, 0},                          // surrogate DFFF
      Row{"\xF4\x90\x80\x80"sv, 0},                      // U+110000
      Row{"\xF5\x80\x80\x80"sv, 0},
      Row{"\xFF"sv, 0},
      Row{"a\xC3"sv, 1},          // cut
      Row{"a\xE2\x82"sv, 1},      // cut
      Row{"a\xF0\x9F\x98"sv, 1},  // cut
      Row{"\xC3\x41"sv, 0},
      Row{"\xE2\x82\x41"sv, 0},
      Row{"\xF0\x9F\x98\x41"sv, 0},
      Row{"caf\xE9"sv, 3},  // code page 1252
  };
  for (const Row& row : rows) {
    EXPECT_EQ(find_invalid_utf8(row.text), row.bad) << ::testing::PrintToString(row.text);
  }
}

TEST(TextFile, ByteOrderMarkIsDroppedAndUtf16RefusedByName) {
  const TempFolder folder;
  const auto bom = read_text_file(folder.put("bom", "\xEF\xBB\xBFtext\r\n"), 100);
  ASSERT_TRUE(bom.ok());
  EXPECT_EQ(bom.value(), "text\r\n");
  const auto utf16 = read_text_file(folder.put("utf16", "\xFF\xFE{\0}\0"sv), 100);
  EXPECT_TRUE(refused(utf16, ErrorCode::kBadEncoding, {"UTF-16", "utf16"}));
  const auto bad = read_text_file(folder.put("bad", "\xEF\xBB\xBFok\xE9"), 100);
  EXPECT_TRUE(refused(bad, ErrorCode::kBadEncoding, {}));
  EXPECT_EQ(bad.error().byte_offset, 5u);
}

TEST(TextFile, LimitIsExact) {
  const TempFolder folder;
  const auto path = folder.put("ten", "0123456789");
  EXPECT_TRUE(read_text_file(path, 10).ok());
  EXPECT_TRUE(refused(read_text_file(path, 9), ErrorCode::kLimitExceeded, {"10", "9"}));
}

TEST(PathExists, SaysYesNoOrThatNobodyCanTell) {
  const TempFolder folder;
  const auto there = path_exists(folder.put("file", "x"));
  ASSERT_TRUE(there.ok());
  EXPECT_TRUE(there.value());
  const auto none = path_exists(folder / "none");
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none.value());
  EXPECT_TRUE(
      refused(path_exists(folder / std::string(300, 'a')), ErrorCode::kIo, {"aaa", "too long"}));
  std::filesystem::create_symlink("loop", folder / "loop");
  EXPECT_TRUE(refused(path_exists(folder / "loop"), ErrorCode::kIo, {"loop"}));
}

TEST(MappedFileTest, MissingFolderAndEmpty) {
  const TempFolder folder;
  EXPECT_TRUE(refused(MappedFile::open(folder / "none"), ErrorCode::kIo, {"none"}));
  EXPECT_TRUE(refused(MappedFile::open(folder.path()), ErrorCode::kIo, {"not a regular file"}));
  const auto empty = MappedFile::open(folder.put("empty", ""));
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty.value().bytes().size(), 0u);
}

TEST(AtomicFileTest, NothingIsThereBeforeCommitAndNothingElseAfter) {
  const TempFolder folder;
  {
    auto file = AtomicFile::create(folder / "out");
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file.value().write("abc"sv).ok());
    EXPECT_EQ(file.value().offset(), 3u);
    EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  }
  EXPECT_EQ(folder.entries(), 0u);  // given up: the temporary file is gone
  ASSERT_TRUE(write_file(folder / "out", "one").ok());
  ASSERT_TRUE(write_file(folder / "out", "two").ok());
  EXPECT_EQ(slurp(folder / "out"), "two");
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(AtomicFileTest, MissingAndReadOnlyFolder) {
  const TempFolder folder;
  EXPECT_TRUE(refused(write_file(folder / "no" / "out", "x"), ErrorCode::kIo, {"out"}));
  // Root may write anywhere, so the test steps down for the one call.
  const bool root = ::geteuid() == 0;
  std::filesystem::permissions(folder.path(), std::filesystem::perms{0555});
  ASSERT_EQ(root ? ::seteuid(65534) : 0, 0);
  const Status status = write_file(folder / "out", "x");
  ASSERT_EQ(root ? ::seteuid(0) : 0, 0);
  std::filesystem::permissions(folder.path(), std::filesystem::perms{0755});
  EXPECT_TRUE(refused(status, ErrorCode::kIo, {"out", "ermission"}));
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(AtomicFileTest, FullDiskIsNamedAndLeavesNothing) {
  const TempFolder folder;
  const std::string mount =
      "mount -t tmpfs -o size=64k tmpfs " + folder.path().string() + " 2>/dev/null";
  if (std::system(mount.c_str()) != 0) GTEST_SKIP() << "cannot mount a 64 kB tmpfs here";
  const Status status = write_file(folder / "out", std::string(200'000, 'x'));
  EXPECT_TRUE(refused(status, ErrorCode::kResources, {"out"}));
  EXPECT_EQ(exit_status(status.error()), 6);
  EXPECT_EQ(folder.entries(), 0u);
  EXPECT_EQ(std::system(("umount " + folder.path().string()).c_str()), 0);
}

}  // namespace
}  // namespace elastiq
