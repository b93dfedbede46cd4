#include "model/chat_form.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace elastiq {
namespace {

using testing::accepted;
using testing::refused;

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
