// One malformed file per rule of SUBSET-safetensors.md.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <string>
#include <string_view>

#include "formats/safetensors.h"
#include "formats/safetensors_header.h"
#include "tests/support/expect_error.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace elastiq {
namespace {

using namespace std::string_view_literals;
using testing::accepted;
using testing::entry_text;
using testing::refused;
using testing::safetensors_bytes;
using testing::TempFolder;
using testing::u64_bytes;

Result<SafetensorsDirectory> parse(std::string_view file) {
  return parse_safetensors(std::as_bytes(std::span(file.data(), file.size())), "m.safetensors",
                           "m.safetensors", kMaxSafetensorsHeaderBytes);
}

/// A file of the given entries and this many data bytes.
std::string file_of(const std::string& entries, std::size_t data_bytes) {
  return safetensors_bytes("{" + entries + "}", std::string(data_bytes, 'd'));
}

TEST(SafetensorsRead, DirectoryTypesAndBytes) {
  const std::string file = safetensors_bytes("{\"__metadata__\":{\"format\":\"pt\"}," +
                                                 entry_text("b", "BF16", "[2,3]", "[4,16]") + "," +
                                                 entry_text("a", "F32", "[1]", "[0,4]") + "}   ",
                                             "0123456789abcdef");
  const auto parsed = parse(file);
  ASSERT_TRUE(accepted(parsed));
  const auto& tensors = parsed.value().tensors;
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[1].name, "b");
  EXPECT_EQ(tensors[1].dtype, DType::kBf16);
  EXPECT_EQ(tensors[1].shape, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(tensors[1].elements(), 6u);
  EXPECT_EQ(std::memcmp(tensors[1].bytes.data(), "456789abcdef", 12), 0);
  EXPECT_EQ(parsed.value().metadata.at("format"), "pt");
}

TEST(SafetensorsRead, LegalOddities) {
  EXPECT_TRUE(accepted(parse(safetensors_bytes("{}", ""))));
  // cases.md no 3: shapes [0], [3,0] and [] (one element).
  const auto parsed = parse(file_of(
      entry_text("empty", "BF16", "[0]", "[0,0]") + "," + entry_text("w", "F32", "[1]", "[0,4]") +
          "," + entry_text("none", "F32", "[3,0]", "[4,4]") + "," +
          entry_text("scalar", "F32", "[]", "[4,8]") + "," +
          entry_text("end", "I8", "[0,18446744073709551615,9]", "[8,8]"),
      8));
  ASSERT_TRUE(accepted(parsed));
  ASSERT_EQ(parsed.value().tensors.size(), 5u);
  EXPECT_EQ(parsed.value().tensors[0].name, "empty");
  EXPECT_EQ(parsed.value().tensors[3].name, "scalar");
  EXPECT_EQ(parsed.value().tensors[3].elements(), 1u);
  EXPECT_EQ(parsed.value().tensors[2].elements(), 0u);
}

TEST(SafetensorsRead, AnEmptyTensorOfFullShapeIsRefusedWithTheLikelyCause) {
  const auto parsed = parse(file_of(entry_text("w", "BF16", "[2]", "[0,4]") + "," +
                                        entry_text("lm_head.weight", "BF16", "[67,48]", "[4,4]"),
                                    4));
  EXPECT_TRUE(refused(parsed, ErrorCode::kInconsistent,
                      {"lm_head.weight", "[67, 48]", "needs 6432 bytes, stored 0", "tied"}));
}

// cases.md no 13.
TEST(SafetensorsRead, HeaderLengthThatLies) {
  for (const std::size_t size : {8u, 9u, 16u, 64u}) {
    const std::string rest(size - 8, '{');
    const auto with = [&](std::uint64_t length) { return parse(u64_bytes(length) + rest); };
    EXPECT_TRUE(refused(with(0), ErrorCode::kBadMagic, {"does not start with '{'"})) << size;
    EXPECT_FALSE(with(1).ok());
    EXPECT_TRUE(refused(with(size), ErrorCode::kTruncated, {"header_length"})) << size;
    EXPECT_TRUE(refused(with(size - 7), ErrorCode::kTruncated,
                        {"needs " + std::to_string(size - 7) + " bytes, " +
                         std::to_string(size - 8) + " are left"}));
    for (const std::uint64_t huge :
         {std::uint64_t{100'000'001}, std::uint64_t{1} << 31, std::uint64_t{1} << 63, UINT64_MAX}) {
      EXPECT_TRUE(refused(with(huge), ErrorCode::kLimitExceeded,
                          {std::to_string(huge), "at most 100000000"}));
    }
    EXPECT_TRUE(refused(with(100'000'000), ErrorCode::kTruncated, {}));
  }
  EXPECT_TRUE(refused(parse("abc"), ErrorCode::kTruncated, {"needs 8 bytes, 3 are left"}));
  EXPECT_TRUE(refused(parse(""), ErrorCode::kTruncated, {}));
}

TEST(SafetensorsRead, LyingLengthsTakeNoMemory) {
  rusage before{};
  rusage after{};
  getrusage(RUSAGE_SELF, &before);
  for (int shift = 0; shift < 64; ++shift) {
    EXPECT_FALSE(parse(u64_bytes(std::uint64_t{1} << shift) + "{\"a\":1}").ok());
  }
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 4096);  // kB
}

