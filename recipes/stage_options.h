#pragma once

#include <string>

#include "core/error.h"
#include "core/json.h"
#include "recipes/option_json.h"

namespace elastiq {

/// An options struct as the JSON that `elastiq-torch stage NAME FILE` reads, and back. T is one of
/// CalibrateOptions, QuantizeOptions, QatOptions, TrainOptions, EvaluateOptions, ExportOptions.
template <class T>
Json options_json(T options) {
  OptionWriter writer(OptionWriter::What::kAll);
  visit_fields(writer, options);
  return writer.take();
}

/// The part that decides the bytes of the result: no paths, no thread count.
template <class T>
Json options_content(T options) {
  OptionWriter writer(OptionWriter::What::kContent);
  visit_fields(writer, options);
  return writer.take();
}

/// One error with all problems, or none. `code` is kRecipe for recipes, kUsage for stage files.
Status problems_status(const std::vector<std::string>& problems, ErrorCode code,
                       const std::string& subject);

/// Errors  kUsage with every wrong, missing and unknown key.
template <class T>
Result<T> options_from_json(const Json& json, const std::string& subject) {
  std::vector<std::string> problems;
  T options;
  OptionReader reader(json, "", problems);
  visit_fields(reader, options);
  reader.finish();
  ELQ_CHECK(problems_status(problems, ErrorCode::kUsage, subject));
  return options;
}

}  // namespace elastiq
