#include "recipes/recipe_document.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "recipes/option_json.h"
#include "recipes/stage_options.h"

namespace elastiq {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxExtends = 8;
constexpr JsonLimits kRecipeLimits = {
    .max_bytes = 4u << 20, .max_depth = 32, .comments = JsonLimits::Comments::kAllow};

Error recipe_error(const fs::path& file, const std::string& detail) {
  return Error{ErrorCode::kRecipe, file.string(), detail};
}

/// Whatever is wrong with a recipe file is a bad recipe to the caller, with the reader's words.
Result<Json> read_file(const fs::path& file) {
  auto json = read_json_file(file, kRecipeLimits);
  if (!json.ok()) {
    Error error = std::move(json).error();
    error.detail = std::string(code_name(error.code)) + ": " + error.detail;
    error.code = ErrorCode::kRecipe;
    return error;
  }
  if (!json.value().is_object()) {
    return recipe_error(
        file, std::string("/: found ") + json.value().type_name() + ", expected an object");
  }
  return json;
}

/// Objects merge, everything else replaces.
void merge(Json& base, const Json& over) {
  for (const auto& [key, value] : over.items()) {
    if (value.is_object() && base.contains(key) && base[key].is_object()) {
      merge(base[key], value);
    } else {
      base[key] = value;
    }
  }
}

Status check_version(const Json& json, const fs::path& file) {
  const auto version = json.find("version");
  if (version == json.end()) return recipe_error(file, "/version: missing, expected 1");
  if (*version == 1) return ok_status();
  const bool newer = version->is_number_integer() && version->get<std::int64_t>() > 1;
  return recipe_error(file, "/version: found " + version->dump() + ", this program reads 1" +
                                (newer ? "; the recipe needs a newer elastiq" : ""));
}

Result<std::vector<fs::path>> parents(const Json& json, const fs::path& file) {
  std::vector<fs::path> out;
  const auto extends = json.find("extends");
  if (extends == json.end()) return out;
  const Json list = extends->is_array() ? *extends : Json::array({*extends});
  for (const Json& entry : list) {
    if (!entry.is_string()) {
      return recipe_error(
          file, "/extends: found " + entry.dump() + ", expected a path or a list of paths");
    }
    out.push_back((file.parent_path() / entry.get<std::string>()).lexically_normal());
  }
  return out;
}

Result<Json> load_merged(const fs::path& file, std::vector<fs::path> chain) {
  if (std::find(chain.begin(), chain.end(), file) != chain.end()) {
    return recipe_error(chain.back(), "/extends: " + file.string() + " extends itself");
  }
  if (chain.size() >= kMaxExtends) {
    return recipe_error(file, "/extends: deeper than " + std::to_string(kMaxExtends) + " files");
  }
  chain.push_back(file);
  ELQ_TRY(json, read_file(file));
  ELQ_CHECK(check_version(json, file));
  ELQ_TRY(bases, parents(json, file));
  Json merged = Json::object();
  for (const fs::path& base : bases) {
    ELQ_TRY(part, load_merged(base, chain));
    merge(merged, part);
  }
  merge(merged, json);
  merged.erase("extends");
  return merged;
}

/// The element of a list that a part of a --set path names.
Json* list_element(Json& list, const std::string& part) {
  std::size_t index = 0;
  const auto [end, failed] = std::from_chars(part.data(), part.data() + part.size(), index);
  if (failed == std::errc() && end == part.data() + part.size()) {
    return index < list.size() ? &list[index] : nullptr;
  }
  for (Json& element : list) {
    if (!element.is_object()) continue;
    if (element.value("name", "") == part || element.value("id", "") == part) return &element;
  }
  return nullptr;
}

bool holds_path(const std::string& key) {
  return key.rfind("vars.", 0) == 0 || key.rfind("data.", 0) == 0 || key == "model";
}

/// What is no JSON is a text; JSON with a fault that a recipe file may not have is refused.
Result<Json> set_value(const std::string& key, const std::string& text) {
  auto parsed = parse_json(text, "--set " + key, JsonLimits{});
  if (!parsed.ok() && parsed.error().code != ErrorCode::kSyntax) {
    Error error = std::move(parsed).error();
    error.detail = std::string(code_name(error.code)) + ": " + error.detail;
    error.code = ErrorCode::kUsage;
    return error;
  }
  Json value = parsed.ok() ? std::move(parsed).value() : Json(text);
  std::error_code ignored;
  if (!text.empty() && holds_path(key) && fs::exists(text, ignored)) {
    value = fs::absolute(text).lexically_normal().string();
  }
  return value;
}

std::vector<std::string> split(const std::string& key) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', from)) {
    parts.push_back(key.substr(from, dot - from));
    from = dot + 1;
  }
  parts.push_back(key.substr(from));
  return parts;
}

