#pragma once

#include <memory>

#include "cli/flags.h"
#include "cli/output.h"
#include "recipes/stage_options.h"

namespace elastiq {

/// A subcommand whose flags are the fields of one stage's options struct.
template <class Options>
void add_stage_command(CLI::App& app, int& status, const char* name, const char* summary,
                       Result<Json> (*run)(const Options&)) {
  struct Arguments {
    Options options;
    bool json = false;
  };

  CLI::App* command = app.add_subcommand(name, summary);
  auto arguments = std::make_shared<Arguments>();
  FlagBinder binder(*command, "");
  visit_fields(binder, arguments->options);
  command->add_flag("--json", arguments->json, "one JSON document on standard output");
  command->callback([arguments, run, &status] {
    auto result = run(arguments->options);
    // Without a recipe its options came from the command line.
    if (!result.ok() && result.error().code == ErrorCode::kRecipe) {
      result = Error{ErrorCode::kUsage, result.error().subject, result.error().detail};
    }
    status = finish(result, arguments->json ? OutputFormat::kJson : OutputFormat::kText);
  });
}

/// One stage as the recipe runner calls it: options file in, result or error as JSON out.
using StageFunction = Result<Json> (*)(const Json& options, const std::string& subject);

template <class Options, Result<Json> (*Run)(const Options&)>
Result<Json> stage_from_json(const Json& json, const std::string& subject) {
  ELQ_TRY(options, options_from_json<Options>(json, subject));
  return Run(options);
}

struct StageEntry {
  const char* name;
  StageFunction run;
};

/// `stage NAME FILE`; the entries must outlive the app.
void add_stage_runner(CLI::App& app, int& status, const StageEntry* begin, const StageEntry* end);

}  // namespace elastiq
