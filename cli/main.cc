#include <cstdlib>

#include "cli/commands.h"
#include "cli/program.h"

namespace {

/// The fastest float32 kernels of OpenBLAS that this CPU runs; OpenBLAS 0.3.21 falls back to SSE3
/// on CPUs newer than itself, a fifth of the speed.
const char* openblas_core_type() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) return "SkylakeX";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return nullptr;
}

/// What the libraries of elastiq-torch read before its main(); what the user has set stays.
/// Threads of OpenMP and OpenBLAS that wait for each other spin for long by default: beside any
/// other busy process that costs a factor of 3 to 10 (measured), so they are told to sleep early.
void set_library_variables_of_children() {
  constexpr int kKeepUserValue = 0;
  setenv("GOMP_SPINCOUNT", "2000", kKeepUserValue);
  setenv("OPENBLAS_THREAD_TIMEOUT", "4", kKeepUserValue);
  if (const char* type = openblas_core_type()) setenv("OPENBLAS_CORETYPE", type, kKeepUserValue);
}

}  // namespace

// elastiq: everything that needs no LibTorch; the rest is handed to elastiq-torch beside it.
int main(int argc, char** argv) {
  set_library_variables_of_children();
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
