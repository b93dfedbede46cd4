#include "core/json.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/file.h"

namespace elastiq {
namespace {

/// One name or index as part of a JSON pointer (RFC 6901).
std::string pointer_part(const std::string& name) {
  std::string part = "/";
  for (const char c : name) {
    if (c == '~') {
      part += "~0";
    } else if (c == '/') {
      part += "~1";
    } else {
      part += c;
    }
  }
  return part;
}

Error syntax_error(std::string_view text, std::size_t offset, const std::string& subject,
                   const std::string& reason) {
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t last_break = before.rfind('\n');
  const std::size_t column =
      last_break == std::string_view::npos ? offset + 1 : offset - last_break;
  return Error{
      ErrorCode::kSyntax, subject,
      "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + reason,
      offset};
}

/// Builds the document from parser events. The library's own builder keeps the last of duplicate
/// keys and has no depth limit; its parser does not recurse, and max_depth keeps the later copies
/// and dumps (which do) shallow.
class Builder {
 public:
  Builder(const std::string& subject, std::string_view text, std::size_t max_depth)
      : subject_(subject), text_(text), max_depth_(max_depth) {}

  bool null() { return add(Json(nullptr)) != nullptr; }

  bool boolean(bool value) { return add(Json(value)) != nullptr; }

  bool number_integer(Json::number_integer_t value) { return add(Json(value)) != nullptr; }

  bool number_unsigned(Json::number_unsigned_t value) { return add(Json(value)) != nullptr; }

  bool number_float(Json::number_float_t value, const std::string&) {
    return add(Json(value)) != nullptr;
  }

  bool string(std::string& value) { return add(Json(std::move(value))) != nullptr; }

  bool binary(Json::binary_t&) { return false; }

  bool start_object(std::size_t) { return open(Json::object()); }

  bool start_array(std::size_t) { return open(Json::array()); }

  bool end_object() { return close(); }

  bool end_array() { return close(); }

  bool key(std::string& name) {
    Level& level = levels_.back();
    level.key = std::move(name);
    if (level.keys.insert(level.key).second) return true;
    error_ = Error{ErrorCode::kDuplicate, subject_, "duplicate key " + pointer(), 0};
    return false;
  }

  bool parse_error(std::size_t position, const std::string&, const Json::exception& exception) {
    std::string reason = exception.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while ..."
    const std::size_t cut = reason.find("syntax error");
    if (cut != std::string::npos) reason.erase(0, cut);
    if (exception.id == 406) reason = "number outside the range of double";
    // position counts the bytes read, the refused one included.
    const std::size_t offset = position == 0 ? 0 : position - 1;
    error_ = syntax_error(text_, std::min(offset, text_.size()), subject_, reason);
    return false;
  }

  Json take() { return std::move(root_); }

  const std::optional<Error>& error() const { return error_; }

 private:
  struct Level {
    Json* value;  ///< Stays valid: nothing is added to its parent while it is open.
    std::string key;
    std::set<std::string, std::less<>> keys;  ///< Ordered: no hash for an attacker to collide.
  };

