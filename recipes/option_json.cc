#include "recipes/option_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace elastiq {
namespace {

/// Insertions, deletions, changes and swaps of neighbours each count one (optimal string
/// alignment).
std::size_t edit_distance(const std::string& a, const std::string& b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> cost((a.size() + 1) * width);
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i * width] = i;
  for (std::size_t j = 0; j < width; ++j) cost[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j < width; ++j) {
      const std::size_t change = cost[(i - 1) * width + j - 1] + (a[i - 1] == b[j - 1] ? 0u : 1u);
      std::size_t best =
          std::min({cost[(i - 1) * width + j] + 1, cost[i * width + j - 1] + 1, change});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) best = std::min(best, cost[(i - 2) * width + j - 2] + 1);
      cost[i * width + j] = best;
    }
  }
  return cost.back();
}

std::string found(const Json& value) {
  std::string text = value.dump();
  if (text.size() > 40) text = text.substr(0, 37) + "...";
  return fmt::format("found {} {}", value.type_name(), text);
}

}  // namespace

std::string nearest_key(const std::string& key, const std::vector<std::string>& allowed) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, key.size() / 3) + 1;
  for (const std::string& candidate : allowed) {
    const std::size_t distance = edit_distance(key, candidate);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = candidate;
  }
  return best;
}

