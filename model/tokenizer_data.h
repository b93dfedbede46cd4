#pragma once

// Inside of model/tokenizer*.cc: what a tokenizer.json says, ready to be used.

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "model/regex.h"

namespace elastiq {

inline constexpr std::int32_t kNoToken = -1;

/// U+2581, which stands for a space in SentencePiece vocabularies.
inline constexpr std::string_view kMetaspace = "\xe2\x96\x81";

struct StringHash {
  using is_transparent = void;

  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

template <class T>
using StringMap = std::unordered_map<std::string, T, StringHash, std::equal_to<>>;

// ---------------------------------------------------------------- merges

struct MergeRule {
  std::uint32_t rank = 0;
  std::uint32_t merged = 0;
};

/// Pairs of ids to rules: open addressing, at most half full.
class MergeTable {
 public:
  void resize(std::size_t rules);
  /// A pair that is there already takes the new rule, as in the Hugging Face library.
  void insert(std::uint32_t left, std::uint32_t right, MergeRule rule);
  const MergeRule* find(std::uint32_t left, std::uint32_t right) const;

 private:
  struct Slot {
    std::uint64_t key = kEmpty;
    MergeRule rule;
  };

  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  std::size_t slot_of(std::uint64_t key) const;

  std::vector<Slot> slots_ = std::vector<Slot>(2);
};

/// Applies merges to a word, lowest rank first, leftmost first among equals. O(n log n).
class BpeMerger {
 public:
  void merge(const MergeTable& table, std::vector<std::uint32_t>& symbols);

 private:
  struct Candidate {
    std::uint32_t rank;
    std::uint32_t position;
    std::uint32_t merged;
  };

  void offer(const MergeTable& table, const std::vector<std::uint32_t>& symbols,
             std::uint32_t position);

  std::vector<std::uint32_t> next_;
  std::vector<std::uint32_t> previous_;
  std::vector<Candidate> heap_;
};

// ---------------------------------------------------------------- text to pieces

/// One step of the pre-tokenizer.
struct PieceStep {
  enum class Kind {
    kIsolate,      ///< Cut before and after each match.
    kDropMatches,  ///< Keep what lies between matches.
    kDropRest,     ///< Keep the matches.
    kPrefixSpace,  ///< A space before a piece that does not begin with one.
    kSpaces        ///< Spaces to U+2581, prefix by scheme, cut before each when `split`.
  } kind = Kind::kIsolate;
  enum class Prefix { kNever, kFirst, kAlways } prefix = Prefix::kNever;
  bool split = false;
  Regex regex;
};

struct NormalizerStep {
  std::string pattern;  ///< Empty: prepend `content`; else replace all.
  std::string content;
};

struct PieceScratch {
  RegexScratch regex;
  std::deque<std::string> storage;  ///< Owner of changed pieces.
  std::vector<std::string_view> pieces;
  std::vector<std::string_view> next;
};

/// Where a part of a text stands: some steps treat the first piece of a text differently.
enum class TextPlace { kStart, kLater };

/// Cuts text into scratch.pieces; views into text or scratch.storage.
void cut_pieces(const std::vector<PieceStep>& steps, std::string_view text, TextPlace place,
                PieceScratch& scratch);

std::string normalize(const std::vector<NormalizerStep>& steps, std::string_view text);

// ---------------------------------------------------------------- added tokens

struct AddedToken {
  std::string content;
  std::uint32_t id = 0;
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
  bool normalized = false;
  bool special = false;
};

/// A piece of text, or an added token in it.
struct TextPart {
  std::string_view text;
  std::int32_t token = kNoToken;
  std::size_t offset = 0;  ///< In the whole text.
};

/// Finds added tokens: leftmost, then longest.
class AddedTokenFinder {
 public:
  /// Before split(): pattern is the text to look for.
  void add(std::string pattern, const AddedToken& token);
  void split(std::string_view text, std::vector<TextPart>& parts, RegexScratch& scratch) const;
  Status prepare(const std::string& subject);

  bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    std::string pattern;
    AddedToken token;
  };

  const Entry* match(std::string_view text, std::size_t at, RegexScratch& scratch) const;

  std::vector<Entry> entries_;  ///< Longest first.
  std::array<std::vector<std::size_t>, 256> by_first_byte_;
  Regex word_;
};

// ---------------------------------------------------------------- all of it

struct TokenizerData {
  enum class Kind { kByteLevel, kSentencePiece } kind = Kind::kByteLevel;

  StringMap<std::uint32_t> ids;                  ///< By text as in the file, added tokens too.
  StringMap<std::uint32_t> by_bytes;             ///< Model tokens by the bytes they stand for.
  std::vector<std::string> bytes;                ///< By id, for decode.
  std::vector<std::uint8_t> is_special;          ///< By id.
  std::array<std::int32_t, 256> byte_ids{};      ///< Token of a single byte (or ASCII character).
  std::array<std::int32_t, 256> fallback_ids{};  ///< "<0x41>" and so on.
  std::int32_t unknown = kNoToken;
  bool fuse_unknown = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
  bool strip_prefix = false;  ///< Decoding removes one leading space.
  MergeTable merges;

  std::vector<NormalizerStep> normalizer;
  std::vector<PieceStep> steps;
  std::vector<AddedToken> added;
  AddedTokenFinder raw_added;         ///< Looked for in the text as given.
  AddedTokenFinder normalized_added;  ///< Looked for after the normalizer.

  std::string template_bos_name;         ///< From a TemplateProcessing post-processor.
  std::int64_t template_bos = kNoToken;  ///< Id of that name.
  bool add_bos = false;
  std::int64_t bos = kNoToken;
  std::int64_t eos = kNoToken;
  std::string chat_template;
};

inline constexpr std::uint64_t kMaxTokenizerFile = std::uint64_t{64} << 20;

/// Normalizer, pre-tokenizer, decoder and post-processor of tokenizer.json; sets the kind.
Status load_pipeline(const Json& json, const std::string& subject, TokenizerData& data);

/// tokenizer_config.json; the vocabulary is loaded before.
Status load_settings(const Json& json, const std::string& subject, TokenizerData& data);

Result<TokenizerData> load_tokenizer(std::string_view tokenizer_json,
                                     std::string_view tokenizer_config_json,
                                     const std::string& subject);

}  // namespace elastiq
