#include "cli/output.h"

#include <iostream>

#include "core/text.h"
#include "recipes/child_process.h"

namespace elastiq {

int report_error(const Error& error, OutputFormat format) {
  std::cerr << "elastiq: " << to_string(error) << '\n';
  if (format == OutputFormat::kJson) std::cout << dump_json(error_json(error));
  return exit_status(error);
}

int print_result(const Json& result, OutputFormat format) {
  if (format == OutputFormat::kJson) {
    std::cout << dump_json(result);
    return 0;
  }
  for (const auto& [key, value] : result.items()) {
    if (value.is_structured() || value.is_null()) continue;
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    std::cout << key << "  " << escape_terminal(text) << '\n';
  }
  return 0;
}

void print_warnings(const Json& result) {
  const auto found = result.find("warnings");
  if (found == result.end() || !found->is_array()) return;
  for (const Json& text : *found) {
    if (!text.is_string()) continue;
    std::cerr << "elastiq: warning: " << escape_terminal(text.get<std::string>()) << '\n';
  }
}

int finish(const Result<Json>& result, OutputFormat format) {
  if (!result.ok()) return report_error(result.error(), format);
  print_warnings(result.value());
  return print_result(result.value(), format);
}

}  // namespace elastiq
