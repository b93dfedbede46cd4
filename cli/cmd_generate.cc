#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/output.h"
#include "model/run_generate.h"

namespace elastiq {
namespace {

struct Arguments {
  std::string package;
  GenerateOptions options;
  bool chat = false;
  bool json = false;
};

int run(const Arguments& arguments) {
  const OutputFormat format = arguments.json ? OutputFormat::kJson : OutputFormat::kText;
  GenerateOptions options = arguments.options;
  options.package = arguments.package;
  if (arguments.chat) options.form = GenerateOptions::Form::kChat;
  // The continuation reads as one text with its prompt; an error leaves standard output empty.
  std::string before = arguments.chat ? "" : options.prompt;
  const auto result = run_generate(options, [&arguments, &before](const std::string& text) {
    if (arguments.json) return;
    std::cout << before << text << std::flush;
    before.clear();
  });
  if (!result.ok() || arguments.json) return finish(result, format);
  std::cout << '\n';
  return 0;
}

}  // namespace

void add_generate(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("generate", "Continue a text with a package");
  auto arguments = std::make_shared<Arguments>();
  GenerateOptions& o = arguments->options;
  command->add_option("package,--package", arguments->package, "package file")->required();
  command->add_option("--prompt,-p", o.prompt, "text to continue, or question with --chat")
      ->required();
  command->add_flag("--chat", arguments->chat, "put the prompt in the model's chat form (ChatML)");
  command->add_option("--max-tokens,-n", o.max_tokens, "most tokens to add")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--temperature", o.temperature, "0: always the most likely token")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--top-k", o.top_k, "draw from so many; 0: all")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  command->add_option("--seed", o.seed, "of the draws")->capture_default_str();
  command->add_option("--threads", o.threads, "worker threads")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "one JSON document on standard output");
  command->callback([arguments, &status] { status = run(*arguments); });
}

}  // namespace elastiq