Status apply_set(Json& document, const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Error{ErrorCode::kUsage, "--set " + text, "expected KEY=VALUE, e.g. vars.model=DIR"};
  }
  const std::string key = text.substr(0, equals);
  Json* at = &document;
  for (const std::string& part : split(key)) {
    if (part.empty()) return Error{ErrorCode::kUsage, "--set " + text, "an empty part in the key"};
    if (at->is_array()) {
      at = list_element(*at, part);
      if (at != nullptr) continue;
      return Error{ErrorCode::kUsage, "--set " + text,
                   "no list element has the name, id or index \"" + part + "\""};
    }
    if (!at->is_object() && !at->is_null()) {
      return Error{ErrorCode::kUsage, "--set " + text,
                   "\"" + part + "\" lies below a value that is no object"};
    }
    at = &(*at)[part];
  }
  ELQ_TRY(value, set_value(key, text.substr(equals + 1)));
  *at = std::move(value);
  return ok_status();
}

/// Replaces ${vars.name} in every text; a text that is one variable alone takes its type too.
/// Variables may stand in variables.
class Variables {
 public:
  Variables(const Json& vars, std::vector<std::string>& problems)
      : vars_(vars), problems_(problems) {}

  void fill(Json& value, const std::string& pointer) {
    if (value.is_string()) return fill_text(value, pointer);
    if (value.is_object()) {
      for (auto& [key, inner] : value.items()) fill(inner, pointer + pointer_token(key));
    }
    if (value.is_array()) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        fill(value[i], pointer + "/" + std::to_string(i));
      }
    }
  }

 private:
  std::optional<Json> refuse(const std::string& problem) {
    // A variable that is used twice has its fault once.
    if (std::find(problems_.begin(), problems_.end(), problem) == problems_.end()) {
      problems_.push_back(problem);
    }
    return std::nullopt;
  }

  std::optional<Json> lookup(const std::string& expression, const std::string& pointer) {
    if (expression.rfind("vars.", 0) != 0) {
      return refuse(pointer + ": ${" + expression + "} is no ${vars.NAME}");
    }
    const std::string name = expression.substr(5);
    const auto it = vars_.find(name);
    if (it == vars_.end() || it->is_null()) {
      return refuse(pointer + ": ${vars." + name + "} is not set; give --set vars." + name +
                    "=VALUE");
    }
    if (std::find(open_.begin(), open_.end(), name) != open_.end()) {
      return refuse("/vars" + pointer_token(name) + ": the variable refers to itself");
    }
    Json value = *it;
    open_.push_back(name);
    const std::size_t problems = problems_.size();
    if (value.is_string()) fill_text(value, "/vars" + pointer_token(name));
    open_.pop_back();
    if (problems_.size() != problems) return std::nullopt;
    return value;
  }

  void fill_text(Json& value, const std::string& pointer) {
    const auto text = value.get<std::string>();
    std::string out;
    std::size_t from = 0;
    for (std::size_t at = text.find("${"); at != std::string::npos; at = text.find("${", from)) {
      const std::size_t end = text.find('}', at);
      if (end == std::string::npos) {
        refuse(pointer + ": \"${\" without \"}\"");
        return;
      }
      const auto found = lookup(text.substr(at + 2, end - at - 2), pointer);
      if (!found) return;
      if (at == 0 && end + 1 == text.size()) {
        value = *found;
        return;
      }
      out += text.substr(from, at - from);
      out += found->is_string() ? found->get<std::string>() : found->dump();
      from = end + 1;
    }
    value = out + text.substr(from);
  }

  const Json& vars_;
  std::vector<std::string>& problems_;
  std::vector<std::string> open_;  ///< Names whose values are being filled in, outermost first.
};

}  // namespace

Result<Json> resolve_document(const RecipeSource& source) {
  const fs::path file = fs::absolute(source.file).lexically_normal();
  ELQ_TRY(document, load_merged(file, {}));
  for (const std::string& set : source.sets) ELQ_CHECK(apply_set(document, set));
  std::vector<std::string> problems;
  Json vars = document.value("vars", Json::object());
  document.erase("vars");
  if (!vars.is_object()) {
    return recipe_error(source.file, "/vars: found " + vars.dump() + ", expected an object");
  }
  for (const auto& [name, value] : vars.items()) {
    if (value.is_primitive()) continue;
    problems.push_back("/vars" + pointer_token(name) + ": expected a text, number or boolean");
  }
  Variables(vars, problems).fill(document, "");
  ELQ_CHECK(problems_status(problems, ErrorCode::kRecipe, source.file.string()));
  return document;
}

}  // namespace elastiq
