#include <array>
#include <cmath>
#include <set>
#include <string>

#include "report/run_report.h"

namespace elastiq {
namespace {

enum class Need { kRequired, kOptional };

constexpr std::array kMetrics = {"perplexity", "perplexity_ratio", "kl_mean", "kl_median", "kl_p99",
                                 "top1",       "task_accuracy"};

Error refuse(const std::string& pointer, const std::string& detail) {
  return Error{ErrorCode::kInconsistent, "report.json",
               (pointer.empty() ? "/" : pointer) + ": " + detail};
}

/// The key's value, or nullptr when it is absent or null and may be.
Result<const Json*> lookup(const Json& object, const std::string& pointer, const char* key,
                           Need need) {
  const auto it = object.find(key);
  if (it != object.end() && !it->is_null()) return &*it;
  if (need == Need::kOptional) return static_cast<const Json*>(nullptr);
  return refuse(pointer + "/" + key, "missing");
}

Status check_number(const Json& object, const std::string& pointer, const char* key, double min,
                    double max) {
  ELQ_TRY(value, lookup(object, pointer, key, Need::kOptional));
  if (value == nullptr) return ok_status();
  const std::string here = pointer + "/" + key;
  if (!value->is_number()) {
    return refuse(here, std::string("found ") + value->type_name() + ", expected a number or null");
  }
  const double number = value->get<double>();
  if (!std::isfinite(number)) return refuse(here, "not a finite number");
  if (number < min || number > max)
    return refuse(here, "found " + value->dump() + ", out of range");
  return ok_status();
}

Status check_text(const Json& object, const std::string& pointer, const char* key, Need need) {
  ELQ_TRY(value, lookup(object, pointer, key, need));
  if (value == nullptr || value->is_string()) return ok_status();
  return refuse(pointer + "/" + key,
                std::string("found ") + value->type_name() + ", expected a string");
}

Result<const Json*> lookup_typed(const Json& object, const std::string& pointer, const char* key,
                                 Json::value_t type, Need need) {
  ELQ_TRY(value, lookup(object, pointer, key, need));
  if (value == nullptr || value->type() == type) return value;
  return refuse(pointer + "/" + key, std::string("found ") + value->type_name() + ", expected " +
                                         Json(type).type_name());
}

Status check_metrics(const Json& metrics, const std::string& pointer) {
  constexpr double kMax = 1e300;
  for (const char* name : kMetrics) {
    const bool is_share = name == std::string("top1") || name == std::string("task_accuracy");
    // A mean of KL over rounded probabilities may fall a hair below zero.
    const double min = is_share || name[0] != 'k' ? 0 : -1e-3;
    ELQ_CHECK(check_number(metrics, pointer, name, min, is_share ? 1 : kMax));
    ELQ_CHECK(check_number(metrics, pointer, (std::string(name) + "_se").c_str(), 0, kMax));
  }
  return ok_status();
}

Status check_bytes(const Json& run, const std::string& pointer) {
  ELQ_TRY(bytes, lookup_typed(run, pointer, "bytes", Json::value_t::object, Need::kRequired));
  ELQ_CHECK(check_number(*bytes, pointer + "/bytes", "package", 0, 1e18));
  ELQ_TRY(roles, lookup_typed(*bytes, pointer + "/bytes", "by_role", Json::value_t::object,
                              Need::kOptional));
  if (roles == nullptr) return ok_status();
  for (const auto& [role, value] : roles->items()) {
    ELQ_CHECK(check_number(*roles, pointer + "/bytes/by_role", role.c_str(), 0, 1e18));
  }
  return ok_status();
}

Status check_layers(const Json& run, const std::string& pointer) {
  ELQ_TRY(layers, lookup_typed(run, pointer, "layers", Json::value_t::array, Need::kOptional));
  if (layers == nullptr) return ok_status();
  for (std::size_t i = 0; i < layers->size(); ++i) {
    const std::string here = pointer + "/layers/" + std::to_string(i);
    const Json& layer = (*layers)[i];
    if (!layer.is_object()) return refuse(here, "expected an object");
    ELQ_CHECK(check_text(layer, here, "role", Need::kRequired));
    ELQ_CHECK(check_number(layer, here, "layer", -1, 1 << 20));
    ELQ_CHECK(check_number(layer, here, "bits_per_weight", 0, 64));
  }
  return ok_status();
}

Status check_run(const Json& run, const std::string& pointer, std::set<std::string>& names) {
  if (!run.is_object()) return refuse(pointer, "expected an object");
  ELQ_CHECK(check_text(run, pointer, "name", Need::kRequired));
  ELQ_CHECK(check_text(run, pointer, "kind", Need::kRequired));
  const auto kind = run["kind"].get<std::string>();
  if (kind != "float" && kind != "ptq" && kind != "qat") {
    return refuse(pointer + "/kind", "found \"" + kind + "\", allowed float, ptq, qat");
  }
  if (!names.insert(run["name"].get<std::string>()).second) {
    return refuse(pointer + "/name", "a second run of this name");
  }
  ELQ_TRY(bits,
          lookup_typed(run, pointer, "bits_per_weight", Json::value_t::object, Need::kRequired));
  ELQ_CHECK(check_number(*bits, pointer + "/bits_per_weight", "file", 0, 128));
  ELQ_CHECK(check_number(*bits, pointer + "/bits_per_weight", "ram", 0, 128));
  ELQ_CHECK(check_bytes(run, pointer));
  ELQ_TRY(metrics, lookup_typed(run, pointer, "metrics", Json::value_t::object, Need::kRequired));
  ELQ_CHECK(check_metrics(*metrics, pointer + "/metrics"));
  ELQ_TRY(speed, lookup_typed(run, pointer, "speed", Json::value_t::object, Need::kOptional));
  if (speed != nullptr) {
    ELQ_CHECK(check_number(*speed, pointer + "/speed", "prefill_tps", 0, 1e12));
    ELQ_CHECK(check_number(*speed, pointer + "/speed", "decode_tps", 0, 1e12));
  }
  for (const char* key : {"tokens", "contexts", "peak_rss_bytes"}) {
    ELQ_CHECK(check_number(run, pointer, key, 0, 1e18));
  }
  return check_layers(run, pointer);
}

Status check_comparisons(const Json& report, const std::set<std::string>& names) {
  ELQ_TRY(rows, lookup_typed(report, "", "comparisons", Json::value_t::array, Need::kOptional));
  if (rows == nullptr) return ok_status();
  for (std::size_t i = 0; i < rows->size(); ++i) {
    const std::string here = "/comparisons/" + std::to_string(i);
    const Json& row = (*rows)[i];
    if (!row.is_object()) return refuse(here, "expected an object");
    for (const char* key : {"a", "b"}) {
      ELQ_CHECK(check_text(row, here, key, Need::kRequired));
      if (names.count(row[key].get<std::string>()) == 0) {
        return refuse(here + "/" + key, "no run is named " + row[key].dump());
      }
    }
    for (const char* key : {"kl_mean", "low", "high"}) {
      ELQ_CHECK(check_number(row, here, key, -1e300, 1e300));
    }
    ELQ_CHECK(check_number(row, here, "kl_mean_se", 0, 1e300));
    ELQ_TRY(verdict,
            lookup_typed(row, here, "distinguishable", Json::value_t::boolean, Need::kRequired));
    static_cast<void>(verdict);
  }
  return ok_status();
}

Status check_curve(const Json& row, const std::string& here) {
  if (!row.is_object()) return refuse(here, "expected an object");
  ELQ_CHECK(check_text(row, here, "name", Need::kRequired));
  ELQ_TRY(steps, lookup_typed(row, here, "steps", Json::value_t::array, Need::kRequired));
  ELQ_TRY(loss, lookup_typed(row, here, "loss", Json::value_t::array, Need::kRequired));
  if (steps->size() != loss->size()) {
    return refuse(here + "/loss", "has " + std::to_string(loss->size()) + " values for " +
                                      std::to_string(steps->size()) + " steps");
  }
  for (const Json* values : {steps, loss}) {
    for (const Json& value : *values) {
      if (!value.is_number() || !std::isfinite(value.get<double>())) {
        return refuse(here, "steps and loss hold finite numbers only");
      }
    }
  }
  return ok_status();
}

Status check_lists(const Json& report) {
  ELQ_TRY(stages, lookup_typed(report, "", "stages", Json::value_t::array, Need::kOptional));
  for (std::size_t i = 0; stages != nullptr && i < stages->size(); ++i) {
    const std::string here = "/stages/" + std::to_string(i);
    if (!(*stages)[i].is_object()) return refuse(here, "expected an object");
    ELQ_CHECK(check_text((*stages)[i], here, "id", Need::kRequired));
    ELQ_CHECK(check_number((*stages)[i], here, "seconds", 0, 1e12));
    ELQ_CHECK(check_number((*stages)[i], here, "peak_rss_bytes", 0, 1e18));
    ELQ_TRY(cached,
            lookup_typed((*stages)[i], here, "cached", Json::value_t::boolean, Need::kOptional));
    static_cast<void>(cached);
  }
  ELQ_TRY(training, lookup_typed(report, "", "training", Json::value_t::array, Need::kOptional));
  for (std::size_t i = 0; training != nullptr && i < training->size(); ++i) {
    ELQ_CHECK(check_curve((*training)[i], "/training/" + std::to_string(i)));
  }
  ELQ_TRY(warnings, lookup_typed(report, "", "warnings", Json::value_t::array, Need::kOptional));
  for (std::size_t i = 0; warnings != nullptr && i < warnings->size(); ++i) {
    if ((*warnings)[i].is_string()) continue;
    return refuse("/warnings/" + std::to_string(i), "expected a string");
  }
  return ok_status();
}

}  // namespace

Status check_report(const Json& report) {
  if (!report.is_object()) return refuse("", "expected an object");
  ELQ_CHECK(check_text(report, "", "format", Need::kRequired));
  if (report["format"] != "elastiq.report/1") {
    return refuse("/format", "found " + report["format"].dump() + ", allowed \"elastiq.report/1\"");
  }
  ELQ_CHECK(check_text(report, "", "title", Need::kOptional));
  ELQ_CHECK(check_text(report, "", "tool", Need::kOptional));
  ELQ_TRY(machine, lookup_typed(report, "", "machine", Json::value_t::object, Need::kOptional));
  static_cast<void>(machine);
  ELQ_TRY(runs, lookup_typed(report, "", "runs", Json::value_t::array, Need::kRequired));
  if (runs->empty()) return refuse("/runs", "holds no run");
  std::set<std::string> names;
  for (std::size_t i = 0; i < runs->size(); ++i) {
    ELQ_CHECK(check_run((*runs)[i], "/runs/" + std::to_string(i), names));
  }
  ELQ_CHECK(check_comparisons(report, names));
  return check_lists(report);
}

}  // namespace elastiq
