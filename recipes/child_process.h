#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"

namespace elastiq {

struct ChildResult {
  int exit_status = 0;  ///< 128 + signal when a signal ended it.
  double seconds = 0;
  std::uint64_t peak_rss_bytes = 0;  ///< At least what the parent had when it started it.
};

/// Runs a program to its end: standard output into a file, standard error inherited (progress shows
/// there). While it runs, SIGTERM and a SIGINT that another process sends go on to the child;
/// Ctrl-C of a terminal the child gets itself and answers. Errors  kMissing: no such program; kIo.
Result<ChildResult> run_child(const std::vector<std::string>& arguments,
                              const std::filesystem::path& output);

/// An error as one JSON document, and back; what `stage` prints in place of a result.
Json error_json(const Error& error);
Error error_from_json(const Json& json);

}  // namespace elastiq
