#include <fmt/format.h>
#include <torch/torch.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/float_bits.h"
#include "core/folder.h"
#include "core/peak_memory.h"
#include "core/progress.h"
#include "core/rng.h"
#include "formats/safetensors.h"
#include "model/config.h"
#include "model/data_options.h"
#include "model/decoder.h"
#include "model/tensor_roles.h"
#include "model/tokenizer.h"
#include "qat/batches.h"
#include "qat/interrupt.h"
#include "qat/run_qat.h"
#include "qat/trainer.h"

namespace elastiq {

namespace {

namespace fs = std::filesystem;

constexpr double kInitialDeviation = 0.02;  // GPT-2, Llama.

Status check_options(const TrainOptions& o) {
  const auto refuse = [](const char* name, const std::string& detail) {
    return Error{ErrorCode::kInvalidArgument, name, detail};
  };
  if (o.steps < 1) return refuse("steps", fmt::format("is {}, at least 1", o.steps));
  if (o.batch < 1) return refuse("batch", fmt::format("is {}, at least 1", o.batch));
  if (o.threads < 1) return refuse("threads", fmt::format("is {}, at least 1", o.threads));
  if (!(o.rate > 0)) return refuse("rate", fmt::format("is {}, must be positive", o.rate));
  if (!(o.clip > 0)) return refuse("clip", fmt::format("is {}, must be positive", o.clip));
  return ok_status();
}

torch::Tensor normal_matrix(Rng& rng, std::int64_t rows, std::int64_t cols, double deviation) {
  torch::Tensor matrix = torch::empty({rows, cols});
  float* values = matrix.data_ptr<float>();
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    values[i] = static_cast<float>(rng.normal() * deviation);
  }
  return matrix;
}

void add_layer(Weights& weights, const ModelConfig& c, std::int64_t layer, Rng& rng) {
  const std::int64_t q = c.heads * c.head_dim;
  const std::int64_t kv = c.kv_heads * c.head_dim;
  // Each block adds twice to the residual stream: GPT-2's scaling keeps its variance.
  const double residual = kInitialDeviation / std::sqrt(2.0 * static_cast<double>(c.layers));
  const auto put = [&](std::uint32_t role, std::int64_t rows, std::int64_t cols, double deviation) {
    weights[tensor_name(role, layer)] = normal_matrix(rng, rows, cols, deviation);
  };
  put(ELQ_ROLE_Q, q, c.hidden, kInitialDeviation);
  put(ELQ_ROLE_K, kv, c.hidden, kInitialDeviation);
  put(ELQ_ROLE_V, kv, c.hidden, kInitialDeviation);
  put(ELQ_ROLE_O, c.hidden, q, residual);
  put(ELQ_ROLE_GATE, c.ffn, c.hidden, kInitialDeviation);
  put(ELQ_ROLE_UP, c.ffn, c.hidden, kInitialDeviation);
  put(ELQ_ROLE_DOWN, c.hidden, c.ffn, residual);
  weights[tensor_name(ELQ_ROLE_ATTN_NORM, layer)] = torch::ones({c.hidden});
  weights[tensor_name(ELQ_ROLE_MLP_NORM, layer)] = torch::ones({c.hidden});
}

Result<Weights> initial_weights(const ModelConfig& config, std::uint64_t seed) {
  if (config.tied == ModelConfig::Tied::kUnstated) {
    return Error{ErrorCode::kInvalidArgument, "config.json",
                 "tie_word_embeddings is absent; training needs true or false"};
  }
  if (config.attention_bias || config.mlp_bias) {
    return Error{ErrorCode::kUnsupportedType, "config.json",
                 "attention_bias and mlp_bias must be false for training from scratch"};
  }
  Rng rng(seed);
  Weights weights;
  weights[tensor_name(ELQ_ROLE_EMBED, -1)] =
      normal_matrix(rng, config.vocab, config.hidden, kInitialDeviation);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    add_layer(weights, config, layer, rng);
  }
  weights[tensor_name(ELQ_ROLE_FINAL_NORM, -1)] = torch::ones({config.hidden});
  if (config.tied == ModelConfig::Tied::kNo) {
    weights[tensor_name(ELQ_ROLE_HEAD, -1)] =
        normal_matrix(rng, config.vocab, config.hidden, kInitialDeviation);
  }
  return weights;
}

AdamW make_optimizer(Weights& weights, const TrainOptions& options) {
  AdamW adam;
  for (auto& [name, tensor] : weights) {
    tensor.set_requires_grad(true);
    const bool decays = tensor.dim() == 2 && name != tensor_name(ELQ_ROLE_EMBED, -1);
    adam.add({.name = name,
              .value = tensor,
              .rate = options.rate,
              .decay = decays ? options.weight_decay : 0.0});
  }
  return adam;
}

