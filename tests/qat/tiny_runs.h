#pragma once

// Folders for runs of the training stages: a tiny float model, its PTQ checkpoint and a text.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/thread_pool.h"
#include "formats/quantized_checkpoint.h"
#include "formats/safetensors.h"
#include "model/config.h"
#include "model/decoder.h"
#include "model/tensor_roles.h"
#include "qat/run_qat.h"
#include "quantize/rtn.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace elastiq::testing {

/// Sentences of a few words in an order that repeats only slowly: something can be learned.
inline std::string tiny_text(int sentences) {
  const char* words[] = {"the", "pump",  "runs", "at",   "noon",
                         "and", "stops", "when", "rain", "falls"};
  std::string text;
  std::uint32_t state = 1;
  for (int i = 0; i < sentences; ++i) {
    for (int w = 0; w < 8; ++w) {
      state = state * 1103515245u + 12345u;
      text.append(words[state >> 16 & 7]).append(w == 7 ? ".\n" : " ");
    }
  }
  return text;
}

/// The quantized checkpoint of a folder by round to nearest, blocks only.
inline void write_rtn(const std::filesystem::path& model, const std::filesystem::path& out,
                      const std::string& scheme_name) {
  const auto config = read_model_config(model);
  ASSERT_TRUE(accepted(config));
  const auto stored = Checkpoint::open(model);
  ASSERT_TRUE(accepted(stored));
  const auto roles = assign_roles(stored.value(), config.value());
  ASSERT_TRUE(accepted(roles));
  const auto weights = load_weights(roles.value());
  ASSERT_TRUE(accepted(weights));
  const auto scheme = parse_scheme(scheme_name);
  ASSERT_TRUE(accepted(scheme));
  ThreadPool pool(1);
  QuantizedCheckpoint checkpoint;
  checkpoint.info = {{"made_by", "test"}};
  for (const ModelTensor& tensor : roles.value().tensors) {
    const TensorView& view = *tensor.view;
    if (!tensor.is_matrix() || tensor.layer < 0) {
      checkpoint.plain[view.name] = {
          view.dtype, view.shape, {view.bytes.begin(), view.bytes.end()}};
      continue;
    }
    const torch::Tensor& w = weights.value().at(view.name);
    const MatrixInput input{view.name,
                            {w.data_ptr<float>(), static_cast<std::size_t>(w.numel())},
                            w.size(0),
                            w.size(1),
                            {}};
    auto quantized = quantize_rtn(input, scheme.value(), pool);
    ASSERT_TRUE(accepted(quantized));
    checkpoint.matrices[view.name] = std::move(quantized).value().matrix;
  }
  ASSERT_TRUE(accepted(write_quantized_checkpoint(out, checkpoint, model)));
}

/// One set of inputs per test; options that run in a second.
class TinyRun : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("ELASTIQ_PROGRESS", "none", 1);
    write_hf_model(hf_model(hf_t1(), HfType::kBf16, 3), folder_ / "model");
    folder_.put("text.txt", tiny_text(200));
    write_rtn(folder_ / "model", folder_ / "ptq", "seq2-g32-u8-k4");
  }

  QatOptions options(const std::string& out) const {
    QatOptions o;
    o.model = folder_ / "model";
    o.ptq = folder_ / "ptq";
    o.out = folder_ / out;
    o.data.files = {folder_ / "text.txt"};
    o.data.sequence_length = 32;
    o.data.windows = 24;
    o.batch = 4;
    o.scale_steps = 6;
    o.code_steps = 4;
    o.checkpoint_every = 0;
    o.threads = 1;
    return o;
  }

  QuantizedCheckpoint read(const std::string& name) const {
    auto checkpoint = read_quantized_checkpoint(folder_ / name);
    EXPECT_TRUE(accepted(checkpoint));
    return checkpoint.ok() ? std::move(checkpoint).value() : QuantizedCheckpoint{};
  }

  TempFolder folder_;
};

}  // namespace elastiq::testing
