#pragma once

#include <CLI/CLI.hpp>
#include <exception>
#include <filesystem>
#include <string>

#include "core/error.h"

namespace elastiq {

/// Folder of the running executable.
std::filesystem::path program_folder();

/// Replaces this process by `elastiq-torch` with the same arguments; returns an exit status only
/// when that is not possible.
int run_sibling(char** argv);

/// What a thrown exception is to the user: kResources when it says that there is no memory, else
/// kInternal with its first line.
Error error_of_exception(const std::exception& thrown, const std::string& subject);

/// Parses and runs; an exception is reported as an error, what CLI11 refuses as kUsage; a
/// subcommand that does not exist gets the nearest one that does. Returns the exit status, which is
/// an error's when standard output could not be written.
int parse_and_run(CLI::App& app, int argc, char** argv, const int& status);

}  // namespace elastiq
