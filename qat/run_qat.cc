#include "qat/run_qat.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <array>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "core/peak_memory.h"
#include "core/progress.h"
#include "formats/quantized_checkpoint.h"
#include "formats/safetensors.h"
#include "model/config.h"
#include "model/data_options.h"
#include "model/decoder.h"
#include "model/model_digest.h"
#include "model/tensor_roles.h"
#include "model/tokenizer.h"
#include "qat/batches.h"
#include "qat/digests.h"
#include "qat/distill.h"
#include "qat/interrupt.h"
#include "qat/student.h"
#include "qat/train_state.h"
#include "qat/trainer.h"

namespace elastiq {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kScales = "scales";
constexpr const char* kCodes = "codes";

Status check_options(const QatOptions& o) {
  const auto refuse = [](const char* name, const std::string& detail) {
    return Error{ErrorCode::kInvalidArgument, name, detail};
  };
  if (o.scale_steps < 0 || o.code_steps < 0) {
    return refuse("steps", fmt::format("scale_steps {} and code_steps {}, at least 0",
                                       o.scale_steps, o.code_steps));
  }
  if (o.batch < 1) return refuse("batch", fmt::format("is {}, at least 1", o.batch));
  if (o.threads < 1) return refuse("threads", fmt::format("is {}, at least 1", o.threads));
  for (const double rate : {o.scale_rate, o.kept_rate, o.norm_rate, o.code_rate}) {
    if (!(rate >= 0) || !std::isfinite(rate)) {
      return refuse("rate",
                    fmt::format("a learning rate is {}, must be finite and at least 0", rate));
    }
  }
  if (!(o.clip > 0)) return refuse("clip", fmt::format("is {}, must be positive", o.clip));
  if (!(o.warmup >= 0 && o.warmup < 1)) {
    return refuse("warmup", fmt::format("is {}, allowed 0 to below 1", o.warmup));
  }
  return ok_status();
}

/// Everything that decides the bytes of the result. Thread count and matmul type are in it because
/// LibTorch's matrix products depend on them in the last bits.
Result<Json> fingerprint_of(const QatOptions& o) {
  ELQ_TRY(model, digest_model_folder(o.model));
  ELQ_TRY(ptq, digest_model_folder(o.ptq));
  ELQ_TRY(data, digest_files(o.data.files));
  return Json{{"tool", ELASTIQ_VERSION},
              {"options",
               {{"batch", o.batch},
                {"scale_steps", o.scale_steps},
                {"code_steps", o.code_steps},
                {"scale_rate", o.scale_rate},
                {"kept_rate", o.kept_rate},
                {"norm_rate", o.norm_rate},
                {"code_rate", o.code_rate},
                {"clip", o.clip},
                {"warmup", o.warmup},
                {"seed", o.seed},
                {"sequence_length", o.data.sequence_length},
                {"windows", o.data.windows},
                {"data_seed", o.data.seed},
                {"threads", o.threads},
                {"matmul", matmul_type_name(o.matmul)}}},
              {"model", std::move(model)},
              {"ptq", std::move(ptq)},
              {"data", std::move(data)}};
}

/// What a run reads, and is not changed by it.
struct Inputs {
  Decoder decoder;
  Weights teacher;
  Windows windows;
  QuantizedCheckpoint start;
  std::vector<std::string> warnings;
};

/// Adds what is odd about the checkpoint to the warnings.
Result<Weights> load_teacher(const fs::path& folder, const ModelConfig& config,
                             std::vector<std::string>& warnings) {
  ELQ_TRY(checkpoint, Checkpoint::open(folder));
  ELQ_TRY(tensors, assign_roles(checkpoint, config));
  warnings.insert(warnings.end(), tensors.warnings.begin(), tensors.warnings.end());
  ELQ_TRY(weights, load_weights(tensors));
  ELQ_CHECK(check_weights(config, weights, folder.string()));
  return weights;
}

/// The teacher is the model that was quantized.
Status check_origin(const QuantizedCheckpoint& start, const QatOptions& options) {
  const std::string subject = options.ptq.string();
  ELQ_TRY(origin, json_string_or(start.info, "model_digest", "", subject + ": /info"));
  ELQ_TRY(own, model_digest(options.model));
  if (origin.empty() || origin == own) return ok_status();
  return Error{ErrorCode::kFingerprint, subject,
               fmt::format("was made from another model (digest {}...); {} has {}...",
                           origin.substr(0, 12), options.model.string(), own.substr(0, 12))};
}

/// Figures of the plan that describe the codes before training move under "before_training".
void set_old_figures_apart(Json& info) {
  constexpr std::array kFigures = {"relative_error", "relative_weighted_error",
                                   "largest_error",  "zero_groups",
                                   "relative_loss",  "relative_rtn_loss"};
  if (!info.contains("plan") || !info["plan"].is_array()) return;
  for (Json& line : info["plan"]) {
    if (!line.is_object()) continue;
    Json old = Json::object();
    for (const char* key : kFigures) {
      if (!line.contains(key)) continue;
      old[key] = line[key];
      line.erase(key);
    }
    if (!old.empty()) line["before_training"] = std::move(old);
  }
}

Result<Inputs> load_inputs(const QatOptions& options) {
  ELQ_TRY(config, read_model_config(options.model));
  ELQ_CHECK(check_sequence_length(options.data, config.max_positions));
  ELQ_TRY(tokenizer, Tokenizer::open(options.model));
  ELQ_TRY(windows, load_windows(options.data, tokenizer));
  ELQ_CHECK(check_token_range(windows, config.vocab));
  std::vector<std::string> warnings = windows.warnings;
  ELQ_TRY(teacher, load_teacher(options.model, config, warnings));
  ELQ_TRY(start, read_quantized_checkpoint(options.ptq));
  ELQ_CHECK(check_origin(start, options));
  return Inputs{Decoder(config, options.matmul), std::move(teacher), std::move(windows),
                std::move(start), std::move(warnings)};
}

/// One run: student, optimizer and what has been done.
class QatRun {
 public:
  QatRun(const QatOptions& options, const Inputs& inputs, Student student, Json fingerprint)
      : options_(options), inputs_(inputs), student_(std::move(student)) {
    state_.fingerprint = std::move(fingerprint);
  }

