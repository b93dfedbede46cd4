#include "cli/program.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <new>

#include "cli/output.h"
#include "cli/output_buffer.h"
#include "core/file.h"
#include "recipes/option_json.h"

namespace elastiq {
namespace {

/// Subcommands own their --json; where none was reached only the words are left to look at.
OutputFormat format_of(int argc, char** argv) {
  const bool json = std::any_of(argv + std::min(argc, 1), argv + argc,
                                [](const char* word) { return std::strcmp(word, "--json") == 0; });
  return json ? OutputFormat::kJson : OutputFormat::kText;
}

int words_of(char** argv) {
  int count = 0;
  while (argv[count] != nullptr) ++count;
  return count;
}

bool begins_with_word(int argc, char** argv) {
  return argc > 1 && argv[1][0] != '-' && argv[1][0] != '\0';
}

/// 0 when argv[1] is no word that had to be a subcommand.
int refuse_unknown_command(const CLI::App& app, int argc, char** argv) {
  if (!begins_with_word(argc, argv)) return 0;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  if (std::find(names.begin(), names.end(), argv[1]) != names.end()) return 0;
  const std::string nearest = nearest_key(argv[1], names);
  const std::string hint =
      nearest.empty() ? "see elastiq --help" : "did you mean \"" + nearest + "\"?";
  return report_error(Error{ErrorCode::kUsage, argv[1], "no such subcommand, " + hint},
                      format_of(argc, argv));
}

/// What CLI11 has to say, in our form.
Error usage_error(const CLI::ParseError& thrown, int argc, char** argv) {
  std::string text = thrown.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  const std::string command = begins_with_word(argc, argv) ? argv[1] : "";
  return Error{ErrorCode::kUsage, command.empty() ? "command line" : command,
               text + "; see elastiq " + (command.empty() ? "" : command + " ") + "--help"};
}

int parse(CLI::App& app, int argc, char** argv, const int& status) {
  const int refused = refuse_unknown_command(app, argc, argv);
  if (refused != 0) return refused;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& thrown) {
    // --help and --version are thrown too.
    if (thrown.get_exit_code() == 0) return app.exit(thrown);
    return report_error(usage_error(thrown, argc, argv), format_of(argc, argv));
  } catch (const std::exception& thrown) {
    const std::string subject = argc > 1 ? argv[1] : "elastiq";
    return report_error(error_of_exception(thrown, subject), format_of(argc, argv));
  }
  return status;
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
                      format_of(words_of(argv), argv));
}

int parse_and_run(CLI::App& app, int argc, char** argv, const int& status) {
  // A file that may not grow is an error of that file, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  OutputBuffer output;
  const int done = parse(app, argc, argv, status);
  std::cout.flush();
  if (output.failure() == 0 || done != 0) return done;
  return report_error(Error{io_error_code(output.failure()), "standard output",
                            std::string("cannot write: ") + std::strerror(output.failure())},
                      OutputFormat::kText);
}

}  // namespace elastiq
