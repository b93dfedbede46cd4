#include "model/tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "core/json.h"
#include "model/tokenizer_data.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace elastiq {
namespace {

using testing::accepted;
using testing::refused;
using testing::TempFolder;

using Ids = std::vector<std::uint32_t>;

// 300 entries: three special tokens, 256 bytes, 41 merges (cases.md 18).
Json base() {
  return Json::parse(testing::hf_tokenizer_json(300));
}

Result<Tokenizer> read(const Json& json, const std::string& config) {
  return Tokenizer::from_json(json.dump(), config, "tokenizer.json");
}

Json added(std::uint32_t id, const char* content) {
  return Json{{"id", id}, {"content", content}, {"special", true}};
}

const char* const kText = "the rain on the tin roof\n12 times, then none. \xc3\xa9\xe4\xb8\xad";

TEST(Tokenizer, MergesAsTextsAndAsPairsGiveTheSameIds) {
  const auto texts = read(base(), "");
  Json json = base();
  for (Json& merge : json["model"]["merges"]) {
    const auto text = merge.get<std::string>();
    const auto space = text.find(' ');
    merge = Json::array({text.substr(0, space), text.substr(space + 1)});
  }
  const auto pairs = read(json, "");
  ASSERT_TRUE(accepted(texts));
  ASSERT_TRUE(accepted(pairs));
  const auto ids = texts.value().encode(kText);
  EXPECT_LT(ids.size(), std::string(kText).size());  // Something was merged.
  EXPECT_EQ(ids, pairs.value().encode(kText));
  EXPECT_EQ(texts.value().decode(ids), kText);
}

TEST(Tokenizer, MissingMergesAreAnError) {
  Json json = base();
  json["model"].erase("merges");
  EXPECT_TRUE(refused(read(json, ""), ErrorCode::kMissing, {"no merges"}));
  json["model"]["merges"] = Json::array({"a b c"});
  EXPECT_TRUE(refused(read(json, ""), ErrorCode::kInconsistent, {"merge 0", "a b c"}));
  json["model"]["merges"] = Json::array({"q zz"});
  EXPECT_TRUE(refused(read(json, ""), ErrorCode::kInconsistent, {"merge 0", "zz"}));
}

TEST(Tokenizer, GapsAndRepeatedIdsAreKept) {
  Json json = base();
  json["added_tokens"].push_back(added(305, "<tool>"));
  auto result = read(json, "");
  ASSERT_TRUE(accepted(result));
  const Tokenizer& tokenizer = result.value();
  EXPECT_EQ(tokenizer.size(), 306u);
  EXPECT_EQ(tokenizer.id_of("<tool>"), 305);
  EXPECT_EQ(tokenizer.id_of("<|bos|>"), 0);
  EXPECT_EQ(tokenizer.id_of("<none>"), -1);
  EXPECT_EQ(tokenizer.decode({302, 303, 9999}), "");
  EXPECT_EQ(tokenizer.encode("<tool>"), (Ids{305}));
}

TEST(Tokenizer, IdGivenToTwoTextsIsRefused) {
  Json json = base();
  json["added_tokens"].push_back(added(5, "<tool>"));
  EXPECT_TRUE(refused(read(json, ""), ErrorCode::kDuplicate, {"id 5", "<tool>"}));
  json = base();
  json["added_tokens"].push_back(added(400, "e"));
  EXPECT_TRUE(refused(read(json, ""), ErrorCode::kInconsistent, {"e has the ids", "400"}));
}

TEST(Tokenizer, BosFromConfigOrTemplate) {
  const char* const config = R"({"add_bos_token": true, "bos_token": {"content": "<|bos|>"},
                                 "eos_token": "<|eos|>", "chat_template": "x"})";
  auto result = read(base(), config);
  ASSERT_TRUE(accepted(result));
  EXPECT_TRUE(result.value().add_bos());
  EXPECT_EQ(result.value().bos(), 0);
  EXPECT_EQ(result.value().eos(), 1);
  EXPECT_EQ(result.value().chat_template(), "x");

  EXPECT_FALSE(read(base(), "").value().add_bos());

  Json json = base();
  json["post_processor"] = Json::parse(
      R"({"type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "TemplateProcessing",
          "single": [{"SpecialToken": {"id": "<|bos|>"}}, {"Sequence": {"id": "A"}}],
          "special_tokens": {"<|bos|>": {"id": "<|bos|>", "ids": [0]}}}]})");
  EXPECT_TRUE(read(json, "").value().add_bos());
  EXPECT_EQ(read(json, "").value().bos(), 0);
  EXPECT_FALSE(read(json, R"({"add_bos_token": false})").value().add_bos());

  EXPECT_TRUE(
      refused(read(base(), R"({"add_bos_token": true})"), ErrorCode::kInconsistent, {"bos_token"}));
  EXPECT_TRUE(refused(read(base(), R"({"bos_token": "<x>"})"), ErrorCode::kInconsistent, {"<x>"}));
}

