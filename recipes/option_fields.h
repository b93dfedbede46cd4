#pragma once

#include <limits>

#include "calibrate/run_calibrate.h"
#include "export/run_export.h"
#include "model/run_evaluate.h"
#include "qat/run_qat.h"
#include "quantize/run_quantize.h"

namespace elastiq {

/// What a field of an options struct may be.
struct FieldInfo {
  const char* help;
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  enum class Need { kOptional, kRequired } need = Need::kOptional;
  enum class Text { kAny, kScheme } text = Text::kAny;  ///< What a string names.
};

inline constexpr double kMaxCount = 1e9;

/// The one list of each stage's fields. Recipe keys, stage files, command-line flags, the resolved
/// recipe and cache keys are all made from it, so none of them can drift. A visitor has
///   field(key, member, info)            paths, lists of paths, texts, numbers, rules, JSON
///   choice(key, member, names, info)    an enum whose values are 0, 1, ... in the order of names
///   data(key, member, info)             a nested DataOptions
/// and sees the members in the order of the file. *_settings are the parts that a recipe sets.
template <class Visitor>
void visit_fields(Visitor& v, DataOptions& o) {
  v.field("files", o.files, {.help = "UTF-8 text or JSONL files, read in this order"});
  v.field("sequence_length", o.sequence_length,
          {.help = "tokens per window", .min = 2, .max = 1 << 20});
  v.field("windows", o.windows, {.help = "windows to use; 0: all", .min = 0, .max = kMaxCount});
  v.field("seed", o.seed, {.help = "order of the windows", .min = 0});
}

template <class Visitor>
void visit_threads(Visitor& v, int& threads) {
  v.field("threads", threads, {.help = "worker threads", .min = 1, .max = 256});
}

template <class Visitor>
void visit_matmul(Visitor& v, MatmulType& type) {
  v.choice("matmul", type, {"f32", "bf16"}, {.help = "arithmetic of the float model's products"});
}

template <class Visitor>
void visit_fields(Visitor& v, CalibrateOptions& o) {
  constexpr auto kRequired = FieldInfo::Need::kRequired;
  v.field("model", o.model, {.help = "Hugging Face folder", .need = kRequired});
  v.field("out", o.out, {.help = "statistics folder to write", .need = kRequired});
  v.data("data", o.data, {.help = "calibration text"});
  visit_matmul(v, o.matmul);
  visit_threads(v, o.threads);
}

template <class Visitor>
void visit_settings(Visitor& v, QuantizeOptions& o) {
  v.choice("method", o.method, {"rtn", "gptq"}, {.help = "how codes are chosen"});
  v.field("scheme", o.scheme,
          {.help = "format of the linear layers, e.g. seq2-g64-u8-k8",
           .text = FieldInfo::Text::kScheme});
  v.field("rules", o.rules, {.help = "formats of chosen tensors; the last match wins"});
  v.field("damping", o.damping,
          {.help = "added to the diagonal, share of its mean", .min = 0, .max = 10});
  v.field("damping_steps", o.damping_steps,
          {.help = "times that damping may grow tenfold", .min = 0, .max = 12});
  v.field("drift_share", o.drift_share,
          {.help = "gptq: share of the earlier layers' error that this one's targets take up",
           .min = 0,
           .max = 1});
  v.choice("fallback", o.fallback, {"rtn", "forbidden"},
           {.help = "for a matrix that no damping makes definite"});
}

template <class Visitor>
void visit_fields(Visitor& v, QuantizeOptions& o) {
  constexpr auto kRequired = FieldInfo::Need::kRequired;
  v.field("model", o.model, {.help = "Hugging Face folder", .need = kRequired});
  v.field("stats", o.stats, {.help = "statistics folder from calibrate; rtn works without"});
  v.field("out", o.out, {.help = "quantized checkpoint folder to write", .need = kRequired});
  visit_settings(v, o);
  v.data("data", o.data, {.help = "text that gptq sends through the quantized prefix"});
  visit_matmul(v, o.matmul);
  visit_threads(v, o.threads);
}

template <class Visitor>
void visit_settings(Visitor& v, QatOptions& o) {
  v.field("batch", o.batch, {.help = "windows per step", .min = 1, .max = 4096});
  v.field("scale_steps", o.scale_steps,
          {.help = "steps with codes frozen", .min = 0, .max = kMaxCount});
  v.field("code_steps", o.code_steps,
          {.help = "steps with latent weights too", .min = 0, .max = kMaxCount});
  v.field("scale_rate", o.scale_rate,
          {.help = "learning rate of scales (log domain)", .min = 0, .max = 1});
  v.field("kept_rate", o.kept_rate, {.help = "learning rate of kept columns", .min = 0, .max = 1});
  v.field("norm_rate", o.norm_rate, {.help = "learning rate of norms", .min = 0, .max = 1});
  v.field("code_rate", o.code_rate,
          {.help = "learning rate of latent weights, in steps of the grid", .min = 0, .max = 1});
  v.field("clip", o.clip, {.help = "largest gradient norm", .min = 1e-6, .max = 1e6});
  v.field("warmup", o.warmup, {.help = "share of each phase", .min = 0, .max = 1});
  v.field("seed", o.seed, {.help = "order of the batches", .min = 0});
  v.field("checkpoint_every", o.checkpoint_every,
          {.help = "steps between saved states", .min = 1, .max = kMaxCount});
}

template <class Visitor>
void visit_fields(Visitor& v, QatOptions& o) {
  constexpr auto kRequired = FieldInfo::Need::kRequired;
  v.field("model", o.model, {.help = "Hugging Face folder of the teacher", .need = kRequired});
  v.field("ptq", o.ptq, {.help = "quantized checkpoint to start from", .need = kRequired});
  v.field("out", o.out, {.help = "quantized checkpoint folder to write", .need = kRequired});
  visit_settings(v, o);
  v.choice("resume", o.resume, {"auto", "fresh"}, {.help = "continue a saved state, or ignore it"});
  v.field("stop_after", o.stop_after,
          {.help = "stop resumable after this many steps; 0: never", .min = 0, .max = kMaxCount});
  v.data("data", o.data, {.help = "training text"});
  visit_matmul(v, o.matmul);
  visit_threads(v, o.threads);
}

template <class Visitor>
void visit_fields(Visitor& v, TrainOptions& o) {
  constexpr auto kRequired = FieldInfo::Need::kRequired;
  v.field("config", o.config,
          {.help = "folder with config.json and tokenizer files", .need = kRequired});
  v.field("out", o.out, {.help = "Hugging Face folder to write", .need = kRequired});
  v.field("batch", o.batch, {.help = "windows per step", .min = 1, .max = 4096});
  v.field("steps", o.steps, {.help = "optimizer steps", .min = 1, .max = kMaxCount});
  v.field("rate", o.rate, {.help = "peak learning rate", .min = 0, .max = 1});
  v.field("warmup", o.warmup, {.help = "share of the steps", .min = 0, .max = 1});
  v.field("clip", o.clip, {.help = "largest gradient norm", .min = 1e-6, .max = 1e6});
  v.field("weight_decay", o.weight_decay, {.help = "AdamW weight decay", .min = 0, .max = 10});
  v.field("seed", o.seed, {.help = "initial weights and order of the batches", .min = 0});
  v.data("data", o.data, {.help = "training text"});
  visit_matmul(v, o.matmul);
  visit_threads(v, o.threads);
}

template <class Visitor>
void visit_settings(Visitor& v, EvaluateOptions& o) {
  v.field("context", o.context,
          {.help = "tokens per context; the second half is scored", .min = 4, .max = 1 << 20});
  v.field("contexts", o.contexts,
          {.help = "contexts to score; 0: all complete ones", .min = 0, .max = kMaxCount});
  v.field("task_limit", o.task_limit,
          {.help = "task records to answer; 0: all", .min = 0, .max = kMaxCount});
}

template <class Visitor>
void visit_fields(Visitor& v, EvaluateOptions& o) {
  constexpr auto kRequired = FieldInfo::Need::kRequired;
  v.field("float", o.float_model,
          {.help = "Hugging Face folder of the float model", .need = kRequired});
  v.field("model", o.model,
          {.help = "package, quantized checkpoint or Hugging Face folder", .need = kRequired});
  v.field("text", o.text, {.help = "held-out text", .need = kRequired});
  visit_settings(v, o);
  v.field("task", o.task, {.help = "JSONL of {\"prompt\", \"answer\"} for task accuracy"});
  v.field("name", o.name, {.help = "name of the run; default: the file name"});
  v.field("kind", o.kind, {.help = "float, ptq or qat; default: from the model"});
  visit_threads(v, o.threads);
}

template <class Visitor>
void visit_settings(Visitor& v, ExportOptions& o) {
  v.choice("weights", o.weights, {"raw", "zstd"},
           {.help = "raw weights can be mapped, zstd is for transport"});
}

template <class Visitor>
void visit_fields(Visitor& v, ExportOptions& o) {
  constexpr auto kRequired = FieldInfo::Need::kRequired;
  v.field("model", o.model,
          {.help = "quantized checkpoint or Hugging Face folder", .need = kRequired});
  v.field("out", o.out, {.help = "folder to write", .need = kRequired});
  v.field("name", o.name, {.help = "name of the package file"});
  visit_settings(v, o);
  v.field("provenance", o.provenance, {.help = "JSON object to store in the package"});
}

}  // namespace elastiq
