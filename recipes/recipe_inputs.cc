#include "recipes/recipe_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/file.h"
#include "model/config.h"
#include "recipes/stage_options.h"

namespace elastiq {
namespace {

namespace fs = std::filesystem;

Status check_exists(const fs::path& path, const char* use) {
  ELQ_TRY(exists, path_exists(path));
  if (exists) return ok_status();
  return Error{ErrorCode::kMissing, path.string(),
               std::string("no such file or folder (") + use + ")"};
}

/// Of several files some may be empty.
Status check_texts(const std::vector<fs::path>& files, const char* use) {
  std::size_t bytes = 0;
  for (const fs::path& file : files) {
    ELQ_CHECK(check_exists(file, use));
    auto opened = MappedFile::open(file);
    if (!opened.ok()) {
      Error error = std::move(opened).error();
      error.detail += fmt::format(" ({})", use);
      return error;
    }
    bytes += opened.value().bytes().size();
  }
  if (bytes > 0 || files.empty()) return ok_status();
  return Error{ErrorCode::kTooLittleData, files.front().string(),
               fmt::format("found 0 bytes, expected text ({})", use)};
}

bool trains(const Recipe& recipe) {
  return std::any_of(recipe.variants.begin(), recipe.variants.end(),
                     [](const Variant& variant) { return variant.qat.has_value(); });
}

/// The calibration text stands in for training text that is not given; its problem is told once.
bool has_training_of_its_own(const Recipe& recipe) {
  return recipe.training.files != recipe.calibration.files ||
         recipe.training.sequence_length != recipe.calibration.sequence_length;
}

Status check_lengths(const Recipe& recipe, std::int64_t positions) {
  std::vector<std::string> problems;
  const auto check = [&](const char* pointer, std::int64_t found, int least) {
    if (found <= positions) return;
    problems.push_back(
        fmt::format("{}: found {}, allowed {} to {} (the model's max_position_embeddings)", pointer,
                    found, least, positions));
  };
  if (!recipe.calibration.files.empty()) {
    check("/data/calibration/sequence_length", recipe.calibration.sequence_length, 2);
  }
  if (trains(recipe) && has_training_of_its_own(recipe)) {
    check("/data/training/sequence_length", recipe.training.sequence_length, 2);
  }
  check("/evaluate/context", recipe.evaluate.context, 4);
  return problems_status(problems, ErrorCode::kRecipe, recipe.file.string());
}

}  // namespace

Status check_recipe_inputs(const Recipe& recipe) {
  ELQ_CHECK(check_exists(recipe.model, "model"));
  ELQ_CHECK(check_texts(recipe.calibration.files, "data.calibration"));
  ELQ_CHECK(check_texts(recipe.training.files, "data.training"));
  ELQ_CHECK(check_texts({recipe.heldout}, "data.heldout"));
  if (!recipe.task.empty()) ELQ_CHECK(check_texts({recipe.task}, "data.task"));
  ELQ_TRY(config, read_model_config(recipe.model));
  return check_lengths(recipe, config.max_positions);
}

}  // namespace elastiq
