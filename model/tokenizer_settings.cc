#include <utility>

#include "core/file.h"
#include "model/tokenizer.h"
#include "model/tokenizer_data.h"

namespace elastiq {
namespace {

// "<s>", or {"content": "<s>", ...} of older files.
Result<std::string> token_text(const Json& json, const char* key, const std::string& subject) {
  const auto found = json.find(key);
  if (found != json.end() && found->is_object()) {
    return json_string_or(*found, "content", "", subject);
  }
  return json_string_or(json, key, "", subject);
}

Result<std::int64_t> token_id(const Json& json, const char* key, const std::string& subject,
                              const TokenizerData& data) {
  ELQ_TRY(text, token_text(json, key, subject));
  if (text.empty()) return std::int64_t{kNoToken};
  const auto found = data.ids.find(text);
  if (found != data.ids.end()) return std::int64_t{found->second};
  return Error{ErrorCode::kInconsistent, subject,
               std::string(key) + " is " + text + ", which is not in the vocabulary", 0};
}

// A text, or a list of named templates of which "default" is taken.
Result<std::string> read_chat_template(const Json& json, const std::string& subject) {
  const auto found = json.find("chat_template");
  if (found == json.end() || !found->is_array()) {
    return json_string_or(json, "chat_template", "", subject);
  }
  for (const Json& entry : *found) {
    ELQ_TRY(name, json_string_or(entry, "name", "", subject));
    if (name == "default") return json_string_or(entry, "template", "", subject);
  }
  return std::string();
}

// Into a list of named templates as the default one.
void put_chat_template(const std::string& text, Json& config) {
  Json& place = config["chat_template"];
  if (place.is_array()) {
    place.push_back(Json{{"name", "default"}, {"template", text}});
  } else {
    place = text;
  }
}

}  // namespace

Result<std::string> read_tokenizer_config(const std::filesystem::path& folder) {
  const auto path = folder / "tokenizer_config.json";
  const auto chat_path = folder / "chat_template.jinja";
  std::string config;
  if (std::filesystem::exists(path)) {
    ELQ_TRY(text, read_text_file(path, kMaxTokenizerFile));
    config = std::move(text);
  }
  if (!std::filesystem::exists(chat_path)) return config;
  ELQ_TRY(json, parse_json(config.empty() ? "{}" : config, path.string(), JsonLimits{}));
  if (!json.is_object()) return config;  // Refused where it is used.
  ELQ_TRY(known, read_chat_template(json, path.string()));
  if (!known.empty()) return config;
  ELQ_TRY(chat, read_text_file(chat_path, kMaxTokenizerFile));
  if (chat.empty()) return config;
  put_chat_template(chat, json);
  return dump_json(json);
}

Status load_settings(const Json& json, const std::string& subject, TokenizerData& data) {
  if (!json.is_object()) {
    return Error{ErrorCode::kInconsistent, subject, "not a JSON object", 0};
  }
  ELQ_TRY(bos, token_id(json, "bos_token", subject, data));
  ELQ_TRY(eos, token_id(json, "eos_token", subject, data));
  data.bos = bos >= 0 ? bos : data.template_bos;
  data.eos = eos;
  // The flag, where it is given, has been set by a person; the template is the converter's.
  ELQ_TRY(add_bos, json_bool_or(json, "add_bos_token", data.template_bos >= 0, subject));
  data.add_bos = add_bos;
  if (add_bos && data.bos < 0) {
    return Error{ErrorCode::kInconsistent, subject,
                 "add_bos_token is true, but no bos_token is given", 0};
  }
  ELQ_TRY(chat_template, read_chat_template(json, subject));
  data.chat_template = std::move(chat_template);
  return ok_status();
}

}  // namespace elastiq
