#include <gtest/gtest.h>

#include <limits>

#include "model/chat_form.h"
#include "model/run_generate.h"
#include "tests/support/expect_error.h"

namespace elastiq {
namespace {

using testing::accepted;
using testing::refused;

TEST(PickToken, GreedyTakesTheFirstOfEquals) {
  const std::vector<float> logits = {1.0f, 3.0f, 3.0f, -1.0f};
  EXPECT_EQ(pick_token(logits, 0, 40, 0.99), 1u);
}

TEST(PickToken, DrawsByMassFromTheLargest) {
  // exp: 1, 3 and 4 parts of 8 in order 2 (4), 1 (3), 0 (1).
  const std::vector<float> logits = {std::log(1.0f), std::log(3.0f), std::log(4.0f)};
  EXPECT_EQ(pick_token(logits, 1, 0, 0.0), 2u);
  EXPECT_EQ(pick_token(logits, 1, 0, 0.49), 2u);
  EXPECT_EQ(pick_token(logits, 1, 0, 0.51), 1u);
  EXPECT_EQ(pick_token(logits, 1, 0, 0.86), 1u);
  EXPECT_EQ(pick_token(logits, 1, 0, 0.89), 0u);
  // Of the two largest only: 4 and 3 of 7.
  EXPECT_EQ(pick_token(logits, 1, 2, 0.99), 1u);
  // A low temperature sharpens: 16 and 9 of 25.
  EXPECT_EQ(pick_token(logits, 0.5, 2, 0.63), 2u);
  EXPECT_EQ(pick_token(logits, 0.5, 2, 0.65), 1u);
}

TEST(ChatForm, WritesChatMl) {
  const auto prompt =
      chat_prompt("{% for m in messages %}<|im_start|>{{ m.role }}<|im_end|>{% endfor %}", "Hi?");
  ASSERT_TRUE(accepted(prompt));
  EXPECT_EQ(prompt.value(), "<|im_start|>user\nHi?<|im_end|>\n<|im_start|>assistant\n");
}

// The template of SmolLM2-135M-Instruct (Apache-2.0), as its tokenizer_config.json has it.
TEST(ChatForm, TakesTheDefaultSystemTextOfTheTemplate) {
  const std::string smol =
      "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
      "'<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
      "Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
      "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
      "'<|im_start|>assistant\n' }}{% endif %}";
  const auto prompt = chat_prompt(smol, "Hi?");
  ASSERT_TRUE(accepted(prompt));
  EXPECT_EQ(prompt.value(),
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
            "Face<|im_end|>\n<|im_start|>user\nHi?<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatForm, OtherFormsAreRefused) {
  EXPECT_TRUE(refused(chat_prompt("", "Hi?"), ErrorCode::kUnsupportedType, {"no chat template"}));
  EXPECT_TRUE(refused(chat_prompt("{{ '[INST] ' + messages[0] + ' [/INST]' }}", "Hi?"),
                      ErrorCode::kUnsupportedType, {"ChatML"}));
}

}  // namespace
}  // namespace elastiq
