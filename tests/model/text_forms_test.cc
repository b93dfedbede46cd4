// cases.md 24: byte-order marks, line ends and encodings of config, tokenizer and text.

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "model/config.h"
#include "model/tokenizer.h"
#include "model/windows.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace elastiq {
namespace {

using testing::accepted;
using testing::refused;
using testing::TempFolder;

/// One of the three files, whatever reads it.
struct Form {
  const char* file;
  std::string good;
  std::function<Status(const std::filesystem::path& folder)> read;
};

template <class T>
Status status_of(const Result<T>& result) {
  return result.ok() ? ok_status() : Status(result.error());
}

std::vector<Form> forms() {
  const testing::HfModel model =
      testing::hf_model({48, 1, 3, 1, 16, 80, 300}, testing::HfType::kBf16, 1);
  return {{"config.json", testing::hf_config_json(model),
           [](const auto& folder) { return status_of(read_model_config(folder)); }},
          {"tokenizer.json", testing::hf_tokenizer_json(300),
           [](const auto& folder) { return status_of(Tokenizer::open(folder)); }},
          {"text.txt", "some text\nand more",
           [](const auto& folder) { return status_of(read_text_data({folder / "text.txt"})); }}};
}

std::string as_utf16(const std::string& ascii) {
  std::string out = "\xff\xfe";
  for (const char c : ascii) out += {c, '\0'};
  return out;
}

TEST(TextForms, AByteOrderMarkIsAccepted) {
  for (const Form& form : forms()) {
    const TempFolder folder;
    folder.put(form.file, form.good);
    EXPECT_TRUE(accepted(form.read(folder.path()))) << form.file;
    folder.put(form.file, "\xef\xbb\xbf" + form.good);
    EXPECT_TRUE(accepted(form.read(folder.path()))) << form.file;
  }
}

TEST(TextForms, Utf16IsRefusedByName) {
  for (const Form& form : forms()) {
    const TempFolder folder;
    folder.put(form.file, as_utf16(form.good));
    EXPECT_TRUE(refused(form.read(folder.path()), ErrorCode::kBadEncoding, {form.file, "UTF-16"}));
  }
}

// 0x92 is an apostrophe in code page 1252.
TEST(TextForms, CodePage1252IsRefusedWithTheOffset) {
  for (const Form& form : forms()) {
    const TempFolder folder;
    std::string text = form.good;
    text[5] = '\x92';
    folder.put(form.file, text);
    EXPECT_TRUE(refused(form.read(folder.path()), ErrorCode::kBadEncoding, {form.file, "byte 5"}));
    folder.put(form.file, "\xef\xbb\xbf" + text);
    EXPECT_TRUE(refused(form.read(folder.path()), ErrorCode::kBadEncoding, {form.file, "byte 8"}));
  }
}

TEST(TextForms, LineEndsAreTextAndTheMarkIsNoToken) {
  const TempFolder folder;
  folder.put("tokenizer.json", testing::hf_tokenizer_json(300));
  const auto tokenizer = Tokenizer::open(folder.path());
  ASSERT_TRUE(accepted(tokenizer));

  struct Line {
    const char* bytes;
    std::size_t warnings;
  };

  for (const Line& line : {Line{"a\nb", 0}, Line{"a\r\nb", 1}, Line{"a\rb", 0}, Line{"a\nb\n", 0},
                           Line{"a\r\nb\r\n", 1}}) {
    const std::string bytes = line.bytes;
    const auto plain = read_text_data({folder.put("plain.txt", bytes)});
    const auto marked = read_text_data({folder.put("marked.txt", "\xef\xbb\xbf" + bytes)});
    ASSERT_TRUE(accepted(plain));
    ASSERT_TRUE(accepted(marked));
    EXPECT_EQ(plain.value().documents, std::vector<std::string>{bytes});
    EXPECT_EQ(marked.value().documents, plain.value().documents);
    EXPECT_EQ(plain.value().warnings.size(), line.warnings);
    EXPECT_EQ(tokenizer.value().decode(tokenizer.value().encode(bytes)), bytes);
  }
}

}  // namespace
}  // namespace elastiq
