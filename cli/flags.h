#pragma once

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "cli/number_check.h"
#include "recipes/option_json.h"

namespace elastiq {

/// Visitor: command-line flags for the members of an options struct, which must outlive the parse.
/// "scale_steps" becomes --scale-steps, the members of `data` become --data-files and so on.
class FlagBinder {
 public:
  FlagBinder(CLI::App& command, std::string prefix)
      : command_(command), prefix_(std::move(prefix)) {}

  void field(const char* key, std::filesystem::path& out, const FieldInfo& info);
  void field(const char* key, std::vector<std::filesystem::path>& out, const FieldInfo& info);
  /// A JSON file with the list of rules.
  void field(const char* key, std::vector<QuantRule>& out, const FieldInfo& info);

  /// Provenance is the recipe runner's; no flag.
  void field(const char*, Json&, const FieldInfo&) {}

  template <class T>
  void field(const char* key, T& out, const FieldInfo& info) {
    CLI::Option* option = command_.add_option(flag(key), out, info.help);
    option->capture_default_str();
    if constexpr (std::is_arithmetic_v<T>) {
      using Limits = std::numeric_limits<T>;
      option->check(
          number_check(std::isfinite(info.min) ? static_cast<T>(info.min) : Limits::lowest(),
                       std::isfinite(info.max) ? static_cast<T>(info.max) : Limits::max()));
    }
    if constexpr (std::is_same_v<T, std::string>) {
      if (info.text == FieldInfo::Text::kScheme)
        option->check(CLI::Validator(scheme_problem, "", ""));
    }
    finish(option, info);
  }

  template <class Enum>
  void choice(const char* key, Enum& out, std::initializer_list<const char*> names,
              const FieldInfo& info) {
    const std::vector<std::string> list(names.begin(), names.end());
    const auto set = [&out, list](const std::string& text) {
      out = static_cast<Enum>(std::find(list.begin(), list.end(), text) - list.begin());
    };
    CLI::Option* option = command_.add_option_function<std::string>(flag(key), set, info.help);
    option->check(CLI::IsMember(list));
    option->default_str(list.at(static_cast<std::size_t>(out)));
    finish(option, info);
  }

  void data(const char* key, DataOptions& out, const FieldInfo& info);

 private:
  std::string flag(const char* key) const;
  static void finish(CLI::Option* option, const FieldInfo& info);

  CLI::App& command_;
  std::string prefix_;
};

}  // namespace elastiq