  /// Goes on where a state of the same fingerprint stopped.
  Status resume();
  /// All steps that are left.
  Status train();
  /// The checkpoint folder; returns stage.json's content.
  Result<Json> write();

 private:
  fs::path state_folder() const { return options_.out.string() + ".state"; }

  std::int64_t total_steps() const { return options_.scale_steps + options_.code_steps; }

  double seconds() const {
    return seconds_before_ + std::chrono::duration<double>(Clock::now() - start_).count();
  }

  Json summary() const;
  Status begin_phase(const std::string& phase);
  Status one_step();
  Status save();
  /// An error kInterrupted when the run has to stop after this step.
  Status stop_if_asked(const InterruptGuard& interrupt);
  std::map<std::string, torch::Tensor> state_tensors() const;

  const QatOptions& options_;
  const Inputs& inputs_;
  Student student_;
  AdamW adam_;
  TrainState state_;
  double seconds_before_ = 0;
  Clock::time_point start_ = Clock::now();
};

Status QatRun::begin_phase(const std::string& phase) {
  if (phase == kCodes) {
    const float margin = latent_margin(options_.code_rate, options_.code_steps);
    ELQ_CHECK(student_.add_latents(inputs_.teacher, margin));
  }
  // Fresh moments: the second phase starts a schedule of its own with its own warm-up.
  adam_ = AdamW();
  student_.add_parameters(adam_, options_);
  state_.phase = phase;
  return ok_status();
}

std::map<std::string, torch::Tensor> QatRun::state_tensors() const {
  std::map<std::string, torch::Tensor> tensors = student_.codes();
  for (const TrainedParameter& p : adam_.parameters()) {
    tensors[p.name] = p.value;
    tensors[p.name + ".first"] = p.first;
    tensors[p.name + ".second"] = p.second;
  }
  return tensors;
}

Status QatRun::resume() {
  ELQ_TRY(found, load_state(state_folder()));
  if (!found) return ok_status();
  const std::string difference = describe_difference(found->fingerprint, state_.fingerprint);
  if (!difference.empty()) {
    return Error{ErrorCode::kFingerprint, state_folder().string(),
                 difference + "; start afresh to ignore this state"};
  }
  if (found->step > 0) ELQ_CHECK(begin_phase(found->phase));
  ELQ_CHECK(load_state_tensors(state_folder(), state_tensors()));
  state_ = std::move(*found);
  adam_.set_updates(state_.updates);
  seconds_before_ = state_.seconds;
  return ok_status();
}

Status QatRun::save() {
  state_.updates = adam_.updates();
  state_.seconds = seconds();
  state_.tensors = state_tensors();
  const Status saved = save_state(state_folder(), state_);
  state_.tensors.clear();
  return saved;
}

Status QatRun::one_step() {
  const bool codes = state_.step >= options_.scale_steps;
  const std::string phase = codes ? kCodes : kScales;
  if (state_.phase != phase) ELQ_CHECK(begin_phase(phase));
  const std::int64_t in_phase = codes ? state_.step - options_.scale_steps : state_.step;
  const Schedule schedule{codes ? options_.code_steps : options_.scale_steps, options_.warmup,
                          0.05};
  const auto chosen =
      step_windows(options_.seed, state_.step, options_.batch, inputs_.windows.tokens.size());
  ELQ_TRY(loss, distill(inputs_.decoder, inputs_.teacher, student_,
                        window_tensor(inputs_.windows, chosen), state_.step + 1));
  const double factor = schedule_factor(schedule, in_phase);
  ELQ_TRY(norm, adam_.step(factor, options_.clip, state_.step + 1));
  ++state_.step;
  Json point{{"step", state_.step},
             {"phase", phase},
             {"loss", loss},
             {"rate_factor", factor},
             {"gradient_norm", norm}};
  if (codes) point["flip_rate"] = student_.flip_rate();
  state_.curve.push_back(std::move(point));
  return ok_status();
}

Status QatRun::stop_if_asked(const InterruptGuard& interrupt) {
  const bool limit = options_.stop_after > 0 && state_.step >= options_.stop_after;
  if (state_.step == total_steps() || !(limit || interrupt.requested())) return ok_status();
  ELQ_CHECK(save());
  return Error{
      ErrorCode::kInterrupted, state_folder().string(),
      fmt::format("stopped after step {} of {}; run again to go on", state_.step, total_steps())};
}

Status QatRun::train() {
  const InterruptGuard interrupt;
  Progress progress("qat", static_cast<std::uint64_t>(total_steps()), Progress::default_mode());
  while (state_.step < total_steps()) {
    ELQ_CHECK(one_step());
    progress.step(static_cast<std::uint64_t>(state_.step),
                  fmt::format("KL {:.4f}", state_.curve.back().at("loss").get<double>()));
    ELQ_CHECK(stop_if_asked(interrupt));
    const bool due = options_.checkpoint_every > 0 && state_.step % options_.checkpoint_every == 0;
    if (due && state_.step < total_steps()) ELQ_CHECK(save());
  }
  return ok_status();
}

Json QatRun::summary() const {
  return {{"fingerprint", state_.fingerprint},
          {"steps", state_.step},
          {"tokens", state_.step * options_.batch * options_.data.sequence_length},
          {"drift", student_.drift(inputs_.start)},
          {"curve", state_.curve}};
}

Result<Json> QatRun::write() {
  QuantizedCheckpoint result = inputs_.start;
  student_.write_to(result);
  if (!result.info.is_object()) result.info = Json::object();
  set_old_figures_apart(result.info);
  std::uint64_t plain_bytes = 0;  // Norms are float32 now.
  for (const auto& [name, tensor] : result.plain) plain_bytes += tensor.bytes.size();
  result.info["plain_bytes"] = plain_bytes;
  // No seconds and no memory here: the same inputs give the same bytes.
  result.info["qat"] = summary();
  Json stage{{"stage", "qat"}};
  stage.update(summary());
  stage["warnings"] = inputs_.warnings;
  stage["seconds"] = seconds();
  stage["peak_rss_bytes"] = peak_rss_bytes();
  ELQ_CHECK(write_quantized_checkpoint(options_.out, result, options_.model, stage));
  std::error_code ignored;
  fs::remove_all(state_folder(), ignored);
  return stage;
}

}  // namespace

Result<Json> run_qat(const QatOptions& options) {
  ELQ_CHECK(check_options(options));
  at::set_num_threads(options.threads);
  ELQ_TRY(fingerprint, fingerprint_of(options));
  ELQ_TRY(inputs, load_inputs(options));
  ELQ_TRY(student, Student::make(inputs.start, inputs.decoder.config()));
  QatRun run(options, inputs, std::move(student), std::move(fingerprint));
  if (options.resume == QatOptions::Resume::kAuto) ELQ_CHECK(run.resume());
  ELQ_CHECK(run.train());
  return run.write();
}

}  // namespace elastiq
