#include "core/file.h"
#include "report/run_report.h"

namespace elastiq {

Status write_report(const std::filesystem::path& folder, const Json& report) {
  ELQ_CHECK(check_report(report));
  ELQ_CHECK(write_file(folder / "report.json", dump_json(report)));
  ELQ_CHECK(write_file(folder / "report.md", report_markdown(report)));
  return write_file(folder / "report.html", report_html(report));
}

}  // namespace elastiq
