#include "core/json.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace elastiq {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;
using testing::refused;
using testing::TempFolder;

Result<Json> parse(std::string_view text) {
  return parse_json(text, "t.json", JsonLimits{});
}

TEST(Json, KeepsOrderTypesAndValues) {
  const auto parsed =
      parse(R"({"z": 1, "a": [true, null, -2, 0.5, "x\u00e9", {}], "m": {"k": []}})");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.value().dump(), R"({"z":1,"a":[true,null,-2,0.5,"xé",{}],"m":{"k":[]}})");
  EXPECT_EQ(dump_json(parsed.value()["m"]), "{\n  \"k\": []\n}\n");
}

TEST(Json, ScalarsAtTheTop) {
  EXPECT_EQ(parse("7").value(), Json(7));
  EXPECT_EQ(parse("18446744073709551615").value().get<std::uint64_t>(), UINT64_MAX);
  EXPECT_EQ(parse("\xEF\xBB\xBF[]").value(), Json::array());
}

TEST(Json, RefusesWhatIsNotJson) {
  for (const std::string_view text :
       {""sv,          " "sv,           "{"sv,           "[1,]"sv,  "{\"a\":1,}"sv,
        "{'a':1}"sv,   "NaN"sv,         "[Infinity]"sv,  "01"sv,    "1 2"sv,
        "{\"a\" 1}"sv, "\"\x01\""sv,    "\"\\ud800\""sv, "nul"sv,   "+1"sv,
        "[1e999]"sv,   "{\"a\":1} x"sv, "\"\\x41\""sv,   "{a:1}"sv, "\0"sv}) {
    EXPECT_TRUE(refused(parse(text), ErrorCode::kSyntax, {"t.json", "line 1"})) << text;
  }
}

TEST(Json, SyntaxErrorsNameLineColumnAndOffset) {
  const auto comma = parse("{\n  \"a\": 1,\n}");
  EXPECT_TRUE(refused(comma, ErrorCode::kSyntax, {"line 3, column 1"}));
  EXPECT_EQ(comma.error().byte_offset, 12u);
  const auto after_bom = parse("\xEF\xBB\xBF[x]");
  EXPECT_TRUE(refused(after_bom, ErrorCode::kSyntax, {"line 1, column 2"}));
  EXPECT_EQ(after_bom.error().byte_offset, 4u);
}

TEST(Json, NothingHidesBehindAZeroByte) {
  for (const std::string_view text : {"{}\0"sv, "{}\0garbage"sv, "{\0}"sv, "[\"a\0b\"]"sv}) {
    EXPECT_TRUE(refused(parse(text), ErrorCode::kSyntax, {"zero byte"}));
  }
  const auto second_line = parse("{}\n\0 x"sv);
  EXPECT_TRUE(refused(second_line, ErrorCode::kSyntax, {"line 2, column 1"}));
  EXPECT_EQ(second_line.error().byte_offset, 3u);
  EXPECT_EQ(parse(R"(["a\u0000b"])").value()[0].get<std::string>(), "a\0b"s);
}

TEST(Json, DuplicateKeysAreNamedByPointer) {
  EXPECT_TRUE(refused(parse(R"({"a":1,"a":2})"), ErrorCode::kDuplicate, {"duplicate key /a"}));
  EXPECT_TRUE(refused(parse(R"({"q":[{},{"x/y~":{"b":1,"c":2,"b":3}}]})"), ErrorCode::kDuplicate,
                      {"/q/1/x~1y~0/b"}));
  // The same key after unescaping.
  EXPECT_TRUE(refused(parse(R"({"a":1,"\u0061":2})"), ErrorCode::kDuplicate, {"/a"}));
  EXPECT_TRUE(parse(R"({"a":{"a":1},"b":{"a":1}})").ok());
}

TEST(Json, DepthLimitIsExact) {
  const auto nested = [](std::size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_TRUE(parse(nested(64)).ok());
  EXPECT_TRUE(refused(parse(nested(65)), ErrorCode::kLimitExceeded, {"64"}));
  // A million levels end at the limit too, not on the stack.
  EXPECT_TRUE(refused(parse(std::string(1'000'000, '[')), ErrorCode::kLimitExceeded, {}));
  EXPECT_TRUE(refused(parse("{\"a\":" + nested(64) + "}"), ErrorCode::kLimitExceeded, {"/a/0"}));
}

TEST(Json, SizeLimitIsExact) {
  JsonLimits limits;
  limits.max_bytes = 4;
  EXPECT_TRUE(parse_json("[12]", "t.json", limits).ok());
  EXPECT_TRUE(
      refused(parse_json("[123]", "t.json", limits), ErrorCode::kLimitExceeded, {"5", "4"}));
}

TEST(Json, CommentsOnlyWhereAllowed) {
  const std::string_view text = "{ // why\n \"a\": 1 /* here */ }";
  EXPECT_TRUE(refused(parse(text), ErrorCode::kSyntax, {}));
  JsonLimits limits;
  limits.comments = JsonLimits::Comments::kAllow;
  const auto parsed = parse_json(text, "t.json", limits);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.value()["a"], 1);
}

