#include "model/tokenizer.h"

#include <algorithm>
#include <utility>

#include "core/file.h"
#include "model/tokenizer_data.h"

namespace elastiq {
namespace {

// Longer pieces are rare and rarely repeat.
constexpr std::size_t kMaxCachedBytes = 64;

/// Where a word's ids are in the encoder's list of cached ids.
struct CachedWord {
  std::size_t first = 0;
  std::size_t count = 0;
};

std::size_t character_bytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  if (byte < 0x80) return 1;
  if (byte < 0xe0) return 2;
  return byte < 0xf0 ? 3 : 4;
}

/// One call of encode.
class Encoder {
 public:
  Encoder(const TokenizerData& data, std::vector<std::uint32_t>& out) : data_(data), out_(out) {}

  const std::string& failure() const { return scratch_.regex.failure(); }

  void run(std::string_view text) {
    std::vector<TextPart> parts;
    data_.raw_added.split(text, parts, scratch_.regex);
    for (const TextPart& part : parts) {
      if (part.token != kNoToken) {
        out_.push_back(static_cast<std::uint32_t>(part.token));
      } else {
        part_without_raw_tokens(part);
      }
    }
  }

 private:
  void part_without_raw_tokens(const TextPart& part) {
    const TextPlace place = part.offset == 0 ? TextPlace::kStart : TextPlace::kLater;
    if (data_.normalizer.empty()) return plain(part.text, place);
    const std::string normalized = normalize(data_.normalizer, part.text);
    std::vector<TextPart> parts;
    data_.normalized_added.split(normalized, parts, scratch_.regex);
    for (const TextPart& inner : parts) {
      if (inner.token != kNoToken) {
        out_.push_back(static_cast<std::uint32_t>(inner.token));
      } else {
        plain(inner.text, inner.offset == 0 ? place : TextPlace::kLater);
      }
    }
  }

  void plain(std::string_view text, TextPlace place) {
    cut_pieces(data_.steps, text, place, scratch_);
    for (const std::string_view piece : scratch_.pieces) word(piece);
  }

  void word(std::string_view piece) {
    if (piece.size() > kMaxCachedBytes) {
      merge(piece);
      out_.insert(out_.end(), symbols_.begin(), symbols_.end());
      return;
    }
    auto found = cache_.find(piece);
    if (found == cache_.end()) {
      merge(piece);
      found = cache_.emplace(piece, CachedWord{cached_ids_.size(), symbols_.size()}).first;
      cached_ids_.insert(cached_ids_.end(), symbols_.begin(), symbols_.end());
    }
    const std::uint32_t* ids = cached_ids_.data() + found->second.first;
    out_.insert(out_.end(), ids, ids + found->second.count);
  }

  void merge(std::string_view piece) {
    symbols_.clear();
    unknown_before_ = false;
    const auto whole = data_.ignore_merges ? data_.by_bytes.find(piece) : data_.by_bytes.end();
    if (whole != data_.by_bytes.end()) {
      symbols_.push_back(whole->second);
      return;
    }
    if (data_.kind == TokenizerData::Kind::kByteLevel) {
      for (const char c : piece) {
        const std::int32_t id = data_.byte_ids[static_cast<unsigned char>(c)];
        id != kNoToken ? symbol(id) : unknown();
      }
    } else {
      characters(piece);
    }
    merger_.merge(data_.merges, symbols_);
  }

  void characters(std::string_view piece) {
    for (std::size_t at = 0; at < piece.size();) {
      const std::string_view character = piece.substr(at, character_bytes(piece[at]));
      at += character.size();
      if (character.size() == 1 && data_.byte_ids[static_cast<unsigned char>(character[0])] >= 0) {
        symbol(data_.byte_ids[static_cast<unsigned char>(character[0])]);
        continue;
      }
      const auto found = data_.by_bytes.find(character);
      found != data_.by_bytes.end() ? symbol(static_cast<std::int32_t>(found->second))
                                    : fall_back(character);
    }
  }

  // All bytes of a character have tokens, or the character is unknown.
  void fall_back(std::string_view character) {
    const auto id_of = [&](char c) { return data_.fallback_ids[static_cast<unsigned char>(c)]; };
    const bool complete = std::all_of(character.begin(), character.end(),
                                      [&](char c) { return id_of(c) != kNoToken; });
    if (!complete) return unknown();
    for (const char c : character) symbol(id_of(c));
  }