/// Mean next-token loss of the windows; gradients are accumulated in the weights.
double accumulate_loss(const Decoder& decoder, const Weights& weights,
                       const torch::Tensor& windows) {
  double total = 0;
  for (const torch::Tensor& part : micro_batches(windows)) {
    const torch::Tensor logits = decoder.forward(weights, part, Tap{});
    const std::int64_t length = part.size(1);
    const torch::Tensor loss = torch::nn::functional::cross_entropy(
        logits.narrow(1, 0, length - 1).flatten(0, 1), part.narrow(1, 1, length - 1).flatten());
    const double share = static_cast<double>(part.size(0)) / static_cast<double>(windows.size(0));
    (loss * share).backward();
    total += static_cast<double>(loss.item<float>()) * share;
  }
  return total;
}

/// Every file whole or not at all, the weights last: a folder without them is no model.
Status write_model(const Weights& weights, const TrainOptions& options) {
  std::error_code failed;
  fs::create_directories(options.out, failed);
  for (const char* name :
       {"config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
        "tokenizer.model", "special_tokens_map.json", "generation_config.json"}) {
    if (!fs::exists(options.config / name, failed)) continue;
    if (fs::equivalent(options.config, options.out, failed)) continue;
    ELQ_CHECK(copy_file_atomically(options.config / name, options.out / name));
  }
  std::map<std::string, std::vector<std::byte>> bytes;
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, tensor] : weights) {
    const auto n = static_cast<std::size_t>(tensor.numel());
    std::vector<std::byte>& out = bytes[name];
    out.resize(2 * n);
    ELQ_CHECK(narrow_from_f32(DType::kBf16, {tensor.data_ptr<float>(), n}, out));
    std::vector<std::uint64_t> shape;
    for (const std::int64_t d : tensor.sizes()) shape.push_back(static_cast<std::uint64_t>(d));
    tensors.push_back({name, DType::kBf16, std::move(shape), out});
  }
  return write_safetensors(options.out / "model.safetensors", std::move(tensors),
                           {{"format", "pt"}});
}

struct TrainRun {
  Json curve = Json::array();
  double loss = 0;
};

Result<TrainRun> train(const TrainOptions& options, const Decoder& decoder, Weights& weights,
                       const Windows& windows) {
  const InterruptGuard interrupt;
  AdamW adam = make_optimizer(weights, options);
  const Schedule schedule{options.steps, options.warmup, 0.1};
  Progress progress("train", static_cast<std::uint64_t>(options.steps), Progress::default_mode());
  const std::int64_t every = std::max<std::int64_t>(1, options.steps / 100);
  TrainRun run;
  for (std::int64_t step = 0; step < options.steps; ++step) {
    const auto chosen = step_windows(options.seed, step, options.batch, windows.tokens.size());
    run.loss = accumulate_loss(decoder, weights, window_tensor(windows, chosen));
    if (!std::isfinite(run.loss)) {
      return Error{ErrorCode::kNonFinite, "loss",
                   fmt::format("is {} at step {}; lower the learning rate", run.loss, step)};
    }
    const double factor = schedule_factor(schedule, step);
    ELQ_TRY(norm, adam.step(factor, options.clip, step));
    if (step % every == 0 || step + 1 == options.steps) {
      run.curve.push_back({{"step", step + 1},
                           {"loss", run.loss},
                           {"rate", factor * options.rate},
                           {"gradient_norm", norm}});
    }
    progress.step(static_cast<std::uint64_t>(step) + 1, fmt::format("loss {:.4f}", run.loss));
    if (interrupt.requested()) {
      return Error{
          ErrorCode::kInterrupted, "train",
          fmt::format("stopped after step {} of {}; nothing written", step + 1, options.steps)};
    }
  }
  return run;
}

}  // namespace

Result<Json> run_train(const TrainOptions& options) {
  ELQ_CHECK(check_options(options));
  const auto start = std::chrono::steady_clock::now();
  at::set_num_threads(options.threads);
  ELQ_TRY(config, read_model_config(options.config));
  ELQ_CHECK(check_sequence_length(options.data, config.max_positions));
  ELQ_TRY(tokenizer, Tokenizer::open(options.config));
  ELQ_TRY(windows, load_windows(options.data, tokenizer));
  ELQ_CHECK(check_token_range(windows, config.vocab));
  ELQ_TRY(weights, initial_weights(config, options.seed));
  const Decoder decoder(config, options.matmul);
  ELQ_TRY(run, train(options, decoder, weights, windows));
  ELQ_CHECK(write_model(weights, options));
  std::int64_t parameters = 0;
  for (const auto& [name, tensor] : weights) parameters += tensor.numel();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return Json{{"stage", "train"},
              {"parameters", parameters},
              {"steps", options.steps},
              {"tokens", options.steps * options.batch * options.data.sequence_length},
              {"windows", windows.tokens.size()},
              {"loss", run.loss},
              {"curve", std::move(run.curve)},
              {"warnings", windows.warnings},
              {"seconds", seconds},
              {"peak_rss_bytes", peak_rss_bytes()}};
}

}  // namespace elastiq
