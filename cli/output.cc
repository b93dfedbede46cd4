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

int finish(const Result<Json>& result, OutputFormat format) {
  if (!result.ok()) return report_error(result.error(), format);
  return print_result(result.value(), format);
}

}  // namespace elastiq
