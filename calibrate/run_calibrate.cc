#include "calibrate/run_calibrate.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <utility>

#include "calibrate/observer.h"
#include "core/file.h"
#include "core/peak_memory.h"
#include "core/progress.h"
#include "formats/stats_file.h"
#include "model/decoder.h"
#include "model/model_digest.h"

namespace elastiq {
namespace {

namespace fs = std::filesystem;

// Tokens of one forward pass: enough for the matrix products, few enough for the logits.
constexpr std::int64_t kBatchTokens = 2048;

struct Model {
  ModelConfig config;
  Weights weights;
  std::string digest;
  std::vector<std::string> warnings;
};

Result<Model> load_model(const fs::path& folder) {
  Model model;
  ELQ_TRY(config, read_model_config(folder));
  ELQ_TRY(checkpoint, Checkpoint::open(folder));
  ELQ_TRY(tensors, assign_roles(checkpoint, config));
  ELQ_TRY(weights, load_weights(tensors));
  ELQ_CHECK(check_weights(config, weights, folder.string()));
  ELQ_TRY(digest, model_digest(folder));
  model.config = std::move(config);
  model.weights = std::move(weights);
  model.digest = std::move(digest);
  model.warnings = std::move(tensors.warnings);
  return model;
}

// Every matrix shares one of these inputs with its neighbours.
std::vector<std::string> input_keys(const ModelConfig& config) {
  std::vector<std::string> keys;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    for (const std::uint32_t role : {ELQ_ROLE_Q, ELQ_ROLE_O, ELQ_ROLE_GATE, ELQ_ROLE_DOWN}) {
      keys.push_back(input_key(role, layer));
    }
  }
  keys.push_back(input_key(ELQ_ROLE_HEAD, -1));
  return keys;
}

Result<std::vector<std::uint64_t>> count_tokens(const Windows& windows, const ModelConfig& config,
                                                const std::string& subject) {
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(config.vocab));
  for (const std::vector<std::uint32_t>& window : windows.tokens) {
    for (const std::uint32_t id : window) {
      if (id >= counts.size()) {
        return Error{ErrorCode::kInconsistent, subject,
                     fmt::format("token id {} from the tokenizer, the embedding has {} rows", id,
                                 config.vocab),
                     0};
      }
      ++counts[id];
    }
  }
  return counts;
}

torch::Tensor ids_of(std::span<const std::vector<std::uint32_t>> windows) {
  std::vector<std::int64_t> flat;
  for (const std::vector<std::uint32_t>& window : windows) {
    flat.insert(flat.end(), window.begin(), window.end());
  }
  return torch::tensor(flat).view({static_cast<std::int64_t>(windows.size()), -1});
}

// Sum of -log p(next) over one window; states are the normalised ones of all its tokens.
double window_loss(const Decoder& decoder, const Weights& weights, const torch::Tensor& states,
                   const torch::Tensor& ids) {
  const std::int64_t predicted = ids.size(0) - 1;
  const torch::Tensor logits = decoder.head(weights, states.slice(0, 0, predicted));
  const torch::Tensor best = torch::log_softmax(logits, -1);
  const torch::Tensor picked = best.gather(1, ids.slice(0, 1).unsqueeze(1)).contiguous();
  double sum = 0;
  const float* data = picked.data_ptr<float>();
  for (std::int64_t i = 0; i < predicted; ++i) sum -= static_cast<double>(data[i]);
  return sum;
}

struct Pass {
  Observer observer;
  double loss_sum = 0;
  std::uint64_t predicted = 0;
};

void run_batch(const Decoder& decoder, const Weights& weights,
               std::span<const std::vector<std::uint32_t>> windows, Pass& pass) {
  const Tap tap = [&](const std::string& key, const torch::Tensor& x) {
    pass.observer.observe(key, x);
  };
  const torch::Tensor ids = ids_of(windows);
  torch::Tensor x = decoder.embed(weights, ids);
  for (std::int64_t layer = 0; layer < decoder.config().layers; ++layer) {
    x = decoder.block(weights, layer, x, tap);
  }
  x = decoder.final_norm(weights, x, tap);
  for (std::int64_t w = 0; w < ids.size(0); ++w) {
    pass.loss_sum += window_loss(decoder, weights, x[w], ids[w]);
    pass.predicted += static_cast<std::uint64_t>(ids.size(1) - 1);
  }
}

