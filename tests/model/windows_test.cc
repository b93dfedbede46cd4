#include "model/windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/digest.h"
#include "model/data_options.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace elastiq {
namespace {

using testing::accepted;
using testing::refused;
using testing::TempFolder;

// One token per character: <s> is 0, "a" to "z" are 1 to 26, line feed 27, carriage return 28.
Tokenizer letters(const char* config) {
  std::string vocab = "\"<s>\": 0";
  for (int i = 0; i < 26; ++i) {
    vocab += std::string(", \"") + static_cast<char>('a' + i) + "\": " + std::to_string(i + 1);
  }
  vocab += R"(, "\u010a": 27, "\u010d": 28)";
  const std::string json =
      R"({"added_tokens": [{"id": 0, "content": "<s>", "special": true}],
          "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
          "model": {"type": "BPE", "merges": [], "vocab": {)" +
      vocab + "}}}";
  auto tokenizer = Tokenizer::from_json(json, config, "letters");
  EXPECT_TRUE(accepted(tokenizer));
  return std::move(tokenizer).value();
}

Tokenizer with_bos() {
  return letters(R"({"add_bos_token": true, "bos_token": "<s>"})");
}

Tokenizer without_bos() {
  return letters(R"({"bos_token": "<s>"})");
}

using Ids = std::vector<std::uint32_t>;

TextData text_of(std::vector<std::string> documents) {
  TextData data;
  data.documents = std::move(documents);
  return data;
}

WindowOptions of_length(std::int64_t length) {
  WindowOptions options;
  options.length = length;
  return options;
}

TEST(Windows, BosBeginsTheStreamAndReplacesFirstTokens) {
  const auto windows = make_windows(text_of({"abcde", "fghij"}), with_bos(), of_length(4));
  ASSERT_TRUE(accepted(windows));
  // Stream: <s> a b c | d e f g | h i j, 11 tokens.
  ASSERT_EQ(windows.value().tokens.size(), 2u);
  EXPECT_EQ(windows.value().tokens[0], (Ids{0, 1, 2, 3}));
  EXPECT_EQ(windows.value().tokens[1], (Ids{0, 5, 6, 7}));
  EXPECT_EQ(windows.value().total_tokens, 11u);
  EXPECT_EQ(windows.value().dropped_tokens, 3u);
}

TEST(Windows, WithoutBosNothingIsReplaced) {
  const auto windows = make_windows(text_of({"abcdefgh"}), without_bos(), of_length(4));
  ASSERT_TRUE(accepted(windows));
  ASSERT_EQ(windows.value().tokens.size(), 2u);
  EXPECT_EQ(windows.value().tokens[1], (Ids{5, 6, 7, 8}));
  EXPECT_EQ(windows.value().dropped_tokens, 0u);
}

// cases.md 23: a sample of exactly the context length, one token less, four times as much.
TEST(Windows, LengthsAtTheBoundary) {
  EXPECT_EQ(make_windows(text_of({"abc"}), with_bos(), of_length(4)).value().tokens.size(), 1u);
  EXPECT_TRUE(refused(make_windows(text_of({"ab"}), with_bos(), of_length(4)),
                      ErrorCode::kTooLittleData, {"have 3 tokens", "need 1 windows of 4 = 4"}));
  const auto four = make_windows(text_of({std::string(16, 'x')}), without_bos(), of_length(4));
  EXPECT_EQ(four.value().tokens.size(), 4u);
  EXPECT_TRUE(refused(make_windows(text_of({"abc"}), with_bos(), of_length(1)),
                      ErrorCode::kInvalidArgument, {"at least 2"}));
}

TEST(Windows, ShuffleIsAPermutationGivenByTheSeed) {
  std::string text;
  for (int i = 0; i < 26; ++i) text += std::string(2, static_cast<char>('a' + i));
  WindowOptions options = of_length(2);
  const auto plain = make_windows(text_of({text}), without_bos(), options).value().tokens;
  options.order = WindowOptions::Order::kShuffled;
  options.seed = 5;
  auto first = make_windows(text_of({text}), without_bos(), options).value().tokens;
  const auto second = make_windows(text_of({text}), without_bos(), options).value().tokens;
  options.seed = 6;
  const auto other = make_windows(text_of({text}), without_bos(), options).value().tokens;
  EXPECT_EQ(first, second);
  EXPECT_NE(first, plain);
  EXPECT_NE(first, other);
  options.max_windows = 3;
  const auto few = make_windows(text_of({text}), without_bos(), options).value().tokens;
  EXPECT_EQ(few, std::vector<Ids>(other.begin(), other.begin() + 3));
  std::sort(first.begin(), first.end());
  EXPECT_EQ(first, plain);
}

// ---------------------------------------------------------------- files

TEST(TextData, FilesAreReadInOrderAndDigested) {
  const TempFolder folder;
  const auto a = folder.put("a.txt", "abc");
  const auto b = folder.put("b.jsonl", "{\"text\": \"de\"}\n\n{\"text\": \"f\", \"id\": 1}\n");
  const auto data = read_text_data({a, b});
  ASSERT_TRUE(accepted(data));
  EXPECT_EQ(data.value().documents, (std::vector<std::string>{"abc", "de", "f"}));
  EXPECT_EQ(data.value().bytes, 3u + 39);
  EXPECT_EQ(data.value().digest, to_hex(sha256("abc" + testing::slurp(b))));
  EXPECT_TRUE(data.value().warnings.empty());
}

// cases.md 24
TEST(TextData, ByteOrderMarkIsDroppedAndCrlfKept) {
  const TempFolder folder;
  const auto file = folder.put("a.txt",
                               "\xef\xbb\xbf"
                               "a\r\nb\rc");
  const auto data = read_text_data({file});
  ASSERT_TRUE(accepted(data));
  EXPECT_EQ(data.value().documents[0], "a\r\nb\rc");
  EXPECT_EQ(
      data.value().warnings,
      std::vector<std::string>{file.string() + ": has CRLF line ends, which are kept as they are"});
  const auto ids = with_bos().encode(data.value().documents[0]);
  EXPECT_EQ(ids, (Ids{1, 28, 27, 2, 28, 3}));
  const auto lines = folder.put("b.jsonl", "\xef\xbb\xbf{\"text\": \"a\"}\r\n{\"text\": \"b\"}");
  const auto from_lines = read_text_data({lines});
  EXPECT_EQ(from_lines.value().documents.size(), 2u);
  EXPECT_TRUE(from_lines.value().warnings.empty());  // The line ends of JSONL are nobody's text.
  DataOptions options;
  options.files = {file, lines, file};
  options.sequence_length = 2;
  EXPECT_EQ(load_windows(options, with_bos()).value().warnings.size(), 2u);
}

TEST(TextData, WrongEncodingIsRefusedWithTheOffset) {
  const TempFolder folder;
  const auto latin = folder.put("a.txt", "caf\xe9 noir");
  const auto result = read_text_data({latin});
  EXPECT_TRUE(refused(result, ErrorCode::kBadEncoding, {"a.txt"}));
  EXPECT_EQ(result.error().byte_offset, 3u);
  const auto utf16 = folder.put("b.txt", std::string("\xff\xfe"
                                                     "a\0b\0",
                                                     6));
  EXPECT_TRUE(refused(read_text_data({utf16}), ErrorCode::kBadEncoding, {"UTF-16"}));
}

// cases.md 23
TEST(TextData, NothingToReadIsAnErrorWithCounts) {
  const TempFolder folder;
  const auto empty = folder.put("a.txt", "");
  const auto blank = folder.put("b.txt", " \n\r\n\t\n");
  EXPECT_TRUE(refused(read_text_data({empty}), ErrorCode::kTooLittleData, {"1 files", "0 bytes"}));
  EXPECT_TRUE(refused(read_text_data({empty, blank}), ErrorCode::kTooLittleData,
                      {"2 files", "6 bytes", "b.txt"}));
  const auto fields = folder.put("c.jsonl", "{\"text\": \"a\"}\n{\"prompt\": \"b\"}\n[1]\n");
  EXPECT_TRUE(refused(read_text_data({fields}), ErrorCode::kMissing,
                      {"2 of 3 lines", "\"text\"", "line 2"}));
  EXPECT_TRUE(refused(read_text_data({folder / "none.txt"}), ErrorCode::kIo, {"none.txt"}));
  EXPECT_TRUE(refused(read_text_data({}), ErrorCode::kInvalidArgument, {"no file"}));
}

TEST(TextData, SyntaxErrorNamesLineAndOffset) {
  const TempFolder folder;
  const auto file = folder.put("a.jsonl", "{\"text\": \"a\"}\n{\"text\": }\n");
  const auto result = read_text_data({file});
  EXPECT_TRUE(refused(result, ErrorCode::kSyntax, {"line 2"}));
  EXPECT_GT(result.error().byte_offset, 14u);
}

// ---------------------------------------------------------------- several files

std::size_t count_letter(const Windows& windows, std::uint32_t id) {
  return static_cast<std::size_t>(
      std::count_if(windows.tokens.begin(), windows.tokens.end(),
                    [id](const Ids& window) { return window.back() == id; }));
}

TEST(LoadWindows, FilesGiveEqualSharesOrWhatTheyHave) {
  const TempFolder folder;
  DataOptions options;
  options.sequence_length = 4;
  options.files = {folder.put("a.txt", std::string(400, 'a')), folder.put("b.txt", "bbbbbbbb"),
                   folder.put("c.txt", std::string(400, 'c'))};
  options.windows = 12;
  auto windows = load_windows(options, without_bos());
  ASSERT_TRUE(accepted(windows));
  ASSERT_EQ(windows.value().tokens.size(), 12u);
  EXPECT_EQ(count_letter(windows.value(), 1), 5u);
  EXPECT_EQ(count_letter(windows.value(), 2), 2u);
  EXPECT_EQ(count_letter(windows.value(), 3), 5u);
  EXPECT_EQ(windows.value().total_tokens, 808u);
  EXPECT_EQ(load_windows(options, without_bos()).value().tokens, windows.value().tokens);

  options.windows = 0;
  windows = load_windows(options, without_bos());
  EXPECT_EQ(windows.value().tokens.size(), 100u + 2 + 100);
  options.windows = 1000;
  EXPECT_EQ(load_windows(options, without_bos()).value().tokens.size(), 202u);
}

TEST(LoadWindows, TheSeedChoosesWindowsFromTheWholeFile) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 26; ++i) text += std::string(4, static_cast<char>('a' + i));
  DataOptions options;
  options.sequence_length = 4;
  options.files = {folder.put("a.txt", text)};
  options.windows = 6;
  const auto first = load_windows(options, without_bos()).value().tokens;
  options.seed = 2;
  EXPECT_NE(load_windows(options, without_bos()).value().tokens, first);
  std::uint32_t last = 0;
  for (const Ids& window : first) last = std::max(last, window[0]);
  EXPECT_GT(last, 6u);
}

TEST(LoadWindows, NoCompleteWindowIsAnError) {
  const TempFolder folder;
  DataOptions options;
  options.sequence_length = 4;
  options.files = {folder.put("a.txt", "ab"), folder.put("b.txt", "c")};
  EXPECT_TRUE(refused(load_windows(options, with_bos()), ErrorCode::kTooLittleData,
                      {"have 5 tokens", "need 4"}));
}

}  // namespace
}  // namespace elastiq