TEST(Json, EncodingsOtherThanUtf8) {
  EXPECT_TRUE(refused(parse("\xFF\xFE{\0}\0"sv), ErrorCode::kBadEncoding, {"UTF-16"}));
  EXPECT_TRUE(refused(parse("\xFE\xFF\0{\0}"sv), ErrorCode::kBadEncoding, {"UTF-16"}));
  const auto latin = parse("[\"caf\xE9\"]");
  EXPECT_TRUE(refused(latin, ErrorCode::kBadEncoding, {}));
  EXPECT_EQ(latin.error().byte_offset, 5u);
}

TEST(Json, AVocabularyOfFiftyThousandKeysTakesNoSeconds) {
  std::string text = "{";
  for (int i = 0; i < 50'000; ++i) {
    const std::string number = std::to_string(i);
    if (i > 0) text += ',';
    text += "\"token";
    text += number;
    text += "\":";
    text += number;
  }
  text += "}";
  const auto start = std::chrono::steady_clock::now();
  const auto parsed = parse(text);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.value().size(), 50'000u);
  // The library's own insertion compares with all earlier keys: 1.25e9 string comparisons.
  EXPECT_LT(took.count(), 2.0);
}

TEST(Json, FileErrorsNameThePath) {
  const TempFolder folder;
  const auto bad = read_json_file(folder.put("bad.json", "{"), JsonLimits{});
  EXPECT_TRUE(refused(bad, ErrorCode::kSyntax, {(folder / "bad.json").string()}));
  EXPECT_TRUE(refused(read_json_file(folder / "none.json", JsonLimits{}), ErrorCode::kIo, {}));
}

TEST(JsonAccess, IntegersWithRange) {
  const Json json = parse(R"({"i":5,"f":5.0,"s":"5","n":null,"big":18446744073709551615})").value();
  EXPECT_EQ(json_int(json, "i", 1, 5, "r.json").value(), 5);
  EXPECT_TRUE(refused(json_int(json, "i", 1, 4, "r.json"), ErrorCode::kLimitExceeded,
                      {"r.json: /i", "found 5", "1 to 4"}));
  EXPECT_TRUE(refused(json_int(json, "big", 0, INT64_MAX, "r.json"), ErrorCode::kLimitExceeded,
                      {"18446744073709551615"}));
  EXPECT_TRUE(refused(json_int(json, "s", 0, 9, "r.json: /quant"), ErrorCode::kInconsistent,
                      {"r.json: /quant/s: found string, expected integer"}));
  EXPECT_TRUE(refused(json_int(json, "f", 0, 9, "r.json"), ErrorCode::kInconsistent,
                      {"found number, expected integer"}));
  EXPECT_TRUE(refused(json_int(json, "none", 0, 9, "r.json"), ErrorCode::kMissing, {"/none"}));
  EXPECT_TRUE(refused(json_int(json, "n", 0, 9, "r.json"), ErrorCode::kMissing, {"/n"}));
  EXPECT_EQ(json_int_or(json, "n", 3, 0, 9, "r.json").value(), 3);
  EXPECT_TRUE(refused(json_int(Json::array(), "i", 0, 9, "r.json"), ErrorCode::kInconsistent,
                      {"found array, expected object"}));
}

TEST(JsonAccess, OtherTypes) {
  const Json json = parse(R"({"d":0.5,"i":2,"b":false,"s":"x"})").value();
  EXPECT_EQ(json_double_or(json, "d", 1.0, "r").value(), 0.5);
  EXPECT_EQ(json_double_or(json, "i", 1.0, "r").value(), 2.0);
  EXPECT_EQ(json_double_or(json, "none", 1.5, "r").value(), 1.5);
  EXPECT_EQ(json_bool_or(json, "b", true, "r").value(), false);
  EXPECT_EQ(json_string_or(json, "s", "y", "r").value(), "x");
  EXPECT_EQ(json_string_or(json, "none", "y", "r").value(), "y");
  EXPECT_TRUE(refused(json_double_or(json, "b", 1.0, "r"), ErrorCode::kInconsistent, {"boolean"}));
  EXPECT_TRUE(refused(json_bool_or(json, "i", true, "r"), ErrorCode::kInconsistent, {"integer"}));
  EXPECT_TRUE(refused(json_string_or(json, "d", "", "r"), ErrorCode::kInconsistent, {"number"}));
}

}  // namespace
}  // namespace elastiq
