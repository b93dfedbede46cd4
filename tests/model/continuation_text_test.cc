#include "model/continuation_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/sampler.h"
#include "tests/support/expect_error.h"

namespace elastiq {
namespace {

using testing::accepted;
using Ids = std::vector<std::uint32_t>;

// U+2581 for spaces, one before the text; ids 4 to 6 are the bytes of U+4E2D.
const char* const kSentencePiece = R"({
  "added_tokens": [{"id": 0, "content": "<s>", "special": true}],
  "normalizer": {"type": "Sequence", "normalizers": [
    {"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
  "decoder": {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1}]},
  "model": {"type": "BPE", "byte_fallback": true, "merges": [],
    "vocab": {"<s>": 0, "▁": 1, "a": 2, "b": 3, "<0xE4>": 4, "<0xB8>": 5, "<0xAD>": 6}}})";

std::string after(const Tokenizer& tokenizer, const Ids& prompt, const Ids& more) {
  Ids all = prompt;
  all.insert(all.end(), more.begin(), more.end());
  return continuation_text(tokenizer, all, tokenizer.decode(prompt).size());
}

TEST(ContinuationText, KeepsTheFirstSpaceOfASentencePieceVocabulary) {
  const auto tokenizer = Tokenizer::from_json(kSentencePiece, "", "tokenizer.json");
  ASSERT_TRUE(accepted(tokenizer));
  const Ids prompt = tokenizer.value().encode("a b");
  ASSERT_EQ(prompt, (Ids{1, 2, 1, 3}));
  EXPECT_EQ(tokenizer.value().decode({1, 2}), "a");  // Alone, the space would be gone.
  EXPECT_EQ(after(tokenizer.value(), prompt, {1, 2}), " a");
  EXPECT_EQ(after(tokenizer.value(), prompt, {2, 1, 2}), "a a");
  EXPECT_EQ(after(tokenizer.value(), prompt, {}), "");
  // After nothing but BOS the text begins here.
  EXPECT_EQ(after(tokenizer.value(), {0}, {1, 2}), "a");
}

TEST(ContinuationText, StopWordThatBeginsWithASpaceIsFoundAtOnce) {
  const auto tokenizer = Tokenizer::from_json(kSentencePiece, "", "tokenizer.json");
  ASSERT_TRUE(accepted(tokenizer));
  const Ids prompt = tokenizer.value().encode("a");
  const StopCheck held = check_stop_words(after(tokenizer.value(), prompt, {1}), {" b"});
  EXPECT_FALSE(held.stopped);
  EXPECT_EQ(held.shown, 0u);
  const StopCheck check = check_stop_words(after(tokenizer.value(), prompt, {1, 3}), {" b"});
  EXPECT_TRUE(check.stopped);
  EXPECT_EQ(check.shown, 0u);
}

TEST(WholeCharacters, CutsOnlyWhatCanBecomeACharacter) {
  const std::string whole = "x\xe4\xb8\xad";
  EXPECT_EQ(whole_characters(whole), whole);
  EXPECT_EQ(whole_characters(whole.substr(0, 3)), "x");
  EXPECT_EQ(whole_characters(whole.substr(0, 2)), "x");
  EXPECT_EQ(whole_characters("x\xf0\x9f\x98"), "x");
  EXPECT_EQ(whole_characters("x\xed\x9f"), "x");
  EXPECT_EQ(whole_characters("x\xf4\x8f\xbf"), "x");
  EXPECT_EQ(whole_characters(""), "");
}

TEST(WholeCharacters, OtherBytesBecomeReplacementCharacters) {
  EXPECT_EQ(whole_characters("x\xff"), "x\xef\xbf\xbd");
  EXPECT_EQ(whole_characters("\xff y"), "\xef\xbf\xbd y");
  // Overlong, a surrogate, and past U+10FFFF: no byte makes these valid.
  EXPECT_EQ(whole_characters("\xe0\x80"), "\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(whole_characters("\xed\xa0"), "\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(whole_characters("\xf4\x90"), "\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(whole_characters("\xe4\xb8z"), "\xef\xbf\xbd\xef\xbf\xbdz");
}

// What was shown never changes, also after an earlier bad byte.
TEST(WholeCharacters, GrowsWithTheText) {
  const std::string text = "a\xff\xe4\xb8\xad b\xe4\xb8z\xf0\x9f\x98\x80";
  std::string before;
  for (std::size_t n = 0; n <= text.size(); ++n) {
    const std::string now = whole_characters(text.substr(0, n));
    EXPECT_TRUE(now.starts_with(before)) << n;
    before = now;
  }
  EXPECT_EQ(before, "a\xef\xbf\xbd\xe4\xb8\xad b\xef\xbf\xbd\xef\xbf\xbdz\xf0\x9f\x98\x80");
}

}  // namespace
}  // namespace elastiq