TEST(Tokenizer, TemplateBosMustBeTheTokenOfThatName) {
  const auto with_template = [](const char* name, const Json& id) {
    Json json = base();
    json["post_processor"] = {{"type", "TemplateProcessing"},
                              {"single", Json::array({{{"SpecialToken", {{"id", name}}}}})},
                              {"special_tokens", {{name, {{"ids", Json::array({id})}}}}}};
    return read(json, "");
  };
  ASSERT_TRUE(accepted(with_template("<|bos|>", 0u)));
  EXPECT_TRUE(refused(with_template("<|bos|>", 1u), ErrorCode::kInconsistent,
                      {"post_processor", "<|bos|> the id 1", "has the id 0"}));
  EXPECT_TRUE(refused(with_template("<|bos|>", 300u), ErrorCode::kInconsistent, {"the id 300"}));
  EXPECT_TRUE(refused(with_template("<x>", 0u), ErrorCode::kInconsistent, {"<x>", "is missing"}));
  for (const std::uint64_t id : {std::uint64_t{1} << 32, UINT64_MAX}) {
    EXPECT_TRUE(refused(with_template("<|bos|>", id), ErrorCode::kLimitExceeded,
                        {"<|bos|>", std::to_string(id)}));
  }
}

// The rest as one piece would be other ids in silence.
TEST(Tokenizer, PatternThatIsGivenUpIsAnError) {
  Json json = base();
  json["pre_tokenizer"] = Json::parse(
      R"({"type": "Sequence", "pretokenizers": [
          {"type": "Split", "behavior": "Isolated",
           "pattern": {"Regex": "(*LIMIT_MATCH=9)(a+)+$"}},
          {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})");
  const auto tokenizer = read(json, "");
  ASSERT_TRUE(accepted(tokenizer));
  EXPECT_TRUE(accepted(tokenizer.value().try_encode("bcd")));
  EXPECT_EQ(tokenizer.value().try_encode("bcd").value(), tokenizer.value().encode("bcd"));
  const std::string text = std::string(30, 'a') + "b";
  EXPECT_TRUE(refused(tokenizer.value().try_encode(text), ErrorCode::kLimitExceeded,
                      {"tokenizer.json", "(a+)+$", "limit"}));
}

TEST(Tokenizer, NamedChatTemplateDefaultIsTaken) {
  const auto result = read(base(), R"({"chat_template": [{"name": "tool", "template": "t"},
                                       {"name": "default", "template": "d"}]})");
  EXPECT_EQ(result.value().chat_template(), "d");
}

