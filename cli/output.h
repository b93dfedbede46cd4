#pragma once

#include <string>

#include "core/error.h"
#include "core/json.h"

namespace elastiq {

/// What standard output gets.
enum class OutputFormat { kText, kJson };

/// The error on standard error; with kJson also as one document on standard output. Returns the
/// exit status.
int report_error(const Error& error, OutputFormat format);

/// A result as one JSON document, or its scalar members as "key  value" lines. Returns 0.
int print_result(const Json& result, OutputFormat format);

/// The texts of a result's "warnings" on standard error.
void print_warnings(const Json& result);

/// Prints the result and its warnings, or reports the error.
int finish(const Result<Json>& result, OutputFormat format);

}  // namespace elastiq
