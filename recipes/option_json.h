#pragma once

#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

#include "core/json.h"
#include "quantize/run_quantize.h"
#include "recipes/option_fields.h"

namespace elastiq {

/// The allowed key nearest to `key`, or empty when none is near (edit distance above a third of its
/// length).
std::string nearest_key(const std::string& key, const std::vector<std::string>& allowed);

/// `key` escaped as one token of a JSON pointer, after a slash.
std::string pointer_token(const std::string& key);

/// Visitor: members from a JSON object. Wrong types, values out of range and unknown keys go to
/// `problems`, each with its JSON pointer; all of them are found in one pass.
class OptionReader {
 public:
  OptionReader(const Json& object, std::string pointer, std::vector<std::string>& problems);

  void field(const char* key, std::filesystem::path& out, const FieldInfo& info);
  void field(const char* key, std::vector<std::filesystem::path>& out, const FieldInfo& info);
  void field(const char* key, std::string& out, const FieldInfo& info);
  void field(const char* key, double& out, const FieldInfo& info);
  void field(const char* key, std::vector<QuantRule>& out, const FieldInfo& info);
  void field(const char* key, Json& out, const FieldInfo& info);

  template <class Integer, std::enable_if_t<std::is_integral_v<Integer>, int> = 0>
  void field(const char* key, Integer& out, const FieldInfo& info) {
    const Json* value = take(key, info);
    if (value == nullptr || !is_integer(key, *value, info)) return;
    out = value->get<Integer>();
  }

  template <class Enum>
  void choice(const char* key, Enum& out, std::initializer_list<const char*> names,
              const FieldInfo& info) {
    const int index = read_choice(key, names, info);
    if (index >= 0) out = static_cast<Enum>(index);
  }

  void data(const char* key, DataOptions& out, const FieldInfo& info);

  /// The object below `key` for a reader of its own, or nullptr when absent.
  const Json* section(const char* key);
  /// Any value below `key`, or nullptr when absent; marks the key as known.
  const Json* value(const char* key);

  void problem(const std::string& key, const std::string& text);

  std::string pointer_of(const std::string& key) const { return pointer_ + pointer_token(key); }

  /// Call last: keys that no visit asked for are problems.
  void finish();

 private:
  const Json* take(const char* key, const FieldInfo& info);
  bool is_integer(const char* key, const Json& value, const FieldInfo& info);
  int read_choice(const char* key, std::initializer_list<const char*> names, const FieldInfo& info);
  void read_rule(const Json& value, const std::string& pointer, QuantRule& rule);

  const Json& object_;
  std::string pointer_;
  std::vector<std::string>& problems_;
  std::vector<std::string> known_;
};

/// Visitor: the members as a JSON object.
class OptionWriter {
 public:
  /// kContent leaves out what does not decide the bytes of the result: paths (inputs count by
  /// digest) and the number of threads.
  enum class What { kAll, kContent };

  explicit OptionWriter(What what) : what_(what) {}

  void field(const char* key, std::filesystem::path& value, const FieldInfo& info);
  void field(const char* key, std::vector<std::filesystem::path>& value, const FieldInfo& info);
  void field(const char* key, std::vector<QuantRule>& value, const FieldInfo& info);

  template <class T>
  void field(const char* key, T& value, const FieldInfo&) {
    if (what_ == What::kContent && std::string(key) == "threads") return;
    json_[key] = value;
  }

  template <class Enum>
  void choice(const char* key, Enum& value, std::initializer_list<const char*> names,
              const FieldInfo&) {
    json_[key] = *(names.begin() + static_cast<int>(value));
  }

  void data(const char* key, DataOptions& value, const FieldInfo& info);

  Json take() { return std::move(json_); }

 private:
  What what_;
  Json json_ = Json::object();
};

/// Visitor: the keys.
class KeyLister {
 public:
  template <class T>
  void field(const char* key, T&, const FieldInfo&) {
    keys_.push_back(key);
  }

  template <class Enum>
  void choice(const char* key, Enum&, std::initializer_list<const char*>, const FieldInfo&) {
    keys_.push_back(key);
  }

  void data(const char* key, DataOptions&, const FieldInfo&) { keys_.push_back(key); }

  const std::vector<std::string>& keys() const { return keys_; }

 private:
  std::vector<std::string> keys_;
};

}  // namespace elastiq
