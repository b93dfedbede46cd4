#include <cstdlib>

#include "cli/commands.h"
#include "cli/program.h"

namespace {

/// OpenMP threads of elastiq-torch that wait for each other spin for long by default; beside any
/// other busy process that costs a factor of 3 to 10 (measured). They are told to sleep early
/// unless the user has said otherwise.
void calm_openmp_of_children() {
  constexpr int kKeepUserValue = 0;
  setenv("GOMP_SPINCOUNT", "2000", kKeepUserValue);
}

}  // namespace

// elastiq: everything that needs no LibTorch; the rest is handed to elastiq-torch beside it.
int main(int argc, char** argv) {
  calm_openmp_of_children();
  if (argc > 1 && elastiq::is_sibling_command(argv[1])) return elastiq::run_sibling(argv);
  int status = 0;
  CLI::App app(
      "elastiq: quantize small language models, pack them, run them in C.\n"
      "  elastiq run recipes/demo.json --out demo-out\n"
      "  elastiq generate demo-out/qat-2bit.elq --prompt \"Lift 7:\"");
  app.require_subcommand(1);
  app.set_version_flag("--version", ELASTIQ_VERSION);
  elastiq::add_run(app, status);
  elastiq::add_plan(app, status);
  elastiq::add_validate(app, status);
  elastiq::add_sibling_names(app);
  elastiq::add_export(app, status);
  elastiq::add_verify(app, status);
  elastiq::add_inspect(app, status);
  elastiq::add_generate(app, status);
  elastiq::add_bench(app, status);
  elastiq::add_report(app, status);
  elastiq::add_doctor(app, status);
  elastiq::add_version(app, status);
  elastiq::add_stage(app, status);
  return elastiq::parse_and_run(app, argc, argv, status);
}