TEST(Tokenizer, WhatIsNotUnderstoodIsRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"normalizer", R"({"type": "NFC"})"},
      {"pre_tokenizer", R"({"type": "Whitespace"})"},
      {"decoder", R"({"type": "WordPiece"})"},
      {"post_processor", R"({"type": "BertProcessing"})"},
      {"pre_tokenizer",
       R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Contiguous"})"},
      {"pre_tokenizer", "null"},
  };
  for (const auto& [key, value] : cases) {
    Json json = base();
    json[key] = Json::parse(value);
    EXPECT_TRUE(refused(read(json, ""), ErrorCode::kUnsupportedType, {"supported"})) << value;
  }
  Json json = base();
  json["model"]["type"] = "Unigram";
  EXPECT_TRUE(refused(read(json, ""), ErrorCode::kUnsupportedType, {"Unigram", "BPE"}));
  json = base();
  json["pre_tokenizer"] =
      Json::parse(R"({"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated"})");
  EXPECT_TRUE(refused(read(json, ""), ErrorCode::kSyntax, {"(a"}));
}

TEST(Tokenizer, SpecialTokensAreMatchedFirstAndLeftOutOfTexts) {
  const auto result = read(base(), "");
  const auto ids = result.value().encode("a<|eos|>a");
  EXPECT_EQ(ids, (Ids{static_cast<std::uint32_t>(result.value().id_of("a")), 1,
                      static_cast<std::uint32_t>(result.value().id_of("a"))}));
  EXPECT_EQ(result.value().decode(ids), "aa");
}

TEST(Tokenizer, OpenReadsTheFolderAndDropsByteOrderMarks) {
  const TempFolder folder;
  folder.put("tokenizer.json", "\xef\xbb\xbf" + base().dump());
  folder.put("tokenizer_config.json", "\xef\xbb\xbf{\"bos_token\": \"<|bos|>\"}");
  folder.put("chat_template.jinja", "{{ x }}");
  const auto result = Tokenizer::open(folder.path());
  ASSERT_TRUE(accepted(result));
  EXPECT_EQ(result.value().bos(), 0);
  EXPECT_EQ(result.value().chat_template(), "{{ x }}");
  const TempFolder empty;
  EXPECT_TRUE(refused(Tokenizer::open(empty.path()), ErrorCode::kMissing, {"tokenizer.json"}));
}

TEST(Tokenizer, InvalidUtf8BecomesReplacementCharacters) {
  const auto result = read(base(), "");
  EXPECT_EQ(result.value().decode(result.value().encode("a\xff"
                                                        "b\xc3")),
            "a\xef\xbf\xbd"
            "b\xef\xbf\xbd");
}

// Quadratic merging would need 10^11 steps here.
TEST(Tokenizer, LongWordsTakeNLogN) {
  const auto result = read(base(), "");
  const std::string text(400000, 't');
  const auto start = std::chrono::steady_clock::now();
  const auto ids = result.value().encode(text);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(result.value().decode(ids), text);
  EXPECT_LT(took.count(), 5.0);
}

// ---------------------------------------------------------------- merging

// Merges in order: ab (rank 0), bc (1), abc from ab + c (2). Ids: a 0, b 1, c 2, ab 3, bc 4, abc 5.
TEST(BpeMerger, LowestRankFirstThenLeftmost) {
  MergeTable table;
  table.resize(3);
  table.insert(0, 1, MergeRule{0, 3});
  table.insert(1, 2, MergeRule{1, 4});
  table.insert(3, 2, MergeRule{2, 5});
  BpeMerger merger;
  Ids symbols = {0, 1, 2, 1, 2, 0, 1};  // abc bc ab
  merger.merge(table, symbols);
  EXPECT_EQ(symbols, (Ids{5, 4, 3}));
}

// aaa with the merge aa: the left pair wins.
TEST(BpeMerger, OverlappingPairsMergeFromTheLeft) {
  MergeTable table;
  table.resize(1);
  table.insert(7, 7, MergeRule{0, 9});
  BpeMerger merger;
  Ids symbols = {7, 7, 7, 7, 7};
  merger.merge(table, symbols);
  EXPECT_EQ(symbols, (Ids{9, 9, 7}));
  EXPECT_EQ(table.find(7, 8), nullptr);
}

}  // namespace
}  // namespace elastiq
