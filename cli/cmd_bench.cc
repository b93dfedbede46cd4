#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/output.h"
#include "core/text.h"
#include "model/run_bench.h"

namespace elastiq {
namespace {

struct Arguments {
  std::string package;
  BenchOptions options;
  bool json = false;
};

int run(const Arguments& arguments) {
  const OutputFormat format = arguments.json ? OutputFormat::kJson : OutputFormat::kText;
  BenchOptions options = arguments.options;
  options.package = arguments.package;
  const auto result = run_bench(options);
  if (!result.ok() || arguments.json) return finish(result, format);
  const Json& json = result.value();
  std::cout << fmt::format(
      "{} with {} threads: prefill of {} tokens {:.1f} tokens/s, decode {:.1f} "
      "tokens/s, peak memory {}\n",
      json["isa"].get<std::string>(), options.threads, json["prompt_tokens"].get<int>(),
      json["speed"]["prefill_tps"].get<double>(), json["speed"]["decode_tps"].get<double>(),
      format_bytes(json["peak_rss_bytes"].get<double>()));
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("bench", "Measure prefill and decode speed of a package");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("package,--package", arguments->package, "package file")->required();
  BenchOptions& o = arguments->options;
  command->add_option("--threads", o.threads, "worker threads")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--prompt-tokens", o.prompt_tokens, "length of the prompt")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--new-tokens", o.new_tokens, "tokens to decode")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--repeats", o.repeats, "rounds; the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--isa", o.isa, "instruction set; default: the best of this machine");
  command->add_flag("--json", arguments->json, "one JSON document on standard output");
  command->callback([arguments, &status] { status = run(*arguments); });
}

}  // namespace elastiq
