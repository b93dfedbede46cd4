#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/json.h"
#include "report/run_report.h"

namespace elastiq {
namespace {

namespace fs = std::filesystem;

fs::path golden(const std::string& name) {
  return fs::path(__FILE__).parent_path() / "golden" / name;
}

std::string slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Json sample() {
  auto json = read_json_file(golden("report.json"), JsonLimits{});
  EXPECT_TRUE(json.ok()) << (json.ok() ? "" : to_string(json.error()));
  return json.ok() ? json.value() : Json();
}

/// ELASTIQ_UPDATE_GOLDEN=1 rewrites the file; look at the difference before committing it.
void expect_golden(const std::string& name, const std::string& got) {
  if (std::getenv("ELASTIQ_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(golden(name), std::ios::binary) << got;
  }
  EXPECT_TRUE(got == slurp(golden(name)))
      << name << " differs from tests/report/golden; ELASTIQ_UPDATE_GOLDEN=1 rewrites it";
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(Report, SampleIsValid) {
  const Status status = check_report(sample());
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : to_string(status.error()));
}

TEST(Report, BytesEqualTheGoldenFiles) {
  const Json report = sample();
  expect_golden("report.md", report_markdown(report));
  expect_golden("report.txt", report_terminal(report));
  expect_golden("report.html", report_html(report));
}

TEST(Report, HtmlHasOneDrawingPerChartAndATableBehindEach) {
  const std::string html = report_html(sample());
  // bytes, KL, perplexity, size-KL, task, training, and a bit map for each of three quantized runs.
  EXPECT_EQ(count(html, "<figure"), 9u);
  EXPECT_EQ(count(html, "<details><summary>Data"), 9u);
  EXPECT_EQ(count(html, "<figure"), count(html, "</figure>"));
  EXPECT_EQ(count(html, "<svg"), count(html, "</svg>"));
}

TEST(Report, HtmlNeedsNoRequestNoScriptAndNoStyleAttribute) {
  const std::string html = report_html(sample());
  for (const char* forbidden :
       {"<script", "http://", "https://", "src=", "href=", " style=", "url(", "@import"}) {
    EXPECT_EQ(html.find(forbidden), std::string::npos) << forbidden;
  }
  EXPECT_NE(html.find("default-src 'none'; style-src 'sha256-"), std::string::npos);
}

TEST(Report, TextFromTheReportCannotBecomeMarkup) {
  Json report = sample();
  const std::string evil = "</title></svg><img src=x onerror=alert(1)>\"'&";
  report["title"] = evil;
  report["tool"] = evil;
  report["machine"][evil] = evil;
  report["recipe"] = Json{{evil, evil}};
  report["runs"][1]["name"] = evil;
  report["comparisons"] = Json::array();
  report["runs"][1]["layers"][0]["role"] = evil;
  report["runs"][1]["layers"][0]["rule"] = evil;
  report["runs"][1]["bytes"]["by_role"][evil] = 5;
  report["stages"][0]["id"] = evil;
  report["training"][0]["name"] = evil;
  EXPECT_EQ(report_html(report).find("<img"), std::string::npos);
  EXPECT_EQ(report_html(report).find("onerror=alert(1)>\""), std::string::npos);
  EXPECT_EQ(report_markdown(report).find("<img"), std::string::npos);
}

TEST(Report, TerminalTextHasNoEscapeSequences) {
  Json report = sample();
  report["runs"][1]["name"] = "a\x1b[31m\nb";
  report["comparisons"] = Json::array();
  const std::string text = report_terminal(report);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("a?[31m?b"), std::string::npos);
}

TEST(Report, WarningsAreInEveryForm) {
  Json report = sample();
  report["warnings"] = {"unused file <b>", "t.txt: has CRLF"};
  EXPECT_TRUE(check_report(report).ok());
  EXPECT_NE(report_markdown(report).find("## Warnings\n\n- unused file "), std::string::npos);
  EXPECT_NE(report_terminal(report).find("\nwarning: unused file <b>\nwarning: t.txt: has CRLF\n"),
            std::string::npos);
  const std::string html = report_html(report);
  EXPECT_NE(html.find("<h2>Warnings</h2>"), std::string::npos);
  EXPECT_NE(html.find("<li>unused file &lt;b&gt;</li>"), std::string::npos);
  report["warnings"] = {1};
  EXPECT_EQ(to_string(check_report(report).error()).find("/warnings/0") != std::string::npos, true);
}

TEST(Report, SmallestReportRenders) {
  const Json report = Json::parse(R"({"format": "elastiq.report/1", "runs": [{"name": "only",
      "kind": "ptq", "bits_per_weight": {"file": null, "ram": null}, "bytes": {"package": null},
      "metrics": {}}]})");
  ASSERT_TRUE(check_report(report).ok());
  EXPECT_NE(report_html(report).find("only"), std::string::npos);
  EXPECT_NE(report_terminal(report).find("only"), std::string::npos);
  EXPECT_NE(report_markdown(report).find("| only |"), std::string::npos);
}

TEST(Report, MarkdownStaysUnderTheLimitOfJobSummaries) {
  Json report = sample();
  for (int i = 0; i < 3000; ++i) {
    report["stages"].push_back({{"id", "stage number " + std::to_string(i)}, {"use", "qat"}});
  }
  const std::string text = report_markdown(report);
  EXPECT_LT(text.size(), 65536u);
  EXPECT_NE(text.find("Stages: see report.html"), std::string::npos);
}

TEST(Report, WriteLeavesThreeFilesAndRefusesABadReport) {
  const fs::path folder = fs::temp_directory_path() / ("elq_report_" + std::to_string(getpid()));
  fs::create_directories(folder);
  Json report = sample();
  ASSERT_TRUE(write_report(folder, report).ok());
  EXPECT_EQ(slurp(folder / "report.json"), dump_json(report));
  EXPECT_EQ(slurp(folder / "report.html"), report_html(report));
  EXPECT_EQ(slurp(folder / "report.md"), report_markdown(report));
  report["format"] = "elastiq.report/2";
  EXPECT_FALSE(write_report(folder, report).ok());
  fs::remove_all(folder);
}

}  // namespace
}  // namespace elastiq
