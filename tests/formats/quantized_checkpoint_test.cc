#include "formats/quantized_checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>

#include "core/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace elastiq {
namespace {

using testing::accepted;
using testing::refused;
using testing::slurp;
using testing::TempFolder;

/// A matrix of each scale mode, one with kept columns, and two plain tensors.
QuantizedCheckpoint sample() {
  QuantizedCheckpoint checkpoint;
  QuantizedMatrix u8;
  u8.scheme = parse_scheme("seq2-g32-u8-k1").value();
  u8.rows = 2;
  u8.cols = 40;
  u8.codes.assign(80, 3);
  u8.codes[7] = u8.codes[47] = 0;
  u8.row_scales = {0.5f, 0.25f};
  u8.u8_scales = {1, 2, 3, 4};
  u8.kept_index = {7};
  u8.kept_scales = {0.125f};
  u8.kept_values = {-5, 6};
  QuantizedMatrix f16;
  f16.scheme = parse_scheme("ternary-g32-f16").value();
  f16.rows = 1;
  f16.cols = 33;
  f16.codes.assign(33, 2);
  f16.f16_scales = {0x3c00, 0x0001};
  QuantizedMatrix row;
  row.scheme = parse_scheme("sym4-row-k8").value();  // wants eight kept columns, has none
  row.rows = 3;
  row.cols = 5;
  row.codes.assign(15, 9);
  row.row_scales = {1.0f, 2.0f, 3.0f};
  checkpoint.matrices = {{"a.weight", u8}, {"b.weight", f16}, {"c.weight", row}};
  checkpoint.plain["norm"] = {DType::kBf16, {2}, {std::byte{1}, std::byte{0}, std::byte{0x7f}, {}}};
  checkpoint.plain["empty"] = {DType::kF32, {0, 3}, {}};
  checkpoint.info = Json{{"tool", "test"}, {"z", 1}, {"a", Json::array({1, 2})}};
  return checkpoint;
}

void put_model_files(const TempFolder& folder) {
  folder.put("config.json", "{\"a\": 1}\n");
  folder.put("tokenizer.json", "{}");
  folder.put("chat_template.jinja", "{{ text }}");
  folder.put("LICENSE.txt", "Apache");
  folder.put("training_args.bin", "pickle");
}

class QuantizedCheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    put_model_files(model_);
    ASSERT_TRUE(accepted(write_quantized_checkpoint(path(), sample(), model_.path())));
  }

  std::filesystem::path path() const { return out_ / "ptq"; }

  /// quantization.json changed by `change`, then read.
  Result<QuantizedCheckpoint> read_changed(const std::function<void(Json&)>& change) {
    const auto file = path() / "quantization.json";
    const std::string before = slurp(file);
    Json document = Json::parse(before);
    change(document);
    EXPECT_TRUE(write_file(file, document.dump()).ok());
    auto result = read_quantized_checkpoint(path());
    EXPECT_TRUE(write_file(file, before).ok());
    return result;
  }

  TempFolder model_;
  TempFolder out_;
};

TEST_F(QuantizedCheckpointTest, EverythingComesBack) {
  EXPECT_TRUE(is_quantized_checkpoint(path()));
  const auto read = read_quantized_checkpoint(path());
  ASSERT_TRUE(accepted(read));
  const QuantizedCheckpoint want = sample();
  ASSERT_EQ(read.value().matrices.size(), 3u);
  for (const auto& [name, matrix] : want.matrices) {
    const QuantizedMatrix& got = read.value().matrices.at(name);
    EXPECT_EQ(got.scheme, matrix.scheme) << name;
    EXPECT_EQ(got.rows, matrix.rows);
    EXPECT_EQ(got.cols, matrix.cols);
    EXPECT_EQ(got.codes, matrix.codes) << name;
    EXPECT_EQ(got.row_scales, matrix.row_scales) << name;
    EXPECT_EQ(got.u8_scales, matrix.u8_scales) << name;
    EXPECT_EQ(got.f16_scales, matrix.f16_scales) << name;
    EXPECT_EQ(got.kept_index, matrix.kept_index) << name;
    EXPECT_EQ(got.kept_scales, matrix.kept_scales) << name;
    EXPECT_EQ(got.kept_values, matrix.kept_values) << name;
  }
  ASSERT_EQ(read.value().plain.size(), 2u);
  EXPECT_EQ(read.value().plain.at("norm").bytes, want.plain.at("norm").bytes);
  EXPECT_EQ(read.value().plain.at("empty").shape, want.plain.at("empty").shape);
  EXPECT_EQ(read.value().info, want.info);
}

