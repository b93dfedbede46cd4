#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "model/byte_level.h"
#include "model/tokenizer_data.h"

namespace elastiq {
namespace {

// A vocabulary of four million rows is four times the largest known one.
constexpr std::int64_t kMaxId = (std::int64_t{1} << 22) - 1;

Error inconsistent(const std::string& subject, const std::string& detail) {
  return Error{ErrorCode::kInconsistent, subject, detail, 0};
}

Error missing(const std::string& subject, const std::string& detail) {
  return Error{ErrorCode::kMissing, subject, detail, 0};
}

// ---------------------------------------------------------------- token texts to bytes

/// Byte of each code point of the byte-level alphabet; all are below 0x180.
std::array<std::int16_t, 0x180> alphabet_bytes() {
  std::array<std::int16_t, 0x180> bytes{};
  bytes.fill(-1);
  const auto alphabet = byte_level_alphabet();
  for (std::size_t b = 0; b < 256; ++b) bytes[alphabet[b]] = static_cast<std::int16_t>(b);
  return bytes;
}

/// Bytes that a byte-level token stands for; nothing when it has a character outside the alphabet.
std::optional<std::string> byte_level_bytes(std::string_view token,
                                            const std::array<std::int16_t, 0x180>& bytes) {
  std::string out;
  for (std::size_t i = 0; i < token.size(); ++i) {
    auto code = static_cast<unsigned>(static_cast<unsigned char>(token[i]));
    if (code >= 0x80) {
      const bool two_bytes = (code & 0xe0) == 0xc0 && i + 1 < token.size();
      if (!two_bytes) return std::nullopt;
      code = ((code & 0x1f) << 6) | (static_cast<unsigned char>(token[++i]) & 0x3fu);
    }
    if (code >= bytes.size() || bytes[code] < 0) return std::nullopt;
    out += static_cast<char>(bytes[code]);
  }
  return out;
}

std::string with_spaces(std::string_view token) {
  std::string out;
  while (!token.empty()) {
    const bool space = token.starts_with(kMetaspace);
    out += space ? ' ' : token[0];
    token.remove_prefix(space ? kMetaspace.size() : 1);
  }
  return out;
}

// ---------------------------------------------------------------- vocabulary

Result<std::uint32_t> read_id(const Json& json, const std::string& token,
                              const std::string& subject) {
  const bool valid = json.is_number_unsigned() && json <= kMaxId;
  if (valid) return json.get<std::uint32_t>();
  return inconsistent(subject, "token " + token + " has id " + json.dump() +
                                   ", allowed are integers from 0 to " + std::to_string(kMaxId));
}

/// Texts by id; an empty optional is a gap.
using Texts = std::vector<std::optional<std::string>>;

Status add_text(const std::string& token, std::uint32_t id, const std::string& subject,
                Texts& texts) {
  if (id >= texts.size()) texts.resize(std::size_t{id} + 1);
  if (texts[id] && *texts[id] != token) {
    return Error{ErrorCode::kDuplicate, subject,
                 "id " + std::to_string(id) + " is given to " + *texts[id] + " and to " + token, 0};
  }
  texts[id] = token;
  return ok_status();
}

Status load_vocabulary(const Json& vocab, const std::string& subject, TokenizerData& data,
                       Texts& texts) {
  for (const auto& [token, value] : vocab.items()) {
    ELQ_TRY(id, read_id(value, token, subject));
    ELQ_CHECK(add_text(token, id, subject, texts));
    data.ids.emplace(token, id);
  }
  return ok_status();
}

// Bytes of every token, and the tokens that single characters and bytes begin as.
void index_vocabulary(const Texts& texts, TokenizerData& data) {
  const auto alphabet = alphabet_bytes();
  const bool byte_level = data.kind == TokenizerData::Kind::kByteLevel;
  data.byte_ids.fill(kNoToken);
  data.fallback_ids.fill(kNoToken);
  data.bytes.resize(texts.size());
  data.is_special.assign(texts.size(), 0);
  for (std::size_t id = 0; id < texts.size(); ++id) {
    if (!texts[id]) continue;
    const std::string& token = *texts[id];
    const auto mapped = byte_level ? byte_level_bytes(token, alphabet) : token;
    data.bytes[id] = byte_level ? mapped.value_or(token) : with_spaces(token);
    if (!mapped) continue;
    data.by_bytes.emplace(*mapped, static_cast<std::uint32_t>(id));
    if (mapped->size() != 1) continue;
    data.byte_ids[static_cast<unsigned char>((*mapped)[0])] = static_cast<std::int32_t>(id);
  }
  if (!data.byte_fallback) return;
  for (unsigned b = 0; b < 256; ++b) {
    std::array<char, 8> name{};
    std::snprintf(name.data(), name.size(), "<0x%02X>", b);
    const auto found = data.ids.find(std::string_view(name.data()));
    if (found == data.ids.end()) continue;
    data.fallback_ids[b] = static_cast<std::int32_t>(found->second);
    data.bytes[found->second] = std::string(1, static_cast<char>(b));
  }
}

// ---------------------------------------------------------------- merges

struct MergeTexts {
  std::string_view left;
  std::string_view right;
};

// "a b" of older files, ["a", "b"] of newer ones.
std::optional<MergeTexts> merge_texts(const Json& merge) {
  if (merge.is_array()) {
    const bool pair = merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    if (!pair) return std::nullopt;
    return MergeTexts{merge[0].get_ref<const std::string&>(),
                      merge[1].get_ref<const std::string&>()};
  }
  if (!merge.is_string()) return std::nullopt;
  const std::string_view text = merge.get_ref<const std::string&>();
  const std::size_t space = text.find(' ');
  const bool one_space = space != std::string_view::npos && space > 0 && space + 1 < text.size() &&
                         text.find(' ', space + 1) == std::string_view::npos;
  if (!one_space) return std::nullopt;
  return MergeTexts{text.substr(0, space), text.substr(space + 1)};
}

Status load_merges(const Json& merges, const std::string& subject, TokenizerData& data) {
  data.merges.resize(merges.size());
  std::string joined;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string number = "merge " + std::to_string(rank);
    const auto texts = merge_texts(merges[rank]);
    if (!texts) {
      return inconsistent(subject, number + " is " + merges[rank].dump() +
                                       ", expected two tokens as \"a b\" or [\"a\", \"b\"]");
    }
    joined.assign(texts->left).append(texts->right);
    const auto left = data.ids.find(texts->left);
    const auto right = data.ids.find(texts->right);
    const auto merged = data.ids.find(joined);
    const bool known =
        left != data.ids.end() && right != data.ids.end() && merged != data.ids.end();
    if (!known) {
      return inconsistent(subject, number + " joins " + std::string(texts->left) + " and " +
                                       std::string(texts->right) +
                                       "; one of these or their join is not in the vocabulary");
    }
    data.merges.insert(left->second, right->second,
                       MergeRule{static_cast<std::uint32_t>(rank), merged->second});
  }
  return ok_status();
}

// ---------------------------------------------------------------- model and added tokens

Status check_model(const Json& model, const std::string& subject) {
  if (!model.is_object()) return missing(subject, "not an object");
  ELQ_TRY(type, json_string_or(model, "type", "BPE", subject));
  if (type != "BPE") {
    return Error{ErrorCode::kUnsupportedType, subject, "type is " + type + ", supported is BPE", 0};
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    ELQ_TRY(text, json_string_or(model, key, "", subject));
    if (text.empty()) continue;
    return Error{ErrorCode::kUnsupportedType, subject,
                 std::string(key) + " is " + text + ", supported is none", 0};
  }
  ELQ_TRY(dropout, json_double_or(model, "dropout", 0, subject));
  if (dropout != 0) {
    return Error{ErrorCode::kUnsupportedType, subject, "dropout makes ids random", 0};
  }
  const auto vocab = model.find("vocab");
  if (vocab == model.end() || !vocab->is_object() || vocab->empty()) {
    return missing(subject, "no vocab, or an empty one");
  }
  const auto merges = model.find("merges");
  if (merges == model.end() || !merges->is_array()) {
    return missing(subject, "no merges: without them every text becomes single characters");
  }
  return ok_status();
}

Status load_model(const Json& model, const std::string& subject, TokenizerData& data,
                  Texts& texts) {
  ELQ_CHECK(check_model(model, subject));
  ELQ_TRY(unknown, json_string_or(model, "unk_token", "", subject));
  ELQ_TRY(fuse, json_bool_or(model, "fuse_unk", false, subject));
  ELQ_TRY(fallback, json_bool_or(model, "byte_fallback", false, subject));
  ELQ_TRY(ignore, json_bool_or(model, "ignore_merges", false, subject));
  data.fuse_unknown = fuse;
  data.byte_fallback = fallback;
  data.ignore_merges = ignore;
  ELQ_CHECK(load_vocabulary(*model.find("vocab"), subject + ": vocab", data, texts));
  const auto found = data.ids.find(unknown);
  if (found != data.ids.end()) data.unknown = static_cast<std::int32_t>(found->second);
  if (!unknown.empty() && found == data.ids.end()) {
    return inconsistent(subject, "unk_token " + unknown + " is not in the vocabulary");
  }
  index_vocabulary(texts, data);
  return load_merges(*model.find("merges"), subject + ": merges", data);
}

Result<AddedToken> read_added(const Json& json, const std::string& subject) {
  AddedToken token;
  ELQ_TRY(content, json_string_or(json, "content", "", subject));
  if (content.empty()) return missing(subject, "an added token without content");
  const auto id_member = json.find("id");
  if (id_member == json.end()) return missing(subject, "token " + content + " has no id");
  ELQ_TRY(id, read_id(*id_member, content, subject));
  ELQ_TRY(single_word, json_bool_or(json, "single_word", false, subject));
  ELQ_TRY(lstrip, json_bool_or(json, "lstrip", false, subject));
  ELQ_TRY(rstrip, json_bool_or(json, "rstrip", false, subject));
  ELQ_TRY(normalized, json_bool_or(json, "normalized", false, subject));
  ELQ_TRY(special, json_bool_or(json, "special", false, subject));
  token = AddedToken{std::move(content), id, single_word, lstrip, rstrip, normalized, special};
  return token;
}

// Added tokens may repeat an entry of the vocabulary if text and id agree.
Status load_added(const Json& list, const std::string& subject, TokenizerData& data, Texts& texts) {
  for (const Json& json : list) {
    ELQ_TRY(token, read_added(json, subject));
    ELQ_CHECK(add_text(token.content, token.id, subject, texts));
    const auto [at, added] = data.ids.emplace(token.content, token.id);
    if (!added && at->second != token.id) {
      return inconsistent(subject, token.content + " has the ids " + std::to_string(at->second) +
                                       " and " + std::to_string(token.id));
    }
    if (token.id >= data.bytes.size()) {
      data.bytes.resize(std::size_t{token.id} + 1);
      data.is_special.resize(std::size_t{token.id} + 1);
    }
    data.bytes[token.id] = token.content;
    data.is_special[token.id] = token.special ? 1 : 0;
    const bool raw = !token.normalized || data.normalizer.empty();
    if (raw) {
      data.raw_added.add(token.content, token);
    } else {
      data.normalized_added.add(normalize(data.normalizer, token.content), token);
    }
    data.added.push_back(std::move(token));
  }
  ELQ_CHECK(data.raw_added.prepare(subject));
  return data.normalized_added.prepare(subject);
}

// The template is read before there is a vocabulary.
Status check_template(const std::string& subject, const TokenizerData& data) {
  if (data.template_bos < 0) return ok_status();
  const auto found = data.ids.find(data.template_bos_name);
  const bool same = found != data.ids.end() && std::int64_t{found->second} == data.template_bos;
  if (same) return ok_status();
  return inconsistent(
      subject,
      "the template gives " + data.template_bos_name + " the id " +
          std::to_string(data.template_bos) + "; in the vocabulary it " +
          (found == data.ids.end() ? "is missing" : "has the id " + std::to_string(found->second)));
}

}  // namespace

Result<TokenizerData> load_tokenizer(std::string_view tokenizer_json,
                                     std::string_view tokenizer_config_json,
                                     const std::string& subject) {
  ELQ_TRY(json, parse_json(tokenizer_json, subject, JsonLimits{}));
  if (!json.is_object()) return inconsistent(subject, "not a JSON object");
  TokenizerData data;
  Texts texts;
  ELQ_CHECK(load_pipeline(json, subject, data));
  const auto model = json.find("model");
  if (model == json.end()) return missing(subject, "no model");
  ELQ_CHECK(load_model(*model, subject + ": model", data, texts));
  const auto added = json.find("added_tokens");
  const Json none = Json::array();
  ELQ_CHECK(load_added(added == json.end() || added->is_null() ? none : *added,
                       subject + ": added_tokens", data, texts));
  ELQ_CHECK(check_template(subject + ": post_processor", data));
  Json config = Json::object();
  if (!tokenizer_config_json.empty()) {
    ELQ_TRY(parsed, parse_json(tokenizer_config_json, subject + " (config)", JsonLimits{}));
    config = std::move(parsed);
  }
  ELQ_CHECK(load_settings(config, subject + " (config)", data));
  return data;
}

}  // namespace elastiq
