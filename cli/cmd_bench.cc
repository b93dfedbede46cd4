#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/number_check.h"
#include "cli/output.h"
#include "cli/program.h"
#include "core/file.h"
#include "core/text.h"
#include "export/run_synthesize.h"
#include "model/run_bench.h"
#include "recipes/child_process.h"

namespace elastiq {
namespace {

struct Arguments {
  std::string package;
  BenchOptions options;
  SynthesizeOptions synthetic;
  bool json = false;
};

/// A file that is gone at the end.
struct TemporaryFile {
  std::filesystem::path path;

  explicit TemporaryFile(const char* suffix)
      : path(std::filesystem::temp_directory_path() /
             fmt::format("elastiq-bench-{}{}", getpid(), suffix)) {}

  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }

  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
};

/// In a process of its own: its memory must not count as the runtime's.
Status synthesize(const SynthesizeOptions& options, const std::filesystem::path& package) {
  const TemporaryFile request(".json");
  const TemporaryFile answer(".result.json");
  const Json json = {{"shape", options.shape},           {"bits", options.bits},
                     {"embed_bits", options.embed_bits}, {"kept", options.kept},
                     {"threads", options.threads},       {"out", package.string()}};
  ELQ_CHECK(write_file(request.path, dump_json(json)));
  ELQ_TRY(child, run_child({(program_folder() / "elastiq").string(), "stage", "synthesize",
                            request.path.string()},
                           answer.path));
  if (child.exit_status == 0) return ok_status();
  ELQ_TRY(result, read_json_file(answer.path, JsonLimits{}));
  return error_from_json(result);
}

Result<Json> bench(const Arguments& arguments) {
  BenchOptions options = arguments.options;
  options.package = arguments.package;
  if (!arguments.package.empty()) return run_bench(options);
  const TemporaryFile package(".elq");
  SynthesizeOptions synthetic = arguments.synthetic;
  synthetic.threads = options.threads;
  ELQ_CHECK(synthesize(synthetic, package.path));
  options.package = package.path;
  ELQ_TRY(result, run_bench(options));
  result["package"] = "synthetic-" + synthetic.shape;
  result["bits"] = synthetic.bits;
  result["embed_bits"] = synthetic.embed_bits;
  result["kept"] = synthetic.kept;
  return result;
}

int run(const Arguments& arguments) {
  const auto result = bench(arguments);
  if (!result.ok() || arguments.json) {
    return finish(result, arguments.json ? OutputFormat::kJson : OutputFormat::kText);
  }
  const Json& json = result.value();
  const auto number = [&json](const char* key) { return json[key].get<double>(); };
  std::cout << fmt::format("{}, {} threads\n", json["isa"].get<std::string>(),
                           json["threads"].get<int>());
  std::cout << fmt::format("prefill  {:8.1f} tokens/s  {} tokens, first token after {:.1f} ms\n",
                           number("prefill_tps"), json["prompt"].get<int>(), number("ttft_ms"));
  std::cout << fmt::format(
      "decode   {:8.1f} tokens/s  p50 {:.2f} ms, p95 {:.2f} ms, p99 {:.2f} ms\n",
      number("decode_tps"), number("p50_ms"), number("p95_ms"), number("p99_ms"));
  std::cout << fmt::format(
      "reads    {:8.2f} GB/s      {} of the {:.2f} GB/s that this machine reads\n",
      number("read_gbps"), format_percent(number("bandwidth_share")), number("machine_read_gbps"));
  std::cout << fmt::format(
      "load     {:8.2f} ms        longest of 10: {:.2f} ms, cold start {:.1f} ms\n",
      number("load_ms_p50"), number("load_ms_max"), number("cold_start_ms"));
  std::cout << fmt::format("memory   {} resident at most, {} per session\n",
                           format_bytes(number("peak_rss_bytes")),
                           format_bytes(number("session_bytes")));
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