Result<Pass> run_windows(const Decoder& decoder, const Weights& weights, const Windows& windows) {
  const torch::NoGradGuard no_gradient;
  const std::span<const std::vector<std::uint32_t>> all = windows.tokens;
  const auto length = static_cast<std::int64_t>(all.front().size());
  const auto batch = static_cast<std::size_t>(std::max<std::int64_t>(kBatchTokens / length, 1));
  Progress progress("calibrate", all.size(), Progress::default_mode());
  Pass pass;
  for (std::size_t first = 0; first < all.size(); first += batch) {
    const std::size_t n = std::min(batch, all.size() - first);
    run_batch(decoder, weights, all.subspan(first, n), pass);
    const double loss = pass.loss_sum / static_cast<double>(pass.predicted);
    if (!std::isfinite(loss)) {
      return Error{ErrorCode::kNonFinite, "float model",
                   fmt::format("the loss is {} within the first {} windows", loss, first + n), 0};
    }
    progress.step(first + n, fmt::format("loss {:.4f}", loss));
  }
  return pass;
}

Status check_options(const CalibrateOptions& options, const ModelConfig& config) {
  if (options.threads < 1) {
    return Error{ErrorCode::kInvalidArgument, "threads",
                 fmt::format("found {}, at least 1", options.threads), 0};
  }
  return check_sequence_length(options.data, config.max_positions);
}

// What reaches the statistics: nothing that depends on the machine or the moment.
Json info_json(const CalibrateOptions& options, const Model& model, const Windows& windows,
               const std::vector<std::uint64_t>& counts) {
  const auto distinct =
      counts.size() - static_cast<std::size_t>(std::count(counts.begin(), counts.end(), 0u));
  Json info = Json::object();
  info["stage"] = "calibrate";
  info["tool_version"] = ELASTIQ_VERSION;
  info["model_digest"] = model.digest;
  info["sequence_length"] = options.data.sequence_length;
  info["seed"] = options.data.seed;
  info["windows"] = windows.tokens.size();
  info["tokens"] = windows.tokens.size() * windows.tokens.front().size();
  info["stream_tokens"] = windows.total_tokens;
  info["dropped_tokens"] = windows.dropped_tokens;
  info["distinct_ids"] = distinct;
  info["vocab"] = counts.size();
  info["coverage"] = static_cast<double>(distinct) / static_cast<double>(counts.size());
  return info;
}

}  // namespace

Result<Json> run_calibrate(const CalibrateOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  ELQ_TRY(model, load_model(options.model));
  ELQ_CHECK(check_options(options, model.config));
  ELQ_TRY(tokenizer, Tokenizer::open(options.model));
  ELQ_TRY(data, read_text_data(options.data.files));
  ELQ_TRY(windows, load_windows(options.data, tokenizer));
  CalibrationStats stats;
  ELQ_TRY(counts, count_tokens(windows, model.config, options.model.string()));
  stats.info = info_json(options, model, windows, counts);
  stats.info["data_digest"] = data.digest;
  stats.token_counts = std::move(counts);

  at::set_num_threads(options.threads);
  ELQ_TRY(pass, run_windows(Decoder(model.config, options.matmul), model.weights, windows));
  model.weights.clear();  // Their memory is needed for the moments' float copies.
  const double loss = pass.loss_sum / static_cast<double>(pass.predicted);
  stats.info["matmul"] = matmul_type_name(options.matmul);
  stats.info["loss"] = loss;
  stats.info["perplexity"] = std::exp(loss);
  const auto tokens = stats.info["tokens"].get<std::uint64_t>();
  ELQ_TRY(inputs, pass.observer.finish(input_keys(model.config), tokens));
  stats.inputs = std::move(inputs);
  Json stage = stats.info;
  stage["inputs"] = stats.inputs.size();
  stage["warnings"] = model.warnings;
  for (const std::string& warning : windows.warnings) stage["warnings"].push_back(warning);
  stage["threads"] = options.threads;
  stage["seconds"] =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  stage["peak_rss_bytes"] = peak_rss_bytes();
  ELQ_CHECK(write_stats(options.out, stats, stage));
  return stage;
}

}  // namespace elastiq