TEST_F(QuantizedCheckpointTest, TwoWritesAreTheSameBytesAndCarryTheModelsFiles) {
  ASSERT_TRUE(accepted(write_quantized_checkpoint(out_ / "again", sample(), model_.path())));
  for (const char* name :
       {"model.safetensors", "quantization.json", "config.json", "tokenizer.json", "LICENSE.txt"}) {
    EXPECT_FALSE(slurp(path() / name).empty()) << name;
    EXPECT_EQ(slurp(path() / name), slurp(out_ / "again" / name)) << name;
  }
  EXPECT_EQ(slurp(path() / "config.json"), "{\"a\": 1}\n");
  EXPECT_EQ(slurp(path() / "chat_template.jinja"), "{{ text }}");
  EXPECT_FALSE(std::filesystem::exists(path() / "training_args.bin"));
  EXPECT_EQ(out_.entries(), 2u);  // no temporary folder is left
}

TEST_F(QuantizedCheckpointTest, ReplacesItsOwnKindOnly) {
  QuantizedCheckpoint smaller = sample();
  smaller.matrices.erase("c.weight");
  // In place: the model's files are read from the folder that is replaced.
  ASSERT_TRUE(accepted(write_quantized_checkpoint(path(), smaller, path())));
  const auto read = read_quantized_checkpoint(path());
  ASSERT_TRUE(accepted(read));
  EXPECT_EQ(read.value().matrices.size(), 2u);
  EXPECT_EQ(slurp(path() / "config.json"), "{\"a\": 1}\n");

  EXPECT_TRUE(refused(write_quantized_checkpoint(model_.path(), smaller, model_.path()),
                      ErrorCode::kIo, {"not overwritten"}));
  EXPECT_EQ(model_.entries(), 5u);
  out_.put("file", "x");
  EXPECT_TRUE(refused(write_quantized_checkpoint(out_ / "file", smaller, model_.path()),
                      ErrorCode::kIo, {"not a folder"}));
  std::filesystem::create_directory(out_ / "empty");
  EXPECT_TRUE(accepted(write_quantized_checkpoint(out_ / "empty/", smaller, model_.path())));
  EXPECT_TRUE(refused(write_quantized_checkpoint(out_ / "no" / "x", smaller, model_.path()),
                      ErrorCode::kIo, {"cannot create"}));
  EXPECT_EQ(out_.entries(), 3u);
}

TEST_F(QuantizedCheckpointTest, AFailedWriteLeavesTheOldFolder) {
  QuantizedCheckpoint bad = sample();
  bad.plain["norm"].bytes.pop_back();
  EXPECT_TRUE(refused(write_quantized_checkpoint(path(), bad, model_.path()),
                      ErrorCode::kInconsistent, {"norm"}));
  bad = sample();
  bad.matrices["a.weight"].codes[0] = 4;
  EXPECT_TRUE(refused(write_quantized_checkpoint(path(), bad, model_.path()),
                      ErrorCode::kInconsistent, {"a.weight", "code 4"}));
  EXPECT_TRUE(accepted(read_quantized_checkpoint(path())));
  EXPECT_EQ(out_.entries(), 1u);
}

TEST_F(QuantizedCheckpointTest, NamesMustNotCollide) {
  QuantizedCheckpoint bad = sample();
  bad.plain["a.weight.codes"] = {DType::kU8, {1}, {std::byte{1}}};
  EXPECT_TRUE(refused(write_quantized_checkpoint(path(), bad, model_.path()), ErrorCode::kDuplicate,
                      {"a.weight.codes"}));
}

