#include "core/folder.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace elastiq {
namespace {

namespace fs = std::filesystem;
using testing::accepted;
using testing::refused;
using testing::slurp;
using testing::TempFolder;

void put_tree(const TempFolder& folder) {
  fs::create_directories(folder / "from/sub/.git");
  folder.put("from/b", "1");
  folder.put("from/sub/a", "2");
  folder.put("from/sub/.git/no", "3");
  fs::create_symlink("../b", folder / "from/sub/link");
  fs::create_symlink("..", folder / "from/sub/up");
  fs::create_symlink("nothing", folder / "from/dangling");
}

TEST(FilesBelow, AreSortedAndLeaveOutLinkedAndHiddenFolders) {
  const TempFolder folder;
  put_tree(folder);
  const auto files = files_below(folder / "from");
  ASSERT_TRUE(accepted(files));
  EXPECT_EQ(files.value(), (std::vector<fs::path>{"b", "sub/a", "sub/link"}));
  EXPECT_TRUE(refused(files_below(folder / "none"), ErrorCode::kIo, {"none"}));
}

TEST(CopyFolder, ReplacesAWholeFolder) {
  const TempFolder folder;
  put_tree(folder);
  fs::create_directories(folder / "to");
  folder.put("to/old", "");
  ASSERT_TRUE(accepted(copy_folder_atomically(folder / "from", folder / "to")));
  EXPECT_EQ(slurp(folder / "to/sub/a"), "2");
  EXPECT_EQ(slurp(folder / "to/sub/link"), "1");
  EXPECT_FALSE(fs::exists(folder / "to/old"));
  EXPECT_EQ(folder.entries(), 2u);
  ASSERT_TRUE(accepted(copy_folder_atomically(folder / "from", folder / "new")));
  EXPECT_EQ(slurp(folder / "new/b"), "1");
}

TEST(CopyFolder, AfterAnErrorTheOldOneIsThereAndNothingElse) {
  const TempFolder folder;
  fs::create_directories(folder / "to");
  folder.put("to/old", "kept");
  EXPECT_TRUE(refused(copy_folder_atomically(folder / "none", folder / "to"), ErrorCode::kIo, {}));
  EXPECT_EQ(slurp(folder / "to/old"), "kept");
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(CopyFolder, FullDiskIsNamedAndLeavesTheOldOne) {
  const TempFolder source;
  source.put("big", std::string(200'000, 'x'));
  const TempFolder folder;
  const std::string mount =
      "mount -t tmpfs -o size=64k tmpfs " + folder.path().string() + " 2>/dev/null";
  if (std::system(mount.c_str()) != 0) GTEST_SKIP() << "cannot mount a 64 kB tmpfs here";
  fs::create_directories(folder / "to");
  folder.put("to/old", "kept");
  const Status folder_status = copy_folder_atomically(source.path(), folder / "to");
  const Status file_status = copy_file_atomically(source / "big", folder / "file");
  EXPECT_TRUE(refused(folder_status, ErrorCode::kResources, {}));
  EXPECT_TRUE(refused(file_status, ErrorCode::kResources, {"file"}));
  EXPECT_EQ(slurp(folder / "to/old"), "kept");
  EXPECT_EQ(folder.entries(), 1u);
  EXPECT_EQ(std::system(("umount " + folder.path().string()).c_str()), 0);
}

}  // namespace
}  // namespace elastiq
