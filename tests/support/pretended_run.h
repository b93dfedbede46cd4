#pragma once

// A run with programs that only pretend: a model, texts, a recipe, and scripts instead of elastiq
// and elastiq-torch.

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "recipes/run_recipe.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace elastiq::testing {

// Writes what a stage of this name leaves. $LOG gets a line per call; a file fail-USE beside the
// programs makes that stage fail.
inline constexpr const char* kPretendedProgram = R"sh(#!/bin/bash
here=$(dirname "$0"); use=$2; file=$3
field() { sed -n "s/^  \"$1\": \"\(.*\)\",\{0,1\}$/\1/p" "$file"; }
name=$(field name); out=$(field out)
echo "$(basename "$0") $use" >> "$here/log"
if [ -e "$here/fail-$use" ]; then
  echo '{"error": {"code": 21, "subject": "train.txt", "detail": "have 3, need 4", "byte_offset": 0}}'
  exit 4
fi
if [ -e "$here/crash-$use" ]; then kill -9 $$; fi
case $use in
  calibrate|quantize|qat) mkdir -p "$out"; echo "{\"made by\": \"$use\"}" > "$out/data.json"
    echo '{"curve": [{"step": 1, "loss": 2.5}, {"step": 2, "loss": 1.5}]}' ;;
  export) mkdir -p "$out/kernels"; cp "$file" "$out/$name.elq"; echo '{}' > "$out/manifest.json"
    echo 'int x;' > "$out/kernels/a.c"; echo '{}' ;;
  bench) echo '{"isa": "ref", "prefill_tps": 10, "decode_tps": 5, "peak_rss_bytes": 1,
      "warnings": ["--prompt 256 was cut"]}' ;;
  evaluate) kind=$(field kind)
    echo "{\"name\": \"$name\", \"kind\": \"$kind\", \"bits_per_weight\": {\"file\": 2, \"ram\": 3},
      \"bytes\": {\"package\": 5, \"by_role\": {\"embed\": 5}}, \"metrics\": {\"kl_mean\": 0.5},
      \"kl_per_context\": [0.4, 0.5, 0.6]}" ;;
esac
)sh";

inline constexpr const char* kPretendedRecipe = R"({"version": 1, "name": "demo", "model": "model",
  "data": {"calibration": {"files": "c.txt", "sequence_length": 64},
           "training": {"files": "t.txt", "sequence_length": 64}, "heldout": "h.txt"},
  "evaluate": {"context": 64},
  "variants": [{"name": "a", "quantize": {"method": "gptq", "scheme": "seq2-g32-u8"}},
               {"name": "b", "from": "a", "qat": {"scale_steps": 3}}]})";

class PretendedRun : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(work_ / "model");
    write_hf_model(hf_model(hf_t1(), HfType::kBf16, 1), work_ / "model");
    for (const char* name : {"c.txt", "t.txt", "h.txt"}) work_.put(name, name);
    std::filesystem::create_directories(work_ / "bin");
    for (const char* name : {"bin/elastiq", "bin/elastiq-torch"}) {
      std::filesystem::permissions(work_.put(name, kPretendedProgram),
                                   std::filesystem::perms::owner_all);
    }
    recipe_ = work_.put("demo.json", kPretendedRecipe);
  }

  Result<Json> run(std::vector<std::string> sets, RunOptions::Cache cache) {
    work_.put("bin/log", "");
    said_.clear();
    ELQ_TRY(recipe, load_recipe({recipe_, std::move(sets)}));
    RunOptions options;
    options.out = work_ / "out";
    options.programs = work_ / "bin";
    options.cache = cache;
    options.narrate = [this](const std::string& line) { said_.push_back(line); };
    return run_recipe(recipe, options);
  }

  std::vector<std::string> calls() const {
    std::istringstream log(slurp(work_ / "bin/log"));
    std::vector<std::string> lines;
    for (std::string line; std::getline(log, line);) lines.push_back(line);
    return lines;
  }

  TempFolder work_;
  std::filesystem::path recipe_;
  std::vector<std::string> said_;
};

inline constexpr auto kUse = RunOptions::Cache::kUse;

}  // namespace elastiq::testing
