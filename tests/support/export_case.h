#pragma once

// A tiny model, quantized, exported and opened again.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "export/run_export.h"
#include "formats/package.h"
#include "model/package_model.h"
#include "tests/support/hf_quantize.h"
#include "tests/support/hf_reference.h"
#include "tests/support/tiny_model.h"

namespace elastiq::testing {

struct ExportCase {
  HfModel model;
  QuantizedCheckpoint quantized;
  std::filesystem::path root;  ///< hf/, ptq/, out/

  /// A model folder and its quantized checkpoint; nothing exported yet.
  ExportCase(const std::string& name, const HfShape& shape, const HfSchemeOf& scheme_of)
      : model(hf_model(shape, HfType::kBf16, 7)),
        quantized(hf_quantized(model, scheme_of)),
        root(hf_test_folder(name)) {
    write_hf_model(model, root / "hf");
    const Status written = write_quantized_checkpoint(root / "ptq", quantized, root / "hf");
    EXPECT_TRUE(written.ok()) << to_string(written.error());
  }

  ExportOptions options() const {
    ExportOptions o;
    o.model = root / "ptq";
    o.out = root / "out";
    return o;
  }

  std::filesystem::path package() const { return root / "out" / "model.elq"; }
};

inline std::vector<std::uint32_t> hf_prompt(std::int64_t vocab, std::size_t n) {
  Rng rng(11);
  std::vector<std::uint32_t> tokens(n);
  for (auto& token : tokens) {
    token = static_cast<std::uint32_t>(rng.below(static_cast<std::uint64_t>(vocab)));
  }
  return tokens;
}

/// Logits of the C runtime after every token, one row each.
inline std::vector<std::vector<float>> runtime_logits(const std::filesystem::path& package,
                                                      const std::vector<std::uint32_t>& tokens) {
  std::vector<std::vector<float>> rows;
  auto runtime = PackageModel::open(package, {});
  EXPECT_TRUE(runtime.ok()) << to_string(runtime.error());
  if (!runtime.ok()) return rows;
  const std::size_t vocab = runtime.value().config().vocab;
  std::vector<float> logits(tokens.size() * vocab);
  const auto n = static_cast<std::uint32_t>(tokens.size());
  const Status status = runtime.value().eval(tokens, n, logits);
  EXPECT_TRUE(status.ok()) << to_string(status.error());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    rows.emplace_back(logits.begin() + static_cast<std::ptrdiff_t>(i * vocab),
                      logits.begin() + static_cast<std::ptrdiff_t>((i + 1) * vocab));
  }
  return rows;
}

/// Largest difference of two sets of logits, in units of the reference's standard deviation.
template <class Rows>
double logit_error(const Rows& found, const std::vector<std::vector<double>>& expected) {
  if (found.size() != expected.size()) return HUGE_VAL;
  double worst = 0;
  double square = 0;
  double n = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (found[i].size() != expected[i].size()) return HUGE_VAL;
    for (std::size_t j = 0; j < expected[i].size(); ++j) {
      worst = std::max(worst, std::fabs(static_cast<double>(found[i][j]) - expected[i][j]));
      square += expected[i][j] * expected[i][j];
      n += 1;
    }
  }
  return worst / std::sqrt(square / n);
}

inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace elastiq::testing