  void symbol(std::int32_t id) {
    symbols_.push_back(static_cast<std::uint32_t>(id));
    unknown_before_ = false;
  }

  // Without an unknown token the character is left out, as in the Hugging Face library.
  void unknown() {
    if (data_.unknown == kNoToken || (data_.fuse_unknown && unknown_before_)) return;
    symbols_.push_back(static_cast<std::uint32_t>(data_.unknown));
    unknown_before_ = true;
  }

  const TokenizerData& data_;
  std::vector<std::uint32_t>& out_;
  PieceScratch scratch_;
  BpeMerger merger_;
  std::vector<std::uint32_t> symbols_;
  bool unknown_before_ = false;
  StringMap<CachedWord> cache_;
  std::vector<std::uint32_t> cached_ids_;
};

// Matching relies on valid UTF-8, so a caller's mistake becomes U+FFFD and not undefined behaviour.
std::string replace_invalid(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t bad = std::min(find_invalid_utf8(text), text.size());
    out.append(text.substr(0, bad));
    if (bad == text.size()) break;
    out.append("\xef\xbf\xbd");
    text.remove_prefix(bad + 1);
  }
  return out;
}

}  // namespace

struct Tokenizer::State {
  TokenizerData data;
  std::string subject;

  /// Returns the reason of a search that was given up, or "".
  std::string encode(std::string_view text, std::vector<std::uint32_t>& ids) const {
    ids.reserve(text.size() / 3);
    Encoder encoder(data, ids);
    if (find_invalid_utf8(text) == std::string_view::npos) {
      encoder.run(text);
    } else {
      encoder.run(replace_invalid(text));
    }
    return encoder.failure();
  }
};

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::from_json(std::string_view tokenizer_json,
                                       std::string_view tokenizer_config_json,
                                       const std::string& subject) {
  ELQ_TRY(data, load_tokenizer(tokenizer_json, tokenizer_config_json, subject));
  return Tokenizer(std::make_unique<State>(State{std::move(data), subject}));
}

Result<Tokenizer> Tokenizer::open(const std::filesystem::path& folder) {
  const auto path = folder / "tokenizer.json";
  ELQ_TRY(has_tokenizer, path_exists(path));
  if (!has_tokenizer) {
    return Error{ErrorCode::kMissing, path.string(),
                 "no such file; a model folder needs tokenizer.json", 0};
  }
  ELQ_TRY(json, read_text_file(path, kMaxTokenizerFile));
  ELQ_TRY(config, read_tokenizer_config(folder));
  return from_json(json, config, path.string());
}

std::vector<std::uint32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::uint32_t> ids;
  state_->encode(text, ids);
  return ids;
}

Result<std::vector<std::uint32_t>> Tokenizer::try_encode(std::string_view text) const {
  std::vector<std::uint32_t> ids;
  const std::string failure = state_->encode(text, ids);
  if (failure.empty()) return ids;
  return Error{ErrorCode::kLimitExceeded, state_->subject, failure, 0};
}

std::string Tokenizer::decode(const std::vector<std::uint32_t>& ids) const {
  const TokenizerData& data = state_->data;
  std::string out;
  for (const std::uint32_t id : ids) {
    if (id < data.bytes.size() && data.is_special[id] == 0) out += data.bytes[id];
  }
  if (data.strip_prefix && out.starts_with(' ')) out.erase(0, 1);
  return out;
}

std::size_t Tokenizer::size() const {
  return state_->data.bytes.size();
}

bool Tokenizer::add_bos() const {
  return state_->data.add_bos;
}

std::int64_t Tokenizer::bos() const {
  return state_->data.bos;
}

std::int64_t Tokenizer::eos() const {
  return state_->data.eos;
}

const std::string& Tokenizer::chat_template() const {
  return state_->data.chat_template;
}

std::int64_t Tokenizer::id_of(std::string_view token) const {
  const auto found = state_->data.ids.find(token);
  return found == state_->data.ids.end() ? -1 : std::int64_t{found->second};
}

}  // namespace elastiq
