// Folders: which file is read, shards and their index (cases.md no 10 and 12, user-asks.md 14, 19).

#include <gtest/gtest.h>

#include <string>

#include "formats/safetensors.h"
#include "tests/support/expect_error.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/temp_folder.h"

namespace elastiq {
namespace {

using testing::accepted;
using testing::entry_text;
using testing::refused;
using testing::safetensors_bytes;
using testing::TempFolder;

constexpr const char* kIndex = "model.safetensors.index.json";

/// A shard with one-byte tensors of these names.
std::string shard(const std::vector<std::string>& names) {
  std::string header = "{";
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::string range = "[";
    range += std::to_string(i);
    range += ',';
    range += std::to_string(i + 1);
    range += ']';
    if (i > 0) header += ',';
    header += entry_text(names[i], "U8", "[1]", range);
  }
  return safetensors_bytes(header + "}", std::string(names.size(), 'x'));
}

void put_three_shards(const TempFolder& folder) {
  folder.put("one", shard({"a", "b"}));  // names come from the index, not from a pattern
  folder.put("model-2.safetensors", shard({"c", "d", "e"}));
  folder.put("model-3.safetensors", shard({"f"}));
  folder.put(kIndex, R"({"metadata":{"total_size":6},"weight_map":{"a":"one","b":"one",
    "c":"model-2.safetensors","d":"model-2.safetensors","e":"model-2.safetensors",
    "f":"model-3.safetensors"}})");
}

TEST(SafetensorsIndex, ShardsAreOneCheckpoint) {
  const TempFolder folder;
  put_three_shards(folder);
  const auto opened = Checkpoint::open(folder.path());
  ASSERT_TRUE(accepted(opened));
  EXPECT_EQ(opened.value().tensors().size(), 6u);
  EXPECT_EQ(opened.value().find("d")->file, "model-2.safetensors");
  EXPECT_TRUE(opened.value().warnings().empty());
}

TEST(SafetensorsIndex, MissingShardsAreListedWithWhatTheyHeld) {
  const TempFolder folder;
  put_three_shards(folder);
  std::filesystem::remove(folder / "model-2.safetensors");
  std::filesystem::remove(folder / "one");
  EXPECT_TRUE(refused(Checkpoint::open(folder.path()), ErrorCode::kMissing,
                      {kIndex, "model-2.safetensors (3 tensors)", "one (2 tensors)"}));
}

TEST(SafetensorsIndex, AnUnusedShardIsAWarning) {
  const TempFolder folder;
  put_three_shards(folder);
  folder.put("model-4.safetensors", "not even a safetensors file");
  const auto opened = Checkpoint::open(folder.path());
  ASSERT_TRUE(accepted(opened));
  ASSERT_EQ(opened.value().warnings().size(), 1u);
  EXPECT_NE(opened.value().warnings()[0].find("model-4.safetensors"), std::string::npos);
}

TEST(SafetensorsIndex, OneNameInTwoShards) {
  const TempFolder folder;
  put_three_shards(folder);
  folder.put("model-3.safetensors", shard({"f", "a"}));
  EXPECT_TRUE(refused(Checkpoint::open(folder.path()), ErrorCode::kDuplicate,
                      {"a: in two files", "model-3.safetensors", "one"}));
}

TEST(SafetensorsIndex, IndexAndShardsMustAgree) {
  const TempFolder folder;
  put_three_shards(folder);
  folder.put("model-3.safetensors", shard({"g"}));
  EXPECT_TRUE(refused(Checkpoint::open(folder.path()), ErrorCode::kMissing,
                      {"places f in model-3.safetensors", "no file has it"}));
  folder.put("model-3.safetensors", shard({"f", "g"}));
  const auto extra = Checkpoint::open(folder.path());
  ASSERT_TRUE(accepted(extra));
  EXPECT_NE(extra.value().find("g"), nullptr);
  ASSERT_EQ(extra.value().warnings().size(), 1u);
  folder.put("one", shard({"a"}));
  folder.put("model-3.safetensors", shard({"f", "b"}));
  EXPECT_TRUE(refused(Checkpoint::open(folder.path()), ErrorCode::kMissing,
                      {"places b in one", "it is in model-3.safetensors"}));
}

