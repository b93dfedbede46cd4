#include "cli/flags.h"

#include <algorithm>

namespace elastiq {

std::string FlagBinder::flag(const char* key) const {
  std::string name = prefix_ + key;
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

void FlagBinder::finish(CLI::Option* option, const FieldInfo& info) {
  if (info.need == FieldInfo::Need::kRequired) option->required();
}

void FlagBinder::field(const char* key, std::filesystem::path& out, const FieldInfo& info) {
  const auto set = [&out](const std::string& text) { out = text; };
  CLI::Option* option = command_.add_option_function<std::string>(flag(key), set, info.help);
  finish(option->type_name("PATH"), info);
}

void FlagBinder::field(const char* key, std::vector<std::filesystem::path>& out,
                       const FieldInfo& info) {
  const auto set = [&out](const std::vector<std::string>& texts) {
    out.assign(texts.begin(), texts.end());
  };
  CLI::Option* option =
      command_.add_option_function<std::vector<std::string>>(flag(key), set, info.help);
  finish(option->type_name("PATH"), info);
}

void FlagBinder::field(const char* key, std::vector<QuantRule>& out, const FieldInfo& info) {
  const auto set = [&out](const std::string& file) {
    const JsonLimits limits = {
        .max_bytes = 1u << 20, .max_depth = 8, .comments = JsonLimits::Comments::kAllow};
    const auto json = read_json_file(file, limits);
    if (!json.ok()) throw CLI::ValidationError("--rules", to_string(json.error()));
    const Json object = {{"rules", json.value()}};
    std::vector<std::string> problems;
    OptionReader reader(object, "", problems);
    reader.field("rules", out, {.help = ""});
    if (!problems.empty()) throw CLI::ValidationError("--rules", problems.front());
  };
  CLI::Option* option = command_.add_option_function<std::string>(flag(key), set, info.help);
  finish(option->type_name("FILE.json"), info);
}

void FlagBinder::data(const char* key, DataOptions& out, const FieldInfo&) {
  FlagBinder inner(command_, prefix_ + key + "-");
  visit_fields(inner, out);
}

}  // namespace elastiq
