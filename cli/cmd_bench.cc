#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/number_check.h"
#include "cli/output.h"
#include "cli/program.h"
#include "recipes/run_synthetic_bench.h"

namespace elastiq {
namespace {

struct Arguments {
  std::string package;
  BenchOptions options;
  SynthesizeOptions synthetic;
  bool json = false;
};

int run(const Arguments& arguments) {
  BenchOptions options = arguments.options;
  options.package = arguments.package;
  const auto result = arguments.package.empty()
                          ? run_synthetic_bench(options, arguments.synthetic, program_folder())
                          : run_bench(options);
  if (!result.ok() || arguments.json) {
    return finish(result, arguments.json ? OutputFormat::kJson : OutputFormat::kText);
  }
  print_warnings(result.value());
  std::cout << bench_text(result.value());
  return 0;
}

void add_synthetic_options(CLI::App& command, SynthesizeOptions& o) {
  command.add_option("--shape", o.shape, "random weights in the shape of a known model instead")
      ->check(CLI::IsMember(synthetic_shapes()));
  command.add_option("--bits", o.bits, "with --shape: bits of the linear layers")
      ->check(CLI::IsMember({1, 2, 3, 4, 8}))
      ->capture_default_str();
  command.add_option("--embed-bits", o.embed_bits, "with --shape: bits of embedding and head")
      ->check(CLI::IsMember({1, 2, 3, 4, 8}))
      ->capture_default_str();
  command.add_option("--kept", o.kept, "with --shape: kept columns per matrix")
      ->check(number_check(0, 64))
      ->capture_default_str();
}

}  // namespace

void add_bench(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("bench", "Measure prefill and decode speed of a package");
  auto arguments = std::make_shared<Arguments>();
  CLI::Option* package =
      command->add_option("package,--package", arguments->package, "package file");
  add_synthetic_options(*command, arguments->synthetic);
  package->excludes(command->get_option("--shape"));
  BenchOptions& o = arguments->options;
  command->add_option("--threads", o.threads, "worker threads")
      ->check(number_check(1, 256))
      ->capture_default_str();
  command->add_option("--prompt", o.prompt, "tokens of the prompt")
      ->check(number_check(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--generate", o.generate, "tokens to decode")
      ->check(number_check(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--repeats", o.repeats, "rounds; the median counts")
      ->check(number_check(1, 1000))
      ->capture_default_str();
  command->add_option("--isa", o.isa, "instruction set; default: the best of this machine");
  command->add_flag("--json", arguments->json, "one JSON document on standard output");
  command->callback([arguments, &status] {
    if (arguments->package.empty() && arguments->synthetic.shape.empty()) {
      throw CLI::RequiredError("package or --shape");
    }
    status = run(*arguments);
  });
}

}  // namespace elastiq