TEST(SafetensorsRead, HeaderLimitIsExact) {
  const std::string file = safetensors_bytes("{" + std::string(98, ' ') + "}", "");  // 100 bytes
  const auto bytes = std::as_bytes(std::span(file.data(), file.size()));
  EXPECT_TRUE(parse_safetensors(bytes, "m", "m", 100).ok());
  EXPECT_TRUE(
      refused(parse_safetensors(bytes, "m", "m", 99), ErrorCode::kLimitExceeded, {"at most 99"}));
}

TEST(SafetensorsRead, OtherFormatsAreNamed) {
  struct Row {
    std::string_view start;
    const char* word;
  };

  for (const Row& row :
       {Row{"PK\x03\x04"sv, "zip"}, Row{"\x80\x02}q"sv, "pickle"}, Row{"GGUF\x03\0\0\0"sv, "GGUF"},
        Row{"version https://git-lfs.github.com/spec/v1\n"sv, "LFS"}}) {
    const std::string file = std::string(row.start) + std::string(64, '\0');
    EXPECT_TRUE(refused(parse(file), ErrorCode::kBadMagic, {row.word}));
  }
  EXPECT_TRUE(refused(parse(safetensors_bytes("[]", "")), ErrorCode::kBadMagic, {"byte 8"}));
  EXPECT_TRUE(refused(parse(safetensors_bytes(" {}", "")), ErrorCode::kBadMagic, {}));
}

TEST(SafetensorsRead, HeaderTextRules) {
  const auto cut = parse(safetensors_bytes("{\"a\":", ""));
  EXPECT_TRUE(refused(cut, ErrorCode::kSyntax, {"line 1"}));
  EXPECT_EQ(cut.error().byte_offset, 13u);  // 8 and the five bytes that were fine
  const auto latin = parse(safetensors_bytes("{\"\xE9\":1}", ""));
  EXPECT_TRUE(refused(latin, ErrorCode::kBadEncoding, {}));
  EXPECT_EQ(latin.error().byte_offset, 10u);
  EXPECT_TRUE(refused(parse(safetensors_bytes("{}x", "")), ErrorCode::kSyntax, {}));
  EXPECT_TRUE(
      refused(parse(safetensors_bytes("{}" + std::string(6, '\0'), "")), ErrorCode::kSyntax, {}));
  EXPECT_TRUE(refused(parse(safetensors_bytes("{\"a\":{\"b\":{\"c\":{}}}}", "")),
                      ErrorCode::kLimitExceeded, {"/a/b/c"}));
}

