#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/error.h"

namespace elastiq {

/// Insertion order is kept, so what we write is deterministic.
using Json = nlohmann::ordered_json;

struct JsonLimits {
  std::size_t max_bytes = 64u << 20;
  std::size_t max_depth = 64;
  enum class Comments { kRefuse, kAllow } comments = Comments::kRefuse;
};

/// Strict parse of untrusted text: UTF-8, byte-order mark dropped, duplicate keys refused, depth
/// and size limited, numbers finite. `subject` names the text in errors. Errors  kSyntax with line
/// and column in the detail and the byte offset; kDuplicate with the key's JSON pointer;
///         kLimitExceeded; kBadEncoding.
Result<Json> parse_json(std::string_view text, const std::string& subject,
                        const JsonLimits& limits);

/// read_text_file and parse_json.
Result<Json> read_json_file(const std::filesystem::path& path, const JsonLimits& limits);

/// Two-space indented text with a final newline; non-finite numbers must have been refused before.
std::string dump_json(const Json& value);

/// Typed access with errors that name the JSON pointer ("recipe.json: /quant/bits: found string,
/// expected integer"). The default is used when the key is absent or null.
Result<std::int64_t> json_int(const Json& object, const char* key, std::int64_t min,
                              std::int64_t max, const std::string& subject);
Result<std::int64_t> json_int_or(const Json& object, const char* key, std::int64_t fallback,
                                 std::int64_t min, std::int64_t max, const std::string& subject);
Result<double> json_double_or(const Json& object, const char* key, double fallback,
                              const std::string& subject);
Result<bool> json_bool_or(const Json& object, const char* key, bool fallback,
                          const std::string& subject);
Result<std::string> json_string_or(const Json& object, const char* key, const std::string& fallback,
                                   const std::string& subject);

}  // namespace elastiq
