// Ids made by the Hugging Face tokenizers package; tokenizer_golden.json says how.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/file.h"
#include "core/json.h"
#include "model/tokenizer.h"

namespace elastiq {
namespace {

namespace fs = std::filesystem;

fs::path root() {
  return fs::path(__FILE__).parent_path().parent_path().parent_path();
}

fs::path base_folder(const std::string& base) {
  if (base == "sample") return root() / "data-samples" / "model";
  if (base == "stories260k") return root().parent_path() / "shared" / "models" / "stories260k";
  const char* folder = std::getenv("ELASTIQ_SMOLLM2");
  return folder != nullptr ? folder : "/tmp/smollm2/smollm2";
}

std::string patched(Json json, const Json& patch) {
  for (const auto& [key, value] : patch.items()) {
    if (key.starts_with("model.")) {
      json["model"][key.substr(6)] = value;
    } else {
      json[key] = value;
    }
  }
  return json.dump();
}

Json golden() {
  auto json = read_json_file(root() / "tests" / "model" / "tokenizer_golden.json", JsonLimits{});
  EXPECT_TRUE(json.ok()) << to_string(json.error());
  return json.ok() ? json.value() : Json();
}

// Checks every variant of a base; false when its folder is not there.
bool check_base(const std::string& base) {
  const fs::path folder = base_folder(base);
  if (!fs::exists(folder / "tokenizer.json")) return false;
  auto original = read_json_file(folder / "tokenizer.json", JsonLimits{});
  EXPECT_TRUE(original.ok());
  const Json all = golden();
  for (const Json& variant : all["variants"]) {
    if (variant["base"] != base) continue;
    const std::string name = base + " " + variant["patch"].dump();
    auto tokenizer = Tokenizer::from_json(patched(original.value(), variant["patch"]), "", name);
    EXPECT_TRUE(tokenizer.ok()) << to_string(tokenizer.error());
    if (!tokenizer.ok()) continue;
    for (std::size_t i = 0; i < all["texts"].size(); ++i) {
      const auto text = all["texts"][i].get<std::string>();
      EXPECT_EQ(tokenizer.value().encode(text), variant["ids"][i].get<std::vector<std::uint32_t>>())
          << name << "\ntext " << i << ": " << text;
    }
  }
  return true;
}

TEST(TokenizerGolden, SampleTokenizerGivesTheIdsOfTheReference) {
  EXPECT_TRUE(check_base("sample"));
}

TEST(TokenizerGolden, SentencePieceTokenizerGivesTheIdsOfTheReference) {
  if (!check_base("stories260k")) GTEST_SKIP() << "no ../shared/models/stories260k";
}

TEST(TokenizerGolden, SmolLm2TokenizerGivesTheIdsOfTheReference) {
  if (!check_base("smollm2")) GTEST_SKIP() << "no SmolLM2 folder; set ELASTIQ_SMOLLM2";
}

// Whatever byte-level tokens a text becomes, their bytes are the text.
TEST(TokenizerGolden, DecodeIsTheInverseOfEncode) {
  for (const char* base : {"sample", "stories260k", "smollm2"}) {
    auto tokenizer = Tokenizer::open(base_folder(base));
    if (!tokenizer.ok() && std::string(base) != "sample") continue;
    ASSERT_TRUE(tokenizer.ok()) << to_string(tokenizer.error());
    const Json all = golden();
    for (const Json& item : all["texts"]) {
      const auto text = item.get<std::string>();
      // Special tokens are left out, and U+2581 is a space to SentencePiece.
      const bool special = text.find('<') != std::string::npos;
      const bool metaspace = text.find("\xe2\x96\x81") != std::string::npos;
      if (special || metaspace) continue;
      EXPECT_EQ(tokenizer.value().decode(tokenizer.value().encode(text)), text) << base;
    }
  }
}

}  // namespace
}  // namespace elastiq
