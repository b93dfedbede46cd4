// Normalizer, pre-tokenizer, post-processor and decoder of tokenizer.json. What is not understood
// is refused by name: a skipped step would give other ids in silence.

#include <string>
#include <utility>

#include "model/byte_level.h"
#include "model/tokenizer_data.h"

namespace elastiq {
namespace {

Error unsupported(const std::string& subject, const std::string& where, const std::string& found,
                  const std::string& allowed) {
  return Error{ErrorCode::kUnsupportedType, subject,
               where + " is " + found + ", supported: " + allowed, 0};
}

// The type of a component; "" for null or absent.
Result<std::string> type_of(const Json& json, const std::string& subject) {
  if (json.is_null()) return std::string();
  ELQ_TRY(type, json_string_or(json, "type", "", subject));
  if (type.empty()) return Error{ErrorCode::kMissing, subject, "a component without a type", 0};
  return type;
}

const Json& member(const Json& json, const char* key) {
  static const Json kNull;
  const auto found = json.find(key);
  return found == json.end() ? kNull : *found;
}

// {"String": text} or {"Regex": pattern}, as a pattern.
Result<std::string> read_pattern(const Json& json, const std::string& subject) {
  const Json& pattern = member(json, "pattern");
  if (pattern.is_object()) {
    ELQ_TRY(regex, json_string_or(pattern, "Regex", "", subject));
    ELQ_TRY(text, json_string_or(pattern, "String", "", subject));
    if (!regex.empty()) return regex;
    if (!text.empty()) return regex_literal(text);
  }
  return Error{ErrorCode::kMissing, subject, "a pattern needs a String or a Regex", 0};
}

// ---------------------------------------------------------------- normalizer

Status load_normalizer(const Json& json, const std::string& subject, TokenizerData& data) {
  ELQ_TRY(type, type_of(json, subject));
  if (type.empty()) return ok_status();
  if (type == "Sequence") {
    for (const Json& part : member(json, "normalizers")) {
      ELQ_CHECK(load_normalizer(part, subject, data));
    }
    return ok_status();
  }
  NormalizerStep step;
  if (type == "Prepend") {
    ELQ_TRY(prefix, json_string_or(json, "prepend", "", subject));
    step.content = std::move(prefix);
    data.normalizer.push_back(std::move(step));
    return ok_status();
  }
  const Json& pattern = member(json, "pattern");
  const bool literal = type == "Replace" && pattern.is_object() && pattern.contains("String");
  if (!literal) {
    return unsupported(subject, "normalizer", type, "Prepend, Replace of a String, Sequence");
  }
  ELQ_TRY(from, json_string_or(pattern, "String", "", subject));
  ELQ_TRY(to, json_string_or(json, "content", "", subject));
  if (from.empty()) return Error{ErrorCode::kInconsistent, subject, "Replace of an empty text", 0};
  step.pattern = std::move(from);
  step.content = std::move(to);
  data.normalizer.push_back(std::move(step));
  return ok_status();
}

// ---------------------------------------------------------------- pre-tokenizer

Status add_regex(PieceStep::Kind kind, const std::string& pattern, const std::string& subject,
                 TokenizerData& data) {
  PieceStep step;
  step.kind = kind;
  ELQ_TRY(regex, Regex::compile(pattern, subject));
  step.regex = std::move(regex);
  data.steps.push_back(std::move(step));
  return ok_status();
}

Status load_split(const Json& json, const std::string& subject, TokenizerData& data) {
  ELQ_TRY(pattern, read_pattern(json, subject));
  ELQ_TRY(behavior, json_string_or(json, "behavior", "Isolated", subject));
  ELQ_TRY(invert, json_bool_or(json, "invert", false, subject));
  // Isolated cuts at the same places either way.
  if (behavior == "Isolated") return add_regex(PieceStep::Kind::kIsolate, pattern, subject, data);
  if (behavior != "Removed") {
    return unsupported(subject, "Split behavior", behavior, "Isolated, Removed");
  }
  const auto kind = invert ? PieceStep::Kind::kDropRest : PieceStep::Kind::kDropMatches;
  return add_regex(kind, pattern, subject, data);
}

// prepend_scheme, or add_prefix_space of older files.
Result<PieceStep::Prefix> read_prefix(const Json& json, const std::string& subject) {
  ELQ_TRY(add, json_bool_or(json, "add_prefix_space", true, subject));
  ELQ_TRY(scheme, json_string_or(json, "prepend_scheme", add ? "always" : "never", subject));
  if (scheme == "always") return PieceStep::Prefix::kAlways;
  if (scheme == "first") return PieceStep::Prefix::kFirst;
  if (scheme == "never") return PieceStep::Prefix::kNever;
  return unsupported(subject, "prepend_scheme", scheme, "always, first, never");
}

Status load_metaspace(const Json& json, const std::string& subject, TokenizerData& data) {
  ELQ_TRY(replacement, json_string_or(json, "replacement", std::string(kMetaspace), subject));
  if (replacement != kMetaspace) {
    return unsupported(subject, "Metaspace replacement", replacement, std::string(kMetaspace));
  }
  PieceStep step;
  step.kind = PieceStep::Kind::kSpaces;
  ELQ_TRY(prefix, read_prefix(json, subject));
  ELQ_TRY(split, json_bool_or(json, "split", true, subject));
  step.prefix = prefix;
  step.split = split;
  data.steps.push_back(std::move(step));
  return ok_status();
}

Status load_byte_level(const Json& json, const std::string& subject, TokenizerData& data) {
  data.kind = TokenizerData::Kind::kByteLevel;
  ELQ_TRY(prefix, json_bool_or(json, "add_prefix_space", true, subject));
  ELQ_TRY(use_regex, json_bool_or(json, "use_regex", true, subject));
  if (prefix) {
    PieceStep step;
    step.kind = PieceStep::Kind::kPrefixSpace;
    data.steps.push_back(std::move(step));
  }
  if (!use_regex) return ok_status();
  return add_regex(PieceStep::Kind::kIsolate, kByteLevelPattern, subject, data);
}

Status load_pre_tokenizer(const Json& json, const std::string& subject, TokenizerData& data) {
  ELQ_TRY(type, type_of(json, subject));
  if (type.empty()) return ok_status();
  if (type == "Sequence") {
    for (const Json& part : member(json, "pretokenizers")) {
      ELQ_CHECK(load_pre_tokenizer(part, subject, data));
    }
    return ok_status();
  }
  if (data.kind == TokenizerData::Kind::kByteLevel) {
    return unsupported(subject, "pre-tokenizer after ByteLevel", type, "none");
  }
  if (type == "ByteLevel") return load_byte_level(json, subject, data);
  if (type == "Split") return load_split(json, subject, data);
  if (type == "Metaspace") return load_metaspace(json, subject, data);
  if (type == "Digits") {
    ELQ_TRY(single, json_bool_or(json, "individual_digits", false, subject));
    return add_regex(PieceStep::Kind::kIsolate, single ? "\\p{N}" : "\\p{N}+", subject, data);
  }
  return unsupported(subject, "pre-tokenizer", type,
                     "ByteLevel, Digits, Split, Metaspace, Sequence");
}

// ---------------------------------------------------------------- decoder and post-processor

Status load_decoder(const Json& json, const std::string& subject, TokenizerData& data) {
  ELQ_TRY(type, type_of(json, subject));
  if (type == "Sequence") {
    for (const Json& part : member(json, "decoders")) {
      ELQ_CHECK(load_decoder(part, subject, data));
    }
    return ok_status();
  }
  if (type == "Strip") {
    ELQ_TRY(content, json_string_or(json, "content", " ", subject));
    ELQ_TRY(start, json_int_or(json, "start", 0, 0, 1, subject));
    if (content != " ") return unsupported(subject, "Strip content", content, "a space");
    data.strip_prefix = start == 1;
    return ok_status();
  }
  if (type == "Metaspace") {
    ELQ_TRY(prefix, read_prefix(json, subject));
    data.strip_prefix = prefix != PieceStep::Prefix::kNever;
    return ok_status();
  }
  const bool known = type.empty() || type == "ByteLevel" || type == "ByteFallback" ||
                     type == "Fuse" || type == "Replace";
  if (known) return ok_status();
  return unsupported(subject, "decoder", type,
                     "ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace, Sequence");
}

Status load_template(const Json& json, const std::string& subject, TokenizerData& data) {
  const Json& single = member(json, "single");
  if (!single.is_array() || single.empty()) return ok_status();
  const Json& token = member(single[0], "SpecialToken");
  if (!token.is_object()) return ok_status();
  ELQ_TRY(name, json_string_or(token, "id", "", subject));
  const Json& ids = member(member(member(json, "special_tokens"), name.c_str()), "ids");
  const bool valid = ids.is_array() && ids.size() == 1 && ids[0].is_number_unsigned();
  if (!valid) {
    return Error{ErrorCode::kInconsistent, subject,
                 "the template begins with " + name + ", which has not exactly one id", 0};
  }
  const auto id = ids[0].get<std::uint64_t>();
  if (id >= UINT32_MAX) {
    return Error{ErrorCode::kLimitExceeded, subject,
                 "the template gives " + name + " the id " + std::to_string(id), 0};
  }
  data.template_bos_name = std::move(name);
  data.template_bos = static_cast<std::int64_t>(id);
  return ok_status();
}

Status load_post_processor(const Json& json, const std::string& subject, TokenizerData& data) {
  ELQ_TRY(type, type_of(json, subject));
  if (type == "Sequence") {
    for (const Json& part : member(json, "processors")) {
      ELQ_CHECK(load_post_processor(part, subject, data));
    }
    return ok_status();
  }
  if (type == "TemplateProcessing") return load_template(json, subject, data);
  if (type.empty() || type == "ByteLevel") return ok_status();
  return unsupported(subject, "post-processor", type, "ByteLevel, TemplateProcessing, Sequence");
}

}  // namespace

Status load_pipeline(const Json& json, const std::string& subject, TokenizerData& data) {
  data.kind = TokenizerData::Kind::kSentencePiece;
  ELQ_CHECK(load_normalizer(member(json, "normalizer"), subject + ": normalizer", data));
  ELQ_CHECK(load_pre_tokenizer(member(json, "pre_tokenizer"), subject + ": pre_tokenizer", data));
  bool spaces = !data.normalizer.empty();
  for (const PieceStep& step : data.steps) spaces |= step.kind == PieceStep::Kind::kSpaces;
  if (data.kind == TokenizerData::Kind::kSentencePiece && !spaces) {
    return unsupported(subject, "pre-tokenizer", "neither byte-level nor SentencePiece style",
                       "ByteLevel, Metaspace, or a normalizer that replaces spaces");
  }
  ELQ_CHECK(load_decoder(member(json, "decoder"), subject + ": decoder", data));
  return load_post_processor(member(json, "post_processor"), subject + ": post_processor", data);
}

}  // namespace elastiq
