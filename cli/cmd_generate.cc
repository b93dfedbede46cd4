#include <fmt/format.h>

#include <iostream>
#include <iterator>
#include <limits>
#include <memory>

#include "cli/commands.h"
#include "cli/number_check.h"
#include "cli/output.h"
#include "core/file.h"
#include "model/run_generate.h"

namespace elastiq {
namespace {

struct Arguments {
  std::string package;
  std::string prompt_file;
  GenerateOptions options;
  bool chat = false;
  bool json = false;
};

constexpr std::uint64_t kMaxPromptBytes = std::uint64_t{16} << 20;

/// The text of a file, or of standard input for "-".
Result<std::string> read_prompt(const std::string& file) {
  if (file != "-") return read_text_file(file, kMaxPromptBytes);
  std::string text(std::istreambuf_iterator<char>(std::cin), {});
  if (text.size() <= kMaxPromptBytes) return text;
  return Error{ErrorCode::kLimitExceeded, "standard input",
               "has more than " + std::to_string(kMaxPromptBytes) + " bytes"};
}

void print_speed(const Json& result) {
  std::cerr << fmt::format("{} tokens of prompt at {:.1f}/s, {} tokens at {:.1f}/s\n",
                           result["prompt_tokens"].get<std::uint64_t>(),
                           result["speed"]["prefill_tps"].get<double>(), result["tokens"].size(),
                           result["speed"]["decode_tps"].get<double>());
}

int run(const Arguments& arguments) {
  const OutputFormat format = arguments.json ? OutputFormat::kJson : OutputFormat::kText;
  GenerateOptions options = arguments.options;
  options.package = arguments.package;
  if (!arguments.prompt_file.empty()) {
    auto text = read_prompt(arguments.prompt_file);
    if (!text.ok()) return report_error(text.error(), format);
    options.prompt = std::move(text).value();
  }
  if (arguments.chat) options.form = GenerateOptions::Form::kChat;
  // The continuation reads as one text with its prompt; an error leaves standard output empty.
  std::string before = arguments.chat ? "" : options.prompt;
  const auto result = run_generate(options, [&arguments, &before](const std::string& text) {
    if (arguments.json) return;
    std::cout << before << text << std::flush;
    before.clear();
  });
  if (!result.ok() || arguments.json) return finish(result, format);
  std::cout << std::endl;
  print_speed(result.value());
  return 0;
}

void add_sampling_options(CLI::App& command, SamplingOptions& o) {
  command.add_option("--temperature", o.temperature, "0: always the most likely token")
      ->check(number_check(0.0, 100.0))
      ->capture_default_str();
  command.add_option("--top-k", o.top_k, "draw from so many of the most likely; 0: all")
      ->check(number_check(0, 1 << 30))
      ->capture_default_str();
  command.add_option("--top-p", o.top_p, "and of these from the fewest with this share of mass")
      ->check(number_check(1e-6, 1.0))
      ->capture_default_str();
  command.add_option("--repetition-penalty", o.repetition_penalty, "1: none")
      ->check(number_check(0.01, 100.0))
      ->capture_default_str();
  command
      .add_option("--repetition-window", o.repetition_window,
                  "tokens that the penalty looks back; 0: all")
      ->check(number_check(0, 1 << 20))
      ->capture_default_str();
}

}  // namespace

void add_generate(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("generate", "Continue a text with a package");
  auto arguments = std::make_shared<Arguments>();
  GenerateOptions& o = arguments->options;
  command->add_option("package,--package", arguments->package, "package file")->required();
  CLI::Option_group* source = command->add_option_group("prompt");
  source->add_option("--prompt,-p", o.prompt, "text to continue, or question with --chat");
  source->add_option("--prompt-file", arguments->prompt_file,
                     "the same from a file; -: from standard input");
  source->require_option(1);
  command->add_flag("--chat", arguments->chat, "put the prompt in the model's chat form (ChatML)");
  command->add_option("--max-tokens,-n", o.max_tokens, "most tokens to add")
      ->check(number_check(1, 1 << 20))
      ->capture_default_str();
  add_sampling_options(*command, o.sampling);
  command->add_option("--seed", o.seed, "of the draws")
      ->check(number_check(std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max()))
      ->capture_default_str();
  command->add_option("--stop", o.stop, "word before which the text ends; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--isa", o.isa, "instruction set; default: the best of this machine");
  command->add_option("--threads", o.threads, "worker threads")
      ->check(number_check(1, 256))
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "one JSON document on standard output");
  command->callback([arguments, &status] { status = run(*arguments); });
}

}  // namespace elastiq
