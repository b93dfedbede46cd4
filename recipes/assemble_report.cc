#include "recipes/assemble_report.h"

#include <algorithm>
#include <set>

#include "model/metrics.h"
#include "recipes/stage_list.h"

namespace elastiq {
namespace {

const Json& result_of(const StageRecords& records, const std::string& id) {
  return records.at(id).at("result");
}

/// A package runs without LibTorch on a device, so its speed and memory are those of `bench`, not
/// those of the process that also held the float model.
void add_bench(Json& run, const Json& bench) {
  run["speed"] = {{"prefill_tps", bench.at("prefill_tps")}, {"decode_tps", bench.at("decode_tps")}};
  run["peak_rss_bytes"] = bench.at("peak_rss_bytes");
  run["isa"] = bench.at("isa");
}

std::vector<double> contexts_of(const Json& run) {
  const auto it = run.find("kl_per_context");
  return it == run.end() || !it->is_array() ? std::vector<double>()
                                            : it->get<std::vector<double>>();
}

Result<Json> comparison(const Json& a, const Json& b) {
  ELQ_TRY(difference, paired_difference(contexts_of(a), contexts_of(b)));
  return Json{{"a", a.at("name")},
              {"b", b.at("name")},
              {"kl_mean", difference.kl_mean.value},
              {"kl_mean_se", difference.kl_mean.se},
              {"low", difference.low},
              {"high", difference.high},
              {"distinguishable", difference.distinguishable}};
}

/// Index pairs into the variants: with the one it starts from, and with the one before.
std::set<std::pair<std::size_t, std::size_t>> pairs_of(const Recipe& recipe) {
  std::set<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t i = 0; i < recipe.variants.size(); ++i) {
    if (i > 0) pairs.insert({i, i - 1});
    for (std::size_t k = 0; k < i; ++k) {
      if (recipe.variants[i].from == recipe.variants[k].name) pairs.insert({i, k});
    }
  }
  return pairs;
}

Json training_curve(const std::string& name, const Json& result) {
  Json steps = Json::array();
  Json loss = Json::array();
  for (const Json& point : result.value("curve", Json::array())) {
    steps.push_back(point.at("step"));
    loss.push_back(point.at("loss"));
  }
  return {{"name", name}, {"steps", std::move(steps)}, {"loss", std::move(loss)}};
}

}  // namespace

Result<Json> assemble_report(const Recipe& recipe, const RecipePlan& plan,
                             const StageRecords& records, const Json& machine,
                             const std::vector<std::string>& warnings) {
  Json report = {{"format", "elastiq.report/1"},
                 {"title", recipe.title},
                 {"tool", "elastiq " ELASTIQ_VERSION},
                 {"machine", machine},
                 {"recipe", recipe.resolved}};
  Json runs = Json::array({result_of(records, evaluate_id("float"))});
  Json training = Json::array();
  for (std::size_t i = 0; i < recipe.variants.size(); ++i) {
    const Variant& variant = recipe.variants[i];
    Json run = result_of(records, evaluate_id(variant.name));
    add_bench(run, result_of(records, bench_id(variant)));
    run["layers"] = plan_layers(plan.variants[i]);
    runs.push_back(std::move(run));
    if (!variant.qat) continue;
    training.push_back(training_curve(variant.name, result_of(records, variant_stage_id(variant))));
  }
  Json comparisons = Json::array();
  for (const auto& [a, b] : pairs_of(recipe)) {
    ELQ_TRY(row, comparison(runs[a + 1], runs[b + 1]));
    comparisons.push_back(std::move(row));
  }
  Json stages = Json::array();
  for (const StageSpec& spec : stage_list(recipe, "", Json::object())) {
    const Json& record = records.at(spec.id);
    stages.push_back({{"id", spec.id},
                      {"use", spec.use},
                      {"seconds", record.at("seconds")},
                      {"peak_rss_bytes", record.at("peak_rss_bytes")},
                      {"cached", record.at("cached")}});
  }
  report["runs"] = std::move(runs);
  report["comparisons"] = std::move(comparisons);
  report["stages"] = std::move(stages);
  report["training"] = std::move(training);
  report["warnings"] = warnings;
  return report;
}

}  // namespace elastiq
