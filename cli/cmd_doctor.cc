#include <sys/statvfs.h>
#include <sys/sysinfo.h>

#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/program.h"
#include "model/run_kernels.h"
#include "recipes/machine.h"

namespace elastiq {
namespace {

Json doctor() {
  struct sysinfo memory {};

  sysinfo(&memory);

  struct statvfs disk {};

  statvfs(".", &disk);
  std::error_code ignored;
  const bool has_torch = std::filesystem::exists(program_folder() / "elastiq-torch", ignored);
  const Json machine = machine_json(1);
  const Json kernels = run_kernels();
  return {{"format", "elastiq.doctor/1"},
          {"cpu", machine.at("cpu")},
          {"cores", machine.at("cores")},
          {"kernels", kernels.at("best")},
          {"implementations", kernels.at("implementations")},
          {"memory_bytes", static_cast<std::uint64_t>(memory.totalram) * memory.mem_unit},
          {"free_disk_bytes", static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize},
          {"elastiq_torch", has_torch ? "found" : "missing: only packages can be handled"}};
}

}  // namespace

void add_doctor(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("doctor", "Show what this machine and this build offer");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "one JSON document on standard output");
  command->callback([json, &status] {
    status = print_result(doctor(), *json ? OutputFormat::kJson : OutputFormat::kText);
  });
}

}  // namespace elastiq
