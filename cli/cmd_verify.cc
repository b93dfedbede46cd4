#include <memory>

#include "cli/commands.h"
#include "cli/output.h"
#include "formats/package.h"
#include "model/package_model.h"

namespace elastiq {
namespace {

struct Arguments {
  std::string package;
  bool json = false;
};

/// To somebody who asks whether a package is sound, a damaged one is a failed verification,
/// whatever rule found it.
Error as_verification(Error error) {
  if (error.code == ErrorCode::kIo || error.code == ErrorCode::kResources) return error;
  if (error.code != ErrorCode::kVerification) {
    error.detail = std::string(code_name(error.code)) + ": " + error.detail;
  }
  error.code = ErrorCode::kVerification;
  return error;
}

Result<Json> verify(const std::string& file) {
  ELQ_TRY(package, Package::open(file));
  ELQ_CHECK(package.verify());
  PackageModel::Options options;
  options.max_tokens = 64;
  ELQ_TRY(model, PackageModel::open(file, options));
  ELQ_CHECK(model.selftest());
  return Json{{"format", "elastiq.verify/1"},
              {"package", file},
              {"verified", true},
              {"sections", package.toc().size()},
              {"tensors", package.tensors().size()},
              {"isa", model.isa()}};
}

int run(const Arguments& arguments) {
  const OutputFormat format = arguments.json ? OutputFormat::kJson : OutputFormat::kText;
  auto result = verify(arguments.package);
  if (!result.ok()) return report_error(as_verification(result.error()), format);
  return print_result(result.value(), format);
}

}  // namespace

void add_verify(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand(
      "verify", "Check every byte of a package and run its golden vectors on this machine");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("package", arguments->package, "package file")->required();
  command->add_flag("--json", arguments->json, "one JSON document on standard output");
  command->callback([arguments, &status] { status = run(*arguments); });
}

}  // namespace elastiq