TEST(SafetensorsIndex, OnlyPlainFileNames) {
  const TempFolder folder;
  folder.put("secret", shard({"a"}));
  std::filesystem::create_directory(folder / "m");
  const std::string absolute = (folder / "secret").string();
  for (const std::string& name :
       {std::string("../secret"), absolute, std::string(".."), std::string("."), std::string(),
        std::string("sub/x"), std::string("..\\\\secret"), std::string("C:secret"),
        std::string("a\\u0000b")}) {
    folder.put(std::string("m/") + kIndex, R"({"weight_map":{"a":")" + name + "\"}}");
    EXPECT_TRUE(refused(Checkpoint::open(folder / "m"), ErrorCode::kInconsistent,
                        {"plain file names", "a is in"}))
        << name;
  }
  folder.put(std::string("m/") + kIndex, R"({"weight_map":{"a":7}})");
  EXPECT_TRUE(refused(Checkpoint::open(folder / "m"), ErrorCode::kInconsistent, {"7"}));
}

TEST(SafetensorsIndex, IndexText) {
  const TempFolder folder;
  folder.put("one", shard({"a"}));
  folder.put(kIndex, R"({"weight_map":{"a":"one"},"weight_map":{"b":"one"}})");
  EXPECT_TRUE(refused(Checkpoint::open(folder.path()), ErrorCode::kDuplicate, {"/weight_map"}));
  folder.put(kIndex, R"({"weight_map":{"a":"one","a":"two"}})");
  EXPECT_TRUE(refused(Checkpoint::open(folder.path()), ErrorCode::kDuplicate, {"/weight_map/a"}));
  for (const char* text : {"{}", "[]", R"({"weight_map":[]})", R"({"weight_map":{}})"}) {
    folder.put(kIndex, text);
    EXPECT_TRUE(refused(Checkpoint::open(folder.path()), ErrorCode::kMissing, {"weight_map"}))
        << text;
  }
  folder.put(kIndex, "\xEF\xBB\xBF{\"weight_map\":{\"a\":\"one\"}}");
  EXPECT_TRUE(accepted(Checkpoint::open(folder.path())));
}

TEST(SafetensorsFolder, SingleFileComesFirst) {
  const TempFolder folder;
  put_three_shards(folder);
  folder.put("model.safetensors", shard({"only"}));
  const auto opened = Checkpoint::open(folder.path());
  ASSERT_TRUE(accepted(opened));
  EXPECT_EQ(opened.value().tensors().size(), 1u);
  ASSERT_EQ(opened.value().warnings().size(), 1u);
  EXPECT_NE(opened.value().warnings()[0].find(kIndex), std::string::npos);
}

TEST(SafetensorsFolder, PickleOnlyFoldersAreRefusedWithTheReason) {
  const TempFolder folder;
  folder.put("pytorch_model.bin", "PK");
  folder.put("config.json", "{}");
  EXPECT_TRUE(refused(Checkpoint::open(folder.path()), ErrorCode::kUnsupportedType,
                      {"pytorch_model.bin", "runs code"}));
}

TEST(SafetensorsFolder, NothingToRead) {
  const TempFolder folder;
  EXPECT_TRUE(refused(Checkpoint::open(folder.path()), ErrorCode::kMissing,
                      {"no model.safetensors or model.safetensors.index.json"}));
  folder.put("adapter_model.safetensors", shard({"a"}));
  EXPECT_TRUE(refused(Checkpoint::open(folder.path()), ErrorCode::kMissing,
                      {"found adapter_model.safetensors"}));
}

}  // namespace
}  // namespace elastiq