TEST_F(QuantizedCheckpointTest, OtherVersionsAndOtherJson) {
  EXPECT_TRUE(refused(read_changed([](Json& d) { d["format"] = "elastiq.quantized/2"; }),
                      ErrorCode::kUnsupportedVersion, {"elastiq.quantized/2"}));
  EXPECT_TRUE(
      refused(read_changed([](Json& d) { d["more"] = 1; }), ErrorCode::kInconsistent, {"/more"}));
  EXPECT_TRUE(
      refused(read_changed([](Json& d) { d.erase("plain"); }), ErrorCode::kMissing, {"plain"}));
  EXPECT_TRUE(refused(read_changed([](Json& d) { d["matrices"] = Json::array(); }),
                      ErrorCode::kInconsistent, {"/matrices"}));
  EXPECT_TRUE(
      refused(read_quantized_checkpoint(model_.path()), ErrorCode::kIo, {"quantization.json"}));
  EXPECT_FALSE(is_quantized_checkpoint(model_.path()));
  EXPECT_FALSE(is_quantized_checkpoint(out_ / "nowhere"));
}

TEST_F(QuantizedCheckpointTest, EveryTensorIsAccountedFor) {
  EXPECT_TRUE(refused(read_changed([](Json& d) { d["plain"] = Json::array({"norm"}); }),
                      ErrorCode::kInconsistent, {"tensor empty belongs to nothing"}));
  EXPECT_TRUE(refused(read_changed([](Json& d) { d["plain"].push_back("ghost"); }),
                      ErrorCode::kMissing, {"ghost"}));
  EXPECT_TRUE(refused(read_changed([](Json& d) { d["plain"].push_back("norm"); }),
                      ErrorCode::kDuplicate, {"norm"}));
  EXPECT_TRUE(refused(read_changed([](Json& d) { d["plain"].push_back(1); }),
                      ErrorCode::kInconsistent, {"/plain"}));
  EXPECT_TRUE(refused(read_changed([](Json& d) { d["matrices"].erase("b.weight"); }),
                      ErrorCode::kInconsistent, {"b.weight"}));
  EXPECT_TRUE(refused(read_changed([](Json& d) { d["matrices"]["a.weight"]["kept"] = 0; }),
                      ErrorCode::kInconsistent, {"a.weight.kept"}));
}

TEST_F(QuantizedCheckpointTest, MatrixEntries) {
  const auto with = [&](const char* key, const Json& value) {
    return read_changed([&](Json& d) { d["matrices"]["a.weight"][key] = value; });
  };
  EXPECT_TRUE(refused(with("scheme", "q4_0"), ErrorCode::kInconsistent, {"a.weight", "q4_0"}));
  EXPECT_TRUE(refused(with("scheme", 4), ErrorCode::kInconsistent, {"a.weight/scheme"}));
  // The codes 3 of the file are not ternary codes.
  EXPECT_TRUE(refused(with("scheme", "ternary-g32-u8-k1"), ErrorCode::kInconsistent, {"code 3"}));
  EXPECT_TRUE(refused(with("scheme", "seq2-g64-u8-k1"), ErrorCode::kInconsistent,
                      {"a.weight.u8_scales is U8 [2, 2], expected U8 [2, 1]"}));
  EXPECT_TRUE(refused(with("scheme", "seq2-g32-f16-k1"), ErrorCode::kMissing, {"f16_scales"}));
  EXPECT_TRUE(refused(with("rows", 3), ErrorCode::kInconsistent, {"a.weight.codes", "[3, 40]"}));
  EXPECT_TRUE(refused(with("rows", 0), ErrorCode::kLimitExceeded, {"/rows"}));
  EXPECT_TRUE(refused(with("kept", 65), ErrorCode::kLimitExceeded, {"/kept"}));
  EXPECT_TRUE(refused(with("note", "x"), ErrorCode::kInconsistent, {"allowed keys"}));
  EXPECT_TRUE(refused(read_changed([](Json& d) { d["matrices"]["a.weight"] = 1; }),
                      ErrorCode::kInconsistent, {"expected object"}));
}

}  // namespace
}  // namespace elastiq