  Json* add(Json value) {
    if (levels_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Level& level = levels_.back();
    if (level.value->is_array()) {
      auto& array = level.value->get_ref<Json::array_t&>();
      array.push_back(std::move(value));
      return &array.back();
    }
    // Past ordered_map's own insertion, which searches all earlier keys: a vocabulary has 50,000.
    using Members = std::vector<std::pair<const std::string, Json>>;
    Members& members = level.value->get_ref<Json::object_t&>();
    members.emplace_back(level.key, std::move(value));
    return &members.back().second;
  }

  bool open(Json value) {
    if (levels_.size() >= max_depth_) {
      error_ =
          Error{ErrorCode::kLimitExceeded, subject_,
                "nested deeper than " + std::to_string(max_depth_) + " levels at " + pointer(), 0};
      return false;
    }
    levels_.push_back(Level{add(std::move(value)), {}, {}});
    return true;
  }

  bool close() {
    levels_.pop_back();
    return true;
  }

  /// Of the value that comes next.
  std::string pointer() const {
    std::string text;
    for (const Level& level : levels_) {
      // All but the innermost array already hold the element that is open.
      const std::size_t open = &level == &levels_.back() ? 0 : 1;
      text += pointer_part(level.value->is_array() ? std::to_string(level.value->size() - open)
                                                   : level.key);
    }
    return text;
  }

  const std::string& subject_;
  std::string_view text_;
  std::size_t max_depth_;
  Json root_;
  std::vector<Level> levels_;
  std::optional<Error> error_;
};

const char* type_text(const Json& value) {
  if (value.is_number_float()) return "number";
  return value.is_number() ? "integer" : value.type_name();
}

/// "recipe.json: /quant/bits" from "recipe.json: /quant" and "bits".
std::string member_subject(const std::string& subject, const char* key) {
  const bool has_pointer = subject.find(": /") != std::string::npos;
  return subject + (has_pointer ? "" : ": ") + pointer_part(key);
}

Error wrong_type(const Json& found, const char* expected, const std::string& subject,
                 const char* key) {
  return Error{ErrorCode::kInconsistent, member_subject(subject, key),
               std::string("found ") + type_text(found) + ", expected " + expected, 0};
}

/// The member, or nullptr when absent or null.
Result<const Json*> find_member(const Json& object, const char* key, const std::string& subject) {
  if (!object.is_object()) {
    return Error{ErrorCode::kInconsistent, subject,
                 std::string("found ") + type_text(object) + ", expected object", 0};
  }
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return static_cast<const Json*>(nullptr);
  return &*found;
}

Result<std::int64_t> to_int(const Json& value, const char* key, std::int64_t min, std::int64_t max,
                            const std::string& subject) {
  if (!value.is_number_integer()) return wrong_type(value, "integer", subject, key);
  const bool too_large = value.is_number_unsigned() &&
                         value.get<std::uint64_t>() >
                             static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const std::int64_t number = too_large ? 0 : value.get<std::int64_t>();
  if (too_large || number < min || number > max) {
    return Error{
        ErrorCode::kLimitExceeded, member_subject(subject, key),
        "found " + value.dump() + ", allowed " + std::to_string(min) + " to " + std::to_string(max),
        0};
  }
  return number;
}

}  // namespace

Result<Json> parse_json(std::string_view text, const std::string& subject,
                        const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return Error{ErrorCode::kLimitExceeded, subject,
                 "text has " + std::to_string(text.size()) + " bytes, at most " +
                     std::to_string(limits.max_bytes),
                 0};
  }
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    return Error{ErrorCode::kBadEncoding, subject, "UTF-16 text; save it as UTF-8", 0};
  }
  const std::size_t bom = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  text.remove_prefix(bom);
  const std::size_t bad = find_invalid_utf8(text);
  if (bad != std::string_view::npos) {
    return Error{ErrorCode::kBadEncoding, subject, "not valid UTF-8", bad + bom};
  }
  // The library's lexer takes a zero byte for the end of the text and would ignore what follows.
  const std::size_t zero = text.find('\0');
  if (zero != std::string_view::npos) {
    Error error = syntax_error(text, zero, subject, "a zero byte");
    error.byte_offset += bom;
    return error;
  }
  Builder builder(subject, text, limits.max_depth);
  constexpr bool kStrict = true;  // nothing may follow the document
  const bool comments = limits.comments == JsonLimits::Comments::kAllow;
  const bool parsed = Json::sax_parse(text.begin(), text.end(), &builder,
                                      Json::input_format_t::json, kStrict, comments);
  if (parsed) return builder.take();
  Error error = builder.error().value_or(Error{ErrorCode::kSyntax, subject, "not JSON", 0});
  if (error.code == ErrorCode::kSyntax) error.byte_offset += bom;
  return error;
}

Result<Json> read_json_file(const std::filesystem::path& path, const JsonLimits& limits) {
  ELQ_TRY(text, read_text_file(path, limits.max_bytes));
  return parse_json(text, path.string(), limits);
}

std::string dump_json(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<std::int64_t> json_int(const Json& object, const char* key, std::int64_t min,
                              std::int64_t max, const std::string& subject) {
  ELQ_TRY(member, find_member(object, key, subject));
  if (member == nullptr) {
    return Error{ErrorCode::kMissing, member_subject(subject, key), "an integer is required", 0};
  }
  return to_int(*member, key, min, max, subject);
}

Result<std::int64_t> json_int_or(const Json& object, const char* key, std::int64_t fallback,
                                 std::int64_t min, std::int64_t max, const std::string& subject) {
  ELQ_TRY(member, find_member(object, key, subject));
  if (member == nullptr) return fallback;
  return to_int(*member, key, min, max, subject);
}

Result<double> json_double_or(const Json& object, const char* key, double fallback,
                              const std::string& subject) {
  ELQ_TRY(member, find_member(object, key, subject));
  if (member == nullptr) return fallback;
  if (!member->is_number()) return wrong_type(*member, "number", subject, key);
  return member->get<double>();
}

Result<bool> json_bool_or(const Json& object, const char* key, bool fallback,
                          const std::string& subject) {
  ELQ_TRY(member, find_member(object, key, subject));
  if (member == nullptr) return fallback;
  if (!member->is_boolean()) return wrong_type(*member, "boolean", subject, key);
  return member->get<bool>();
}

Result<std::string> json_string_or(const Json& object, const char* key, const std::string& fallback,
                                   const std::string& subject) {
  ELQ_TRY(member, find_member(object, key, subject));
  if (member == nullptr) return fallback;
  if (!member->is_string()) return wrong_type(*member, "string", subject, key);
  return member->get<std::string>();
}

}  // namespace elastiq
