// Task accuracy over a scripted source: the greedy text is known, the verdict follows by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/evaluate.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace elastiq::testing {
namespace {

Tokenizer tiny_tokenizer() {
  auto tokenizer = Tokenizer::from_json(hf_tokenizer_json(512), hf_tokenizer_config_json(), "tiny");
  EXPECT_TRUE(accepted(tokenizer));
  return std::move(tokenizer).value();
}

// A model that says `says` (token ids) after the prompt of `prompt_tokens` tokens, whatever was fed
// after it, like a model that is certain of a text; then it stops with eos (id 1).
struct Script {
  std::vector<std::uint32_t> says;
  std::size_t prompt_tokens = 0;
  std::size_t calls = 0;

  LogitSource source() {
    LogitSource source{"script", 512, 200, {}};
    source.run = [this](std::span<const std::uint32_t> tokens, std::span<float> logits) -> Status {
      ++calls;
      const std::size_t rows = logits.size() / 512;
      std::fill(logits.begin(), logits.end(), 0.0F);
      for (std::size_t i = 0; i < rows; ++i) {
        const std::size_t at = tokens.size() - rows + i + 1 - prompt_tokens;
        logits[i * 512 + (at < says.size() ? says[at] : 1)] = 5.0F;
      }
      return ok_status();
    };
    return source;
  }
};

struct Asked {
  double accuracy = -1;
  std::size_t calls = 0;
};

Asked ask(const std::string& answer, const std::vector<std::uint32_t>& says) {
  const TempFolder folder;
  const Tokenizer tokenizer = tiny_tokenizer();
  const auto file =
      folder.put("task.jsonl", R"({"prompt": "part:", "answer": ")" + answer + "\"}\n");
  const auto items = read_task(file, 0, tokenizer);
  EXPECT_TRUE(accepted(items));
  if (!items.ok()) return {};
  Script script{says, items.value()[0].tokens.size()};
  const auto accuracy = task_accuracy(script.source(), items.value(), tokenizer, {1});
  EXPECT_TRUE(accepted(accuracy));
  return accuracy.ok() ? Asked{accuracy.value().value, script.calls} : Asked{};
}

std::vector<std::uint32_t> ids(const std::string& text) {
  return tiny_tokenizer().encode(text);
}

// One token per byte: another spelling than the tokenizer's own.
std::vector<std::uint32_t> byte_ids(const std::string& text) {
  std::vector<std::uint32_t> all;
  for (const char c : text) {
    const auto one = ids(std::string(1, c));
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

TEST(Task, TheAnswerBeforeANewlineIsRightInOnePass) {
  const Asked asked = ask(" belt. clean.", ids(" belt. clean.\nnext"));
  EXPECT_EQ(asked.accuracy, 1.0);
  EXPECT_EQ(asked.calls, 1u);
}

TEST(Task, TheAnswerBeforeTheEndIsRight) {
  EXPECT_EQ(ask("belt", ids(" belt")).accuracy, 1.0);
}

TEST(Task, AnotherSpellingOfTheSameTextIsRight) {
  const Asked asked = ask(" the inner tin", byte_ids(" the inner tin\n"));
  EXPECT_EQ(asked.accuracy, 1.0);
  EXPECT_GT(asked.calls, 1u);
}

TEST(Task, WrongTextLongerTextAndShorterTextAreWrong) {
  EXPECT_EQ(ask("belt", ids(" drum\n")).accuracy, 0.0);
  EXPECT_EQ(ask("belt", ids(" belts\n")).accuracy, 0.0);
  EXPECT_EQ(ask("belt", ids(" belt and more\n")).accuracy, 0.0);
  EXPECT_EQ(ask("belt", ids(" bel\n")).accuracy, 0.0);
  EXPECT_EQ(ask("belt", ids("\nbelt\n")).accuracy, 0.0);
  EXPECT_EQ(ask("belt", {}).accuracy, 0.0);
}

TEST(Task, AWrongFirstWordNeedsNoSecondPass) {
  EXPECT_EQ(ask(" belt of the drum", ids("x\n")).calls, 1u);
}

TEST(Task, TextThatNeverEndsIsWrongAfterALimit) {
  const Asked asked = ask("a", std::vector<std::uint32_t>(150, ids(" ")[0]));
  EXPECT_EQ(asked.accuracy, 0.0);
  EXPECT_LE(asked.calls, 9u);  // Answer of one token and eight more.
}

// Three of four right: 0.75, standard error sqrt(0.75 * 0.25 / 4).
TEST(Task, AccuracyAndItsErrorByHand) {
  const TempFolder folder;
  const Tokenizer tokenizer = tiny_tokenizer();
  const auto file = folder.put("task.jsonl",
                               "{\"prompt\": \"part:\", \"answer\": \"belt\"}\n"
                               "\n"
                               "{\"prompt\": \"part:\", \"answer\": \"belt\"}\n"
                               "{\"prompt\": \"part:\", \"answer\": \"seal\"}\n"
                               "{\"prompt\": \"part:\", \"answer\": \" belt \"}");
  const auto items = read_task(file, 0, tokenizer);
  ASSERT_TRUE(accepted(items));
  ASSERT_EQ(items.value().size(), 4u);
  EXPECT_EQ(items.value()[3].answer, "belt");
  EXPECT_EQ(items.value()[0].tokens.front(), 0u);  // The tokenizer adds BOS.
  Script script{ids(" belt\n"), items.value()[0].tokens.size()};
  const auto accuracy = task_accuracy(script.source(), items.value(), tokenizer, {1});
  ASSERT_TRUE(accepted(accuracy));
  EXPECT_DOUBLE_EQ(accuracy.value().value, 0.75);
  EXPECT_DOUBLE_EQ(accuracy.value().se, std::sqrt(0.75 * 0.25 / 4));
  EXPECT_EQ(read_task(file, 2, tokenizer).value().size(), 2u);
}

TEST(Task, BadLinesAreNamed) {
  const TempFolder folder;
  const Tokenizer tokenizer = tiny_tokenizer();
  const auto read = [&](const std::string& text) {
    return read_task(folder.put("t.jsonl", text), 0, tokenizer);
  };
  const std::string good = "{\"prompt\": \"a\", \"answer\": \"b\"}\n";
  EXPECT_TRUE(
      refused(read(good + "{\"prompt\": \"a\"}\n"), ErrorCode::kMissing, {"line 2", "answer"}));
  EXPECT_TRUE(refused(read(good + "\n{\"prompt\": \"a\", \"answer\": \" \"}"),
                      ErrorCode::kInconsistent, {"line 3"}));
  EXPECT_TRUE(refused(read("{\"prompt\": \"a\", \"answer\": \"b\\nc\"}"), ErrorCode::kInconsistent,
                      {"line 1"}));
  EXPECT_TRUE(refused(read("[1]"), ErrorCode::kMissing, {"line 1"}));
  EXPECT_TRUE(refused(read("{"), ErrorCode::kSyntax, {"line 1"}));
  EXPECT_TRUE(refused(read("\n \n"), ErrorCode::kTooLittleData, {"have 0", "need 1"}));
}

}  // namespace
}  // namespace elastiq::testing
