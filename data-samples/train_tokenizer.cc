// train_tokenizer TEXT VOCAB FOLDER: trains a byte-level BPE tokenizer and writes tokenizer.json
// and tokenizer_config.json. Deterministic: of equally frequent pairs the one with the smallest ids
// wins.

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/byte_level.h"

namespace {

using Json = nlohmann::ordered_json;
using Pair = std::pair<std::uint32_t, std::uint32_t>;

constexpr const char* kBegin = "<|begin|>";
constexpr const char* kEnd = "<|end|>";

struct Word {
  std::vector<std::uint32_t> ids;
  std::int64_t count = 0;
};

struct Vocabulary {
  std::vector<std::string> tokens;  ///< In the byte-level alphabet.
  std::vector<std::pair<std::string, std::string>> merges;
};

// Digits one by one, else as the ByteLevel pattern cuts.
std::map<std::string, std::int64_t> count_words(std::string_view text) {
  const std::string pattern = std::string("\\p{N}| ?(?=\\p{N})|") + elastiq::kByteLevelPattern;
  int code = 0;
  PCRE2_SIZE where = 0;
  pcre2_code* regex =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.c_str()), PCRE2_ZERO_TERMINATED,
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK, &code, &where, nullptr);
  pcre2_jit_compile(regex, PCRE2_JIT_COMPLETE);
  pcre2_match_data* match = pcre2_match_data_create_from_pattern(regex, nullptr);
  std::map<std::string, std::int64_t> words;
  PCRE2_SIZE at = 0;
  while (at < text.size() &&
         pcre2_match(regex, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                     PCRE2_NOTEMPTY | PCRE2_NO_UTF_CHECK, match, nullptr) > 0) {
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(match);
    ++words[std::string(text.substr(span[0], span[1] - span[0]))];
    at = span[1];
  }
  pcre2_match_data_free(match);
  pcre2_code_free(regex);
  return words;
}

// Special tokens, then the 256 bytes in the order of their code points.
Vocabulary base_vocabulary(std::array<std::uint32_t, 256>& id_of_byte) {
  const auto alphabet = elastiq::byte_level_alphabet();
  std::map<std::uint16_t, std::size_t> by_code_point;
  for (std::size_t b = 0; b < 256; ++b) by_code_point[alphabet[b]] = b;
  Vocabulary vocabulary;
  vocabulary.tokens = {kBegin, kEnd};
  for (const auto& [code_point, byte] : by_code_point) {
    id_of_byte[byte] = static_cast<std::uint32_t>(vocabulary.tokens.size());
    std::string token;
    elastiq::append_short_utf8(code_point, token);
    vocabulary.tokens.push_back(token);
  }
  return vocabulary;
}

std::map<Pair, std::int64_t> count_pairs(const std::vector<Word>& words) {
  std::map<Pair, std::int64_t> counts;
  for (const Word& word : words) {
    for (std::size_t i = 1; i < word.ids.size(); ++i)
      counts[{word.ids[i - 1], word.ids[i]}] += word.count;
  }
  return counts;
}

void merge_pair(Word& word, const Pair& pair, std::uint32_t merged) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < word.ids.size(); ++i) {
    const bool here =
        i + 1 < word.ids.size() && word.ids[i] == pair.first && word.ids[i + 1] == pair.second;
    word.ids[kept++] = here ? merged : word.ids[i];
    if (here) ++i;
  }
  word.ids.resize(kept);
}

Vocabulary train(std::string_view text, std::size_t size) {
  std::array<std::uint32_t, 256> id_of_byte{};
  Vocabulary vocabulary = base_vocabulary(id_of_byte);
  std::vector<Word> words;
  for (const auto& [letters, count] : count_words(text)) {
    Word word;
    word.count = count;
    for (const char c : letters) word.ids.push_back(id_of_byte[static_cast<unsigned char>(c)]);
    words.push_back(std::move(word));
  }
  while (vocabulary.tokens.size() < size) {
    const auto counts = count_pairs(words);
    Pair best{};
    std::int64_t most = 1;  // A pair that occurs once teaches nothing.
    for (const auto& [pair, count] : counts) {
      if (count > most) {
        most = count;
        best = pair;
      }
    }
    if (most == 1) break;
    const auto merged = static_cast<std::uint32_t>(vocabulary.tokens.size());
    for (Word& word : words) merge_pair(word, best, merged);
    const std::string left = vocabulary.tokens[best.first];
    const std::string right = vocabulary.tokens[best.second];
    vocabulary.merges.emplace_back(left, right);
    vocabulary.tokens.push_back(left + right);
  }
  return vocabulary;
}

Json special_token(std::uint32_t id, const char* content) {
  return Json{{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
              {"rstrip", false}, {"normalized", false}, {"special", true}};
}

Json byte_level(bool use_regex) {
  return Json{{"type", "ByteLevel"},
              {"add_prefix_space", false},
              {"trim_offsets", true},
              {"use_regex", use_regex}};
}

Json tokenizer_json(const Vocabulary& vocabulary) {
  Json vocab = Json::object();
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) vocab[vocabulary.tokens[i]] = i;
  Json merges = Json::array();
  for (const auto& [left, right] : vocabulary.merges) merges.push_back(left + " " + right);
  Json json;
  json["version"] = "1.0";
  json["truncation"] = nullptr;
  json["padding"] = nullptr;
  json["added_tokens"] = Json::array({special_token(0, kBegin), special_token(1, kEnd)});
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = Json{
      {"type", "Sequence"},
      {"pretokenizers",
       Json::array({Json{{"type", "Digits"}, {"individual_digits", true}}, byte_level(true)})}};
  json["post_processor"] = nullptr;
  json["decoder"] = byte_level(true);
  json["model"] = Json{{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"ignore_merges", false},
                       {"vocab", std::move(vocab)},
                       {"merges", std::move(merges)}};
  return json;
}

bool write(const std::string& path, const Json& json) {
  std::ofstream file(path, std::ios::binary);
  file << json.dump(1) << '\n';
  file.close();
  if (!file) std::fprintf(stderr, "train_tokenizer: cannot write %s\n", path.c_str());
  return static_cast<bool>(file);
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t size = 0;
  const std::string_view wanted = argc == 4 ? argv[2] : "";
  if (argc != 4 || std::from_chars(wanted.begin(), wanted.end(), size).ec != std::errc() ||
      size < 258) {
    std::fprintf(stderr, "usage: train_tokenizer TEXT VOCAB FOLDER   (VOCAB at least 258)\n");
    return 2;
  }
  std::ifstream file(argv[1], std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (text.empty()) {
    std::fprintf(stderr, "train_tokenizer: %s is missing or empty\n", argv[1]);
    return 4;
  }
  const Vocabulary vocabulary = train(text, size);
  const std::string folder = argv[3];
  const Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                       {"add_bos_token", true},
                       {"add_eos_token", false},
                       {"bos_token", kBegin},
                       {"eos_token", kEnd},
                       {"clean_up_tokenization_spaces", false},
                       {"model_max_length", 512}};
  const bool done = write(folder + "/tokenizer.json", tokenizer_json(vocabulary)) &&
                    write(folder + "/tokenizer_config.json", config);
  return done ? 0 : 4;
}
