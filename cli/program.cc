#include "cli/program.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <new>

#include "cli/output.h"
#include "recipes/option_json.h"

namespace elastiq {
namespace {

constexpr int kUsageStatus = 2;

/// 0 when argv[1] is no word that had to be a subcommand.
int refuse_unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return 0;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  if (std::find(names.begin(), names.end(), argv[1]) != names.end()) return 0;
  const std::string nearest = nearest_key(argv[1], names);
  const std::string hint =
      nearest.empty() ? "see elastiq --help" : "did you mean \"" + nearest + "\"?";
  return report_error(Error{ErrorCode::kUsage, argv[1], "no such subcommand, " + hint},
                      OutputFormat::kText);
}

/// Subcommands own their --json; after an exception only the words are left to look at.
OutputFormat format_of(int argc, char** argv) {
  const bool json = std::any_of(argv + std::min(argc, 1), argv + argc,
                                [](const char* word) { return std::strcmp(word, "--json") == 0; });
  return json ? OutputFormat::kJson : OutputFormat::kText;
}

}  // namespace

Error error_of_exception(const std::exception& thrown, const std::string& subject) {
  std::string text = thrown.what();
  // LibTorch throws its own type, and a stack trace after the first line.
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr ||
                         text.find("can't allocate memory") != std::string::npos ||
                         text.find("annot allocate memory") != std::string::npos;
  text.resize(std::min(text.find('\n'), text.size()));
  if (no_memory) return Error{ErrorCode::kResources, subject, "not enough memory (" + text + ")"};
  return Error{ErrorCode::kInternal, subject, text};
}

std::filesystem::path program_folder() {
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  return failed ? std::filesystem::path(".") : self.parent_path();
}

int run_sibling(char** argv) {
  const std::string program = (program_folder() / "elastiq-torch").string();
  execv(program.c_str(), argv);
  const ErrorCode code = errno == ENOENT ? ErrorCode::kMissing : ErrorCode::kIo;
  return report_error(Error{code, program,
                            std::string(std::strerror(errno)) + "; \"" + argv[1] +
                                "\" needs a build with LibTorch (-DELASTIQ_TORCH=ON)"},
                      OutputFormat::kText);
}

int parse_and_run(CLI::App& app, int argc, char** argv, const int& status) {
  const int refused = refuse_unknown_command(app, argc, argv);
  if (refused != 0) return refused;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageStatus;
  } catch (const std::exception& thrown) {
    const std::string subject = argc > 1 ? argv[1] : "elastiq";
    return report_error(error_of_exception(thrown, subject), format_of(argc, argv));
  }
  return status;
}

}  // namespace elastiq
