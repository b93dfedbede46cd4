#include <gtest/gtest.h>

#include "report/run_report.h"

namespace elastiq {
namespace {

Json good() {
  return Json::parse(R"({"format": "elastiq.report/1", "title": "t",
    "runs": [{"name": "a", "kind": "float", "bits_per_weight": {"file": 16, "ram": 16},
              "bytes": {"package": 10, "by_role": {"embed": 10}},
              "metrics": {"perplexity": 2.5, "perplexity_se": 0.1, "kl_mean": 0, "top1": 1,
                          "task_accuracy": null}},
             {"name": "b", "kind": "qat", "bits_per_weight": {"file": 2, "ram": 2.5},
              "bytes": {"package": 5}, "metrics": {}, "layers": [{"role": "attn.q", "layer": 0,
              "bits_per_weight": 2.4}]}],
    "comparisons": [{"a": "a", "b": "b", "kl_mean": -1, "kl_mean_se": 0.1, "low": -2, "high": 0,
                     "distinguishable": true}],
    "stages": [{"id": "s", "use": "qat", "seconds": 1}],
    "training": [{"name": "b", "steps": [0, 1], "loss": [2, 1]}]})");
}

struct Case {
  const char* name;
  const char* pointer;  ///< Where the broken value goes.
  const char* value;    ///< JSON text; "" removes the key.
  const char* message;  ///< Begins the error's detail.
};

class CheckReport : public testing::TestWithParam<Case> {};

TEST_P(CheckReport, NamesThePointer) {
  Json report = good();
  ASSERT_TRUE(check_report(report).ok());
  const Json::json_pointer pointer(GetParam().pointer);
  if (std::string(GetParam().value).empty()) {
    report[pointer.parent_pointer()].erase(pointer.back());
  } else {
    report[pointer] = Json::parse(GetParam().value);
  }
  const Status status = check_report(report);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kInconsistent);
  EXPECT_EQ(status.error().detail.rfind(GetParam().message, 0), 0u) << status.error().detail;
}

INSTANTIATE_TEST_SUITE_P(
    Cases, CheckReport,
    testing::Values(
        Case{"NoFormat", "/format", "", "/format: missing"},
        Case{"OtherFormat", "/format", "\"elastiq.report/2\"",
             "/format: found \"elastiq.report/2\""},
        Case{"NoRuns", "/runs", "[]", "/runs: holds no run"},
        Case{"RunsObject", "/runs", "{}", "/runs: found object, expected array"},
        Case{"RunText", "/runs/1", "\"x\"", "/runs/1: expected an object"},
        Case{"NoName", "/runs/0/name", "", "/runs/0/name: missing"},
        Case{"TwoNames", "/runs/1/name", "\"a\"", "/runs/1/name: a second run"},
        Case{"Kind", "/runs/0/kind", "\"gguf\"",
             "/runs/0/kind: found \"gguf\", allowed float, ptq, qat"},
        Case{"NoBits", "/runs/0/bits_per_weight", "", "/runs/0/bits_per_weight: missing"},
        Case{"BitsText", "/runs/0/bits_per_weight/file", "\"2\"",
             "/runs/0/bits_per_weight/file: found string, expected a number"},
        Case{"NegativeBytes", "/runs/0/bytes/by_role/embed", "-1",
             "/runs/0/bytes/by_role/embed: found -1"},
        Case{"NoMetrics", "/runs/0/metrics", "null", "/runs/0/metrics: missing"},
        Case{"Share", "/runs/0/metrics/top1", "1.5",
             "/runs/0/metrics/top1: found 1.5, out of range"},
        Case{"NegativeError", "/runs/0/metrics/perplexity_se", "-0.1",
             "/runs/0/metrics/perplexity_se: found -0.1"},
        Case{"NegativeKl", "/runs/0/metrics/kl_mean", "-0.5",
             "/runs/0/metrics/kl_mean: found -0.5"},
        Case{"Layers", "/runs/1/layers/0/role", "3", "/runs/1/layers/0/role: found number"},
        Case{"UnknownRun", "/comparisons/0/b", "\"c\"", "/comparisons/0/b: no run is named \"c\""},
        Case{"Verdict", "/comparisons/0/distinguishable", "1",
             "/comparisons/0/distinguishable: found number"},
        Case{"Stage", "/stages/0/id", "", "/stages/0/id: missing"},
        Case{"Curve", "/training/0/loss", "[1]", "/training/0/loss: has 1 values for 2 steps"},
        Case{"CurveText", "/training/0/loss", "[1, \"x\"]",
             "/training/0: steps and loss hold finite"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(CheckReportNumbers, InfinityIsRefused) {
  Json report = good();
  report["runs"][0]["metrics"]["perplexity"] = std::numeric_limits<double>::infinity();
  const Status status = check_report(report);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().detail, "/runs/0/metrics/perplexity: not a finite number");
}

}  // namespace
}  // namespace elastiq