// cases.md no 12.
TEST(SafetensorsRead, DuplicateKeysAreNotARangeError) {
  const std::string one = entry_text("w", "F32", "[1]", "[0,4]");
  EXPECT_TRUE(refused(parse(file_of(one + "," + entry_text("w", "F32", "[1]", "[4,8]"), 8)),
                      ErrorCode::kDuplicate, {"duplicate key /w"}));
  EXPECT_TRUE(refused(parse(file_of(R"("w":{"dtype":"F32","dtype":"I32","shape":[1],)"
                                    R"("data_offsets":[0,4]})",
                                    4)),
                      ErrorCode::kDuplicate, {"duplicate key /w/dtype"}));
}

TEST(SafetensorsRead, EntryRules) {
  struct Row {
    const char* entry;
    ErrorCode code;
    const char* word;
  };

  constexpr auto kInconsistent = ErrorCode::kInconsistent;
  const std::array rows = {
      Row{R"("w":[])", kInconsistent, "not an object"},
      Row{R"("w":{})", ErrorCode::kMissing, "has 0 of them"},
      Row{R"("w":{"dtype":"F32","shape":[1]})", ErrorCode::kMissing, "has 2 of them"},
      Row{R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1})", kInconsistent, "'x'"},
      Row{R"("w":{"dtype":"F33","shape":[1],"data_offsets":[0,4]})", ErrorCode::kUnsupportedType,
          "F33"},
      Row{R"("w":{"dtype":"f32","shape":[1],"data_offsets":[0,4]})", ErrorCode::kUnsupportedType,
          "f32"},
      Row{R"("w":{"dtype":4,"shape":[1],"data_offsets":[0,4]})", ErrorCode::kUnsupportedType, "4"},
      Row{R"("w":{"dtype":"F32","shape":1,"data_offsets":[0,4]})", kInconsistent, "shape"},
      Row{R"("w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]})", kInconsistent, "shape"},
      Row{R"("w":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]})", kInconsistent, "shape"},
      Row{R"("w":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]})", kInconsistent, "shape"},
      Row{R"("w":{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,4]})",
          kInconsistent, "shape"},
      Row{R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0]})", kInconsistent, "1 numbers"},
      Row{R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]})", kInconsistent, "3 numbers"},
      Row{R"("w":{"dtype":"F32","shape":[1],"data_offsets":[4,0]})", kInconsistent, "backwards"},
      Row{R"("w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]})", kInconsistent,
          "needs 8 bytes, stored 4"},
      Row{R"("w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]})",
          kInconsistent, "more than 2^64-1"},
      Row{R"("w":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]})",
          kInconsistent, "more than 2^64-1"},
      Row{R"("__metadata__":[],"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})",
          kInconsistent, "__metadata__"},
      Row{R"("__metadata__":{"v":1},"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})",
          kInconsistent, "'v'"},
  };
  for (const Row& row : rows) {
    EXPECT_TRUE(refused(parse(file_of(row.entry, 4)), row.code, {"m.safetensors", row.word}))
        << row.entry;
  }
}

