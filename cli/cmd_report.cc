#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/output.h"
#include "report/run_report.h"

namespace elastiq {
namespace {

struct Arguments {
  std::string file;
  std::string out;
  std::string format = "terminal";
};

Status render(const Arguments& arguments) {
  ELQ_TRY(report, read_json_file(arguments.file, JsonLimits{}));
  ELQ_CHECK(check_report(report));
  if (!arguments.out.empty()) return write_report(arguments.out, report);
  if (arguments.format == "html") {
    std::cout << report_html(report);
  } else if (arguments.format == "markdown") {
    std::cout << report_markdown(report);
  } else {
    std::cout << report_terminal(report);
  }
  return ok_status();
}

}  // namespace

void add_report(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("report", "Render a report.json again");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("file", arguments->file, "report.json")->required();
  command->add_option("--out,-o", arguments->out, "folder for report.json, report.md, report.html");
  command->add_option("--format", arguments->format, "what standard output gets without --out")
      ->check(CLI::IsMember(std::vector<std::string>{"terminal", "markdown", "html"}))
      ->capture_default_str();
  command->callback([arguments, &status] {
    const Status done = render(*arguments);
    status = done.ok() ? 0 : report_error(done.error(), OutputFormat::kText);
  });
}

}  // namespace elastiq
