#include <malloc.h>

#include <array>
#include <iostream>
#include <limits>
#include <memory>

#include "cli/program.h"
#include "cli/stage_command.h"
#include "report/run_report.h"

namespace elastiq {
namespace {

constexpr std::array kStages = {
    StageEntry{"calibrate", stage_from_json<CalibrateOptions, run_calibrate>},
    StageEntry{"quantize", stage_from_json<QuantizeOptions, run_quantize>},
    StageEntry{"qat", stage_from_json<QatOptions, run_qat>},
    StageEntry{"train", stage_from_json<TrainOptions, run_train>},
    StageEntry{"evaluate", stage_from_json<EvaluateOptions, run_evaluate>},
};

/// One run of a report; as text it is the report's table with one row.
void add_evaluate(CLI::App& app, int& status) {
  struct Arguments {
    EvaluateOptions options;
    bool json = false;
  };

  CLI::App* command =
      app.add_subcommand("evaluate", "Compare a model with the float model on held-out text");
  auto arguments = std::make_shared<Arguments>();
  FlagBinder binder(*command, "");
  visit_fields(binder, arguments->options);
  command->add_flag("--json", arguments->json, "one JSON document on standard output");
  command->callback([arguments, &status] {
    const auto run = run_evaluate(arguments->options);
    if (!run.ok() || arguments->json) {
      status = finish(run, arguments->json ? OutputFormat::kJson : OutputFormat::kText);
      return;
    }
    print_warnings(run.value());
    std::cout << report_terminal(
        {{"format", "elastiq.report/1"}, {"runs", Json::array({run.value()})}});
  });
}

/// Tensors of a few MiB come and go with every operation: freed memory is kept for the next one
/// instead of being unmapped and faulted in again (a fifth of the time of an evaluation).
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

void add_commands(CLI::App& app, int& status) {
  add_stage_command<CalibrateOptions>(
      app, status, "calibrate", "Collect statistics of a model on calibration text", run_calibrate);
  add_stage_command<QuantizeOptions>(app, status, "quantize",
                                     "Quantize a model after training (RTN, GPTQ)", run_quantize);
  add_stage_command<QatOptions>(app, status, "qat", "Train a quantized checkpoint further",
                                run_qat);
  add_stage_command<TrainOptions>(app, status, "train", "Train a small float model from scratch",
                                  run_train);
  add_evaluate(app, status);
  add_stage_runner(app, status, kStages.begin(), kStages.end());
}

}  // namespace
}  // namespace elastiq

// elastiq-torch: the stages that need LibTorch. People type `elastiq NAME`, which comes here.
int main(int argc, char** argv) {
  int status = 0;
  CLI::App app("elastiq-torch: the subcommands of elastiq that need LibTorch", "elastiq");
  app.require_subcommand(1);
  elastiq::keep_freed_memory();
  elastiq::add_commands(app, status);
  return elastiq::parse_and_run(app, argc, argv, status);
}
