#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "core/error.h"
#include "core/json.h"
#include "recipes/recipe.h"

namespace elastiq {

struct RunOptions {
  std::filesystem::path out;
  std::filesystem::path programs;  ///< Folder with elastiq and elastiq-torch.
  enum class Cache {
    kUse,
    kFresh
  } cache = Cache::kUse;                            ///< kFresh forgets what earlier runs left.
  std::function<void(const std::string&)> narrate;  ///< Takes the plan, a line per stage, warnings.
};

/// Runs a recipe. Each stage is a process of its own (its peak memory is its own, and elastiq needs
/// no LibTorch), called as `PROGRAM stage USE OPTIONS.json`. A stage whose key - name, version,
/// options, digests of its inputs - and whose output are as recorded is not run again.
///
/// Leaves in `out`: report.json, report.md, report.html, a NAME.elq and NAME.manifest.json per
/// variant, kernels/, recipe.lock.json, and stages/ with what every stage wrote.
/// Result  the report. Errors  those of planning and of the stages.
Result<Json> run_recipe(const Recipe& recipe, const RunOptions& options);

}  // namespace elastiq
