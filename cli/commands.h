#pragma once

#include <CLI/CLI.hpp>

namespace elastiq {

// Each adds its subcommand to `app`; when that is called it puts the exit status into `status`.

void add_run(CLI::App& app, int& status);
void add_plan(CLI::App& app, int& status);
void add_validate(CLI::App& app, int& status);
void add_export(CLI::App& app, int& status);
void add_verify(CLI::App& app, int& status);
void add_inspect(CLI::App& app, int& status);
void add_generate(CLI::App& app, int& status);
void add_bench(CLI::App& app, int& status);
void add_report(CLI::App& app, int& status);
void add_doctor(CLI::App& app, int& status);
void add_version(CLI::App& app, int& status);
/// `stage export|bench FILE`, called by the recipe runner.
void add_stage(CLI::App& app, int& status);
/// calibrate, quantize, qat, train and evaluate in the help text; main hands them to the sibling.
void add_sibling_names(CLI::App& app);
bool is_sibling_command(const char* name);

}  // namespace elastiq
