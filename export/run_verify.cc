#include "export/run_verify.h"

#include "formats/package.h"
#include "model/package_model.h"

namespace elastiq {
namespace {

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

Result<Json> verify(const std::filesystem::path& file) {
  ELQ_TRY(package, Package::open(file));
  ELQ_CHECK(package.verify());
  ELQ_TRY(model, PackageModel::open(file, PackageModel::Options{}));
  ELQ_CHECK(model.selftest());
  return Json{{"format", "elastiq.verify/1"},
              {"package", file.string()},
              {"verified", true},
              {"sections", package.toc().size()},
              {"tensors", package.tensors().size()},
              {"isa", model.isa()}};
}

}  // namespace

Result<Json> run_verify(const std::filesystem::path& file) {
  auto result = verify(file);
  if (!result.ok()) return as_verification(result.error());
  return result;
}

}  // namespace elastiq