TEST(SafetensorsRead, EveryDataByteBelongsToOneTensor) {
  const std::string a = entry_text("a", "U8", "[8]", "[0,8]");
  const auto overlap = parse(file_of(a + "," + entry_text("b", "U8", "[8]", "[4,12]"), 12));
  EXPECT_TRUE(refused(overlap, ErrorCode::kInconsistent, {"tensor b", "overlaps tensor a"}));
  const auto same = parse(file_of(a + "," + entry_text("b", "U8", "[8]", "[0,8]"), 8));
  EXPECT_TRUE(refused(same, ErrorCode::kInconsistent, {"overlaps"}));
  const auto inside = parse(file_of(a + "," + entry_text("z", "U8", "[0]", "[4,4]"), 8));
  EXPECT_TRUE(refused(inside, ErrorCode::kInconsistent, {"tensor z", "overlaps tensor a"}));
  const std::string gap_file = file_of(a + "," + entry_text("b", "U8", "[2]", "[10,12]"), 12);
  const auto gap = parse(gap_file);
  EXPECT_TRUE(refused(gap, ErrorCode::kInconsistent, {"tensor b", "2 bytes before it"}));
  EXPECT_EQ(gap.error().byte_offset, gap_file.size() - 2);
  const auto front = parse(file_of(entry_text("b", "U8", "[2]", "[2,4]"), 4));
  EXPECT_TRUE(refused(front, ErrorCode::kInconsistent, {"2 bytes before it"}));
  const auto tail = parse(file_of(a, 11));
  EXPECT_TRUE(refused(tail, ErrorCode::kInconsistent, {"3 bytes at the end"}));
  EXPECT_TRUE(refused(parse(safetensors_bytes("{}", "x")), ErrorCode::kInconsistent, {"1 bytes"}));
  const auto wild = parse(
      file_of(entry_text("w", "U8", "[1]", "[18446744073709551614,18446744073709551615]"), 8));
  EXPECT_TRUE(refused(wild, ErrorCode::kInconsistent, {"tensor w"}));
}

// cases.md no 17: T2 cut at nine points.
TEST(SafetensorsRead, TruncationNamesTheShortTensorAndTheBytes) {
  using namespace testing;
  const HfModel model = hf_model(hf_t2(), HfType::kBf16, 5);
  const std::string file = hf_safetensors(model.tensors, model.type);
  ASSERT_TRUE(accepted(parse(file)));
  std::uint64_t header = 0;
  std::memcpy(&header, file.data(), 8);
  const std::size_t data = 8 + static_cast<std::size_t>(header);
  // lm_head.weight is first (512 x 64), model.norm.weight last (64).
  const std::size_t first_bytes = 512u * 64 * 2;
  for (const std::size_t cut : {std::size_t{3}, std::size_t{8}, std::size_t{20}, data - 1}) {
    EXPECT_TRUE(refused(parse(file.substr(0, cut)), ErrorCode::kTruncated, {"header_length"}))
        << cut;
  }

  struct Row {
    std::size_t cut;
    const char* tensor;
    std::size_t short_by;
  };

  for (const Row& row :
       {Row{data, "lm_head.weight", first_bytes}, Row{data + 1, "lm_head.weight", first_bytes - 1},
        Row{data + first_bytes - 1, "lm_head.weight", 1},
        Row{data + first_bytes, "model.embed_tokens.weight", first_bytes},
        Row{file.size() - 1, "model.norm.weight", 1}}) {
    EXPECT_TRUE(refused(parse(file.substr(0, row.cut)), ErrorCode::kTruncated,
                        {row.tensor, std::to_string(row.short_by) + " bytes too short"}))
        << row.cut;
  }
}

TEST(SafetensorsRead, OpensAFileSortedByName) {
  const TempFolder folder;
  std::string header = "{";
  header += entry_text("b", "U8", "[1]", "[0,1]");
  header += ',';
  header += entry_text("a", "U8", "[1]", "[1,2]");
  header += '}';
  const auto path = folder.put("x.safetensors", safetensors_bytes(header, "BA"));
  const auto opened = Checkpoint::open(path);
  ASSERT_TRUE(accepted(opened));
  EXPECT_EQ(opened.value().tensors()[0].name, "a");
  ASSERT_NE(opened.value().find("b"), nullptr);
  EXPECT_EQ(opened.value().find("b")->bytes[0], std::byte{'B'});
  EXPECT_EQ(opened.value().find("b")->file, "x.safetensors");
  EXPECT_EQ(opened.value().find("c"), nullptr);
  EXPECT_TRUE(refused(Checkpoint::open(folder / "none"), ErrorCode::kIo, {"none"}));
}

}  // namespace
}  // namespace elastiq
