#include "export/emit_kernels.h"

#include "core/file.h"
#include "export/kernel_texts.h"

namespace elastiq {

Status emit_kernels(const std::filesystem::path& folder, const std::string& package) {
  constexpr std::string_view kDefaultPackage = "../model.elq";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Error{io_error_code(error.value()), folder.string(), "cannot create: " + error.message(),
                 0};
  }
  for (const KernelText& file : kernel_texts()) {
    std::string text(file.text);
    const std::size_t at = file.name == "Makefile" ? text.find(kDefaultPackage) : std::string::npos;
    if (at != std::string::npos) text.replace(at, kDefaultPackage.size(), "../" + package);
    ELQ_CHECK(write_file(folder / file.name, text));
  }
  return ok_status();
}

}  // namespace elastiq
