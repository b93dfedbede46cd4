#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>

namespace elastiq {

/// Folder of the running executable.
std::filesystem::path program_folder();

/// Replaces this process by `elastiq-torch` with the same arguments; returns an exit status only
/// when that is not possible.
int run_sibling(char** argv);

/// Parses and runs. CLI11's own exit codes become 2; a subcommand that does not exist gets the
/// nearest one that does. Returns the exit status.
int parse_and_run(CLI::App& app, int argc, char** argv, const int& status);

}  // namespace elastiq
