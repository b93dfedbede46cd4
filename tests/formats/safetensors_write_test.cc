#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "formats/safetensors.h"
#include "tests/support/expect_error.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace elastiq {
namespace {

using testing::accepted;
using testing::refused;
using testing::slurp;
using testing::TempFolder;

TensorToWrite tensor(const std::string& name, DType type, std::vector<std::uint64_t> shape,
                     std::string_view bytes) {
  return {name, type, std::move(shape), std::as_bytes(std::span(bytes.data(), bytes.size()))};
}

std::vector<TensorToWrite> all_of(const Checkpoint& checkpoint) {
  std::vector<TensorToWrite> tensors;
  for (const TensorView& view : checkpoint.tensors()) {
    tensors.push_back({view.name, view.dtype, view.shape, view.bytes});
  }
  return tensors;
}

TEST(SafetensorsWrite, BytesByHand) {
  const TempFolder folder;
  const auto path = folder / "out.safetensors";
  // Given in the wrong order; the wider type comes first, then names.
  ASSERT_TRUE(accepted(write_safetensors(
      path,
      {tensor("z", DType::kU8, {1}, "Z"), tensor("b", DType::kBf16, {1, 2}, "BBBB"),
       tensor("a", DType::kU8, {0, 5}, "")},
      {{"k", "v"}})));
  std::string header =
      R"({"__metadata__":{"k":"v"},"b":{"dtype":"BF16","shape":[1,2],"data_offsets":[0,4]},)"
      R"("a":{"dtype":"U8","shape":[0,5],"data_offsets":[4,4]},)"
      R"("z":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}})";
  while (header.size() % 8 != 0) header += ' ';
  EXPECT_EQ(slurp(path), testing::safetensors_bytes(header, "BBBBZ"));
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(SafetensorsWrite, RoundTripKeepsEveryByte) {
  using namespace testing;
  const TempFolder folder;
  const HfModel model = hf_model(hf_t1(), HfType::kBf16, 3);
  const auto source = folder.put("source.safetensors", hf_safetensors(model.tensors, model.type));
  const auto opened = Checkpoint::open(source);
  ASSERT_TRUE(accepted(opened));
  std::vector<TensorToWrite> tensors = all_of(opened.value());
  ASSERT_TRUE(accepted(write_safetensors(folder / "one", tensors, opened.value().metadata())));
  // All of one type: the other writer's order (by name) and ours are the same file.
  EXPECT_EQ(slurp(folder / "one"), slurp(source));
  std::reverse(tensors.begin(), tensors.end());
  ASSERT_TRUE(accepted(write_safetensors(folder / "two", tensors, {})));
  EXPECT_EQ(slurp(folder / "one"), slurp(folder / "two"));
}

TEST(SafetensorsWrite, EveryTensorIsAlignedToItsType) {
  const TempFolder folder;
  ASSERT_TRUE(accepted(write_safetensors(
      folder / "m",
      {tensor("a", DType::kU8, {3}, "aaa"), tensor("b", DType::kF16, {3}, "bbbbbb"),
       tensor("c", DType::kF32, {1}, "cccc"), tensor("d", DType::kI64, {1}, "dddddddd")},
      {})));
  const auto opened = Checkpoint::open(folder / "m");
  ASSERT_TRUE(accepted(opened));
  for (const TensorView& view : opened.value().tensors()) {
    const auto address = reinterpret_cast<std::uintptr_t>(view.bytes.data());
    EXPECT_EQ(address % dtype_bytes(view.dtype), 0u) << view.name;
  }
}

TEST(SafetensorsWrite, RefusesWhatTheReaderWould) {
  const TempFolder folder;
  const auto path = folder / "out";
  EXPECT_TRUE(
      refused(write_safetensors(
                  path, {tensor("a", DType::kU8, {1}, "x"), tensor("a", DType::kU8, {1}, "y")}, {}),
              ErrorCode::kDuplicate, {"a"}));
  EXPECT_TRUE(refused(write_safetensors(path, {tensor("a", DType::kF32, {2}, "xxxx")}, {}),
                      ErrorCode::kInconsistent, {"a", "need 8 bytes, given 4"}));
  EXPECT_TRUE(refused(write_safetensors(path, {tensor("a", DType::kF32, {1ull << 62, 4}, "")}, {}),
                      ErrorCode::kInconsistent, {"too many"}));
  EXPECT_TRUE(refused(write_safetensors(path, {tensor("__metadata__", DType::kU8, {0}, "")}, {}),
                      ErrorCode::kInconsistent, {}));
  EXPECT_TRUE(refused(write_safetensors(path, {tensor("\xFF", DType::kU8, {0}, "")}, {}),
                      ErrorCode::kBadEncoding, {}));
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(SafetensorsWrite, MissingFolderAndFullDiskLeaveNothing) {
  const TempFolder folder;
  const std::string bytes(200'000, 'x');
  const std::vector<TensorToWrite> tensors = {tensor("a", DType::kU8, {200'000}, bytes)};
  EXPECT_TRUE(
      refused(write_safetensors(folder / "no" / "out", tensors, {}), ErrorCode::kIo, {"out"}));
  const std::string where = folder.path().string();
  if (std::system(("mount -t tmpfs -o size=64k tmpfs " + where + " 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << "cannot mount a 64 kB tmpfs here";
  }
  EXPECT_TRUE(
      refused(write_safetensors(folder / "out", tensors, {}), ErrorCode::kResources, {"out"}));
  EXPECT_EQ(folder.entries(), 0u);
  EXPECT_EQ(std::system(("umount " + where).c_str()), 0);
}

}  // namespace
}  // namespace elastiq