std::string pointer_token(const std::string& key) {
  std::string out = "/";
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

OptionReader::OptionReader(const Json& object, std::string pointer,
                           std::vector<std::string>& problems)
    : object_(object), pointer_(std::move(pointer)), problems_(problems) {
  if (!object_.is_object()) {
    problems_.push_back((pointer_.empty() ? "/" : pointer_) + ": " + found(object_) +
                        ", expected an object");
  }
}

void OptionReader::problem(const std::string& key, const std::string& text) {
  problems_.push_back(pointer_of(key) + ": " + text);
}

const Json* OptionReader::value(const char* key) {
  known_.emplace_back(key);
  if (!object_.is_object()) return nullptr;
  const auto it = object_.find(key);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

const Json* OptionReader::take(const char* key, const FieldInfo& info) {
  const Json* found_value = value(key);
  const bool missing = found_value == nullptr && info.need == FieldInfo::Need::kRequired;
  if (missing && object_.is_object()) problem(key, "missing");
  return found_value;
}

const Json* OptionReader::section(const char* key) {
  const Json* found_value = value(key);
  if (found_value == nullptr || found_value->is_object()) return found_value;
  problem(key, found(*found_value) + ", expected an object");
  return nullptr;
}

void OptionReader::field(const char* key, std::filesystem::path& out, const FieldInfo& info) {
  std::string text;
  field(key, text, info);
  if (!text.empty()) out = text;
}

void OptionReader::field(const char* key, std::string& out, const FieldInfo& info) {
  const Json* json = take(key, info);
  if (json == nullptr) return;
  if (!json->is_string()) return problem(key, found(*json) + ", expected a string");
  out = json->get<std::string>();
  if (out.find('\0') != std::string::npos) problem(key, "holds a zero character");
  if (info.text != FieldInfo::Text::kScheme) return;
  const std::string wrong = scheme_problem(out);
  if (!wrong.empty()) problem(key, wrong);
}

void OptionReader::field(const char* key, std::vector<std::filesystem::path>& out,
                         const FieldInfo& info) {
  const Json* json = take(key, info);
  if (json == nullptr) return;
  out.clear();
  if (json->is_string()) {
    out.emplace_back(json->get<std::string>());
    return;
  }
  if (!json->is_array()) return problem(key, found(*json) + ", expected a path or a list of paths");
  for (const Json& entry : *json) {
    if (!entry.is_string()) return problem(key, found(entry) + " in the list, expected paths");
    out.emplace_back(entry.get<std::string>());
  }
}

void OptionReader::field(const char* key, double& out, const FieldInfo& info) {
  const Json* json = take(key, info);
  if (json == nullptr) return;
  if (!json->is_number()) return problem(key, found(*json) + ", expected a number");
  const double number = json->get<double>();
  if (!(number >= info.min && number <= info.max)) {
    return problem(key, fmt::format("{}, allowed {:g} to {:g}", found(*json), info.min, info.max));
  }
  out = number;
}

bool OptionReader::is_integer(const char* key, const Json& json, const FieldInfo& info) {
  if (!json.is_number_integer()) {
    problem(key, found(json) + ", expected an integer");
    return false;
  }
  const double number = json.get<double>();
  if (number >= info.min && number <= info.max) return true;
  problem(key, fmt::format("{}, allowed {:.0f} to {:.0f}", found(json), info.min, info.max));
  return false;
}

int OptionReader::read_choice(const char* key, std::initializer_list<const char*> names,
                              const FieldInfo& info) {
  const Json* json = take(key, info);
  if (json == nullptr) return -1;
  std::string allowed;
  int index = 0;
  for (const char* name : names) {
    if (json->is_string() && json->get<std::string>() == name) return index;
    allowed += (index++ == 0 ? "\"" : ", \"") + std::string(name) + "\"";
  }
  problem(key, found(*json) + ", allowed " + allowed);
  return -1;
}

void OptionReader::read_rule(const Json& json, const std::string& pointer, QuantRule& rule) {
  OptionReader reader(json, pointer, problems_);
  const FieldInfo required = {.help = "", .need = FieldInfo::Need::kRequired};
  const FieldInfo optional = {.help = ""};
  reader.field("id", rule.id, required);
  const Json* roles = reader.value("roles");
  if (roles != nullptr && roles->is_string()) rule.roles = {roles->get<std::string>()};
  if (roles != nullptr && !roles->is_string()) {
    const bool is_list = roles->is_array() && std::all_of(roles->begin(), roles->end(),
                                                          [](auto& r) { return r.is_string(); });
    if (is_list) rule.roles = roles->get<std::vector<std::string>>();
    if (!is_list) reader.problem("roles", found(*roles) + ", expected a role or a list of roles");
  }
  reader.field("name", rule.name, optional);
  reader.field("layers", rule.layers, optional);
  reader.field("scheme", rule.scheme, required);
  reader.finish();
  const Json* scheme = reader.value("scheme");
  const bool has_scheme = scheme != nullptr && scheme->is_string();
  for (const RuleProblem& wrong : rule_problems(rule)) {
    if (wrong.key != "scheme" || has_scheme) reader.problem(wrong.key, wrong.text);
  }
}

void OptionReader::field(const char* key, std::vector<QuantRule>& out, const FieldInfo& info) {
  const Json* json = take(key, info);
  if (json == nullptr) return;
  if (!json->is_array()) return problem(key, found(*json) + ", expected a list of rules");
  out.clear();
  std::set<std::string> ids;
  for (std::size_t i = 0; i < json->size(); ++i) {
    QuantRule rule;
    const std::string here = pointer_of(key) + "/" + std::to_string(i);
    read_rule((*json)[i], here, rule);
    if (!rule.id.empty() && !ids.insert(rule.id).second) {
      problems_.push_back(here + "/id: a second rule \"" + rule.id + "\"");
    }
    out.push_back(std::move(rule));
  }
}

void OptionReader::field(const char* key, Json& out, const FieldInfo& info) {
  const Json* json = take(key, info);
  if (json != nullptr) out = *json;
}

void OptionReader::data(const char* key, DataOptions& out, const FieldInfo& info) {
  const Json* json = take(key, info);
  if (json == nullptr) return;
  if (json->is_object()) {
    OptionReader reader(*json, pointer_of(key), problems_);
    visit_fields(reader, out);
    return reader.finish();
  }
  // A path or a list of paths alone is short for {"files": ...}.
  field(key, out.files, info);
}

void OptionReader::finish() {
  if (!object_.is_object()) return;
  for (const auto& [key, unused] : object_.items()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    const std::string nearest = nearest_key(key, known_);
    if (!nearest.empty()) {
      problem(key, "unknown key, did you mean \"" + nearest + "\"?");
      continue;
    }
    std::string allowed;
    for (const std::string& name : known_) allowed += (allowed.empty() ? "" : ", ") + name;
    problem(key, "unknown key, allowed here: " + allowed);
  }
}

void OptionWriter::field(const char* key, std::filesystem::path& value, const FieldInfo&) {
  if (what_ == What::kAll && !value.empty()) json_[key] = value.string();
}

void OptionWriter::field(const char* key, std::vector<std::filesystem::path>& value,
                         const FieldInfo&) {
  if (what_ == What::kContent) return;
  Json list = Json::array();
  for (const auto& path : value) list.push_back(path.string());
  json_[key] = std::move(list);
}

void OptionWriter::field(const char* key, std::vector<QuantRule>& value, const FieldInfo&) {
  Json list = Json::array();
  for (const QuantRule& rule : value) {
    Json entry = {{"id", rule.id}};
    if (!rule.roles.empty()) entry["roles"] = rule.roles;
    if (!rule.name.empty()) entry["name"] = rule.name;
    if (!rule.layers.empty()) entry["layers"] = rule.layers;
    entry["scheme"] = rule.scheme;
    list.push_back(std::move(entry));
  }
  json_[key] = std::move(list);
}

void OptionWriter::data(const char* key, DataOptions& value, const FieldInfo&) {
  OptionWriter inner(what_);
  visit_fields(inner, value);
  json_[key] = inner.take();
}

}  // namespace elastiq
