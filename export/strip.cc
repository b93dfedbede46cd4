#include "export/strip.h"

#include <algorithm>
#include <array>
#include <set>

namespace elastiq {
namespace {

// Order of the tensors in a block, as assign_roles gives them.
constexpr std::array<std::uint32_t, 9> kBlockRoles = {
    ELQ_ROLE_ATTN_NORM, ELQ_ROLE_Q,    ELQ_ROLE_K,  ELQ_ROLE_V,   ELQ_ROLE_O,
    ELQ_ROLE_MLP_NORM,  ELQ_ROLE_GATE, ELQ_ROLE_UP, ELQ_ROLE_DOWN};

bool is_norm(std::uint32_t role) {
  return role >= ELQ_ROLE_FINAL_NORM && role <= ELQ_ROLE_MLP_NORM;
}

struct Shape {
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;
};

Shape expected_shape(std::uint32_t role, const ModelConfig& c) {
  const auto shape = [](std::int64_t rows, std::int64_t cols) {
    return Shape{static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(cols)};
  };
  if ((role & ELQ_ROLE_BIAS) != 0) {
    return Shape{1, expected_shape(role & ~std::uint32_t{ELQ_ROLE_BIAS}, c).rows};
  }
  switch (role) {
    case ELQ_ROLE_EMBED:
    case ELQ_ROLE_HEAD:
      return shape(c.vocab, c.hidden);
    case ELQ_ROLE_Q:
      return shape(c.heads * c.head_dim, c.hidden);
    case ELQ_ROLE_K:
    case ELQ_ROLE_V:
      return shape(c.kv_heads * c.head_dim, c.hidden);
    case ELQ_ROLE_O:
      return shape(c.hidden, c.heads * c.head_dim);
    case ELQ_ROLE_GATE:
    case ELQ_ROLE_UP:
      return shape(c.ffn, c.hidden);
    case ELQ_ROLE_DOWN:
      return shape(c.hidden, c.ffn);
    default:
      return shape(1, c.hidden);
  }
}

// ---------------------------------------------------------------- Hugging Face folders

Result<ExportSource> from_checkpoint(const std::filesystem::path& folder, ModelConfig config) {
  ExportSource source;
  source.config = std::move(config);
  ELQ_TRY(checkpoint, Checkpoint::open(folder));
  ELQ_TRY(roles, assign_roles(checkpoint, source.config));
  for (const ModelTensor& t : roles.tensors) {
    ExportTensor out;
    out.name = t.name;
    out.role = t.role;
    out.layer = t.layer;
    out.rows = t.view->shape.size() == 2 ? t.view->shape[0] : 1;
    out.cols = t.view->shape.back();
    out.dtype = t.view->dtype;
    out.bytes = t.view->bytes;
    source.tensors.push_back(std::move(out));
  }
  source.stripped = std::move(roles.stripped);
  source.warnings = std::move(roles.warnings);
  source.tied = roles.tied;
  source.owner = std::move(checkpoint);
  return source;
}

// ---------------------------------------------------------------- quantized checkpoint folders

class QuantizedCollector {
 public:
  QuantizedCollector(const QuantizedCheckpoint& checkpoint, ExportSource& source,
                     std::string subject)
      : checkpoint_(checkpoint), source_(source), subject_(std::move(subject)) {}

  Status run() {
    const ModelConfig& c = source_.config;
    ELQ_CHECK(add(ELQ_ROLE_EMBED, -1));
    for (std::int64_t layer = 0; layer < c.layers; ++layer) {
      for (const std::uint32_t role : kBlockRoles) {
        ELQ_CHECK(add(role, layer));
        const bool attention = role >= ELQ_ROLE_Q && role <= ELQ_ROLE_O && c.attention_bias;
        const bool mlp = role >= ELQ_ROLE_GATE && c.mlp_bias;
        if (attention || mlp) ELQ_CHECK(add(role | ELQ_ROLE_BIAS, layer));
      }
    }
    ELQ_CHECK(add(ELQ_ROLE_FINAL_NORM, -1));
    ELQ_CHECK(add_head());
    ELQ_CHECK(account_for_the_rest());
    take_over_stripped();
    return ok_status();
  }

 private:
  Error refuse(ErrorCode code, const std::string& name, std::string detail) const {
    return Error{code, subject_ + ": " + name, std::move(detail), 0};
  }

  /// The canonical name or the one without "model.", whichever is there; empty when neither is.
  std::string find_name(std::uint32_t role, std::int64_t layer) const {
    constexpr std::string_view kPrefix = "model.";
    const std::string name = tensor_name(role, layer);
    const std::string bare = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
    for (const std::string& candidate : {name, bare}) {
      if (checkpoint_.matrices.contains(candidate) || checkpoint_.plain.contains(candidate)) {
        return candidate;
      }
    }
    return "";
  }

  Status add(std::uint32_t role, std::int64_t layer) {
    ExportTensor out;
    out.name = find_name(role, layer);
    out.role = role;
    out.layer = layer;
    if (out.name.empty()) {
      return refuse(ErrorCode::kMissing, tensor_name(role, layer), "not in the checkpoint");
    }
    const auto matrix = checkpoint_.matrices.find(out.name);
    if (matrix != checkpoint_.matrices.end()) {
      out.matrix = &matrix->second;
      out.rows = static_cast<std::uint64_t>(out.matrix->rows);
      out.cols = static_cast<std::uint64_t>(out.matrix->cols);
    } else {
      ELQ_CHECK(take_plain(checkpoint_.plain.at(out.name), out));
    }
    const Shape expected = expected_shape(role, source_.config);
    if (out.rows != expected.rows || out.cols != expected.cols ||
        (out.matrix != nullptr && out.is_vector())) {
      return refuse(ErrorCode::kInconsistent, out.name,
                    "shape is " + std::to_string(out.rows) + " x " + std::to_string(out.cols) +
                        ", the config makes it " + std::to_string(expected.rows) + " x " +
                        std::to_string(expected.cols));
    }
    used_.insert(out.name);
    source_.tensors.push_back(std::move(out));
    return ok_status();
  }

  Status take_plain(const QuantizedCheckpoint::Plain& plain, ExportTensor& out) const {
    const std::size_t rank = out.is_vector() ? 1 : 2;
    if (plain.shape.size() != rank) {
      return refuse(ErrorCode::kInconsistent, out.name,
                    "has " + std::to_string(plain.shape.size()) + " dimensions, must have " +
                        std::to_string(rank));
    }
    if (!is_weight_dtype(plain.dtype)) {
      return refuse(
          ErrorCode::kUnsupportedType, out.name,
          "type is " + std::string(dtype_name(plain.dtype)) + ", a weight is F32, F16 or BF16");
    }
    out.rows = rank == 2 ? plain.shape[0] : 1;
    out.cols = plain.shape.back();
    out.dtype = plain.dtype;
    out.bytes = plain.bytes;
    return ok_status();
  }

  Status add_head() {
    if (!find_name(ELQ_ROLE_HEAD, -1).empty()) return add(ELQ_ROLE_HEAD, -1);
    // A head of the same bytes as the embedding was dropped by the stage before, whatever the flag.
    const Json& info = checkpoint_.info;
    const bool dropped = info.is_object() && info.value("tied", Json()) == Json(true);
    source_.tied = dropped || source_.config.tied == ModelConfig::Tied::kYes;
    if (source_.tied) return ok_status();
    return refuse(ErrorCode::kMissing, tensor_name(ELQ_ROLE_HEAD, -1),
                  "not in the checkpoint, and tie_word_embeddings in config.json is not true");
  }

  Status account_for_the_rest() {
    for (const auto& [name, matrix] : checkpoint_.matrices) {
      if (!used_.contains(name)) {
        return refuse(ErrorCode::kUnsupportedType, name, "a quantized matrix without a role");
      }
    }
    for (const auto& [name, plain] : checkpoint_.plain) {
      if (used_.contains(name)) continue;
      std::string reason;
      if (name.ends_with("rotary_emb.inv_freq")) reason = "rotary inverse frequencies";
      if (reason.empty() && plain.bytes.empty()) reason = "empty tensor";
      if (reason.empty()) {
        return refuse(ErrorCode::kUnsupportedType, name,
                      "no tensor of a Llama decoder has this name; nothing is dropped in silence");
      }
      source_.stripped.push_back(StrippedTensor{name, reason, plain.bytes.size()});
    }
    return ok_status();
  }

  /// What the stage before has stripped; a list that is not one is left to PROV.
  void take_over_stripped() {
    const Json& info = checkpoint_.info;
    if (!info.is_object() || !info.contains("stripped")) return;
    for (const Json& entry : info.at("stripped")) {
      if (!entry.is_object() || !entry.contains("name") || !entry.at("name").is_string()) continue;
      StrippedTensor stripped;
      stripped.name = entry.at("name").get<std::string>();
      const Json reason = entry.value("reason", Json());
      if (reason.is_string()) stripped.reason = reason.get<std::string>();
      const Json bytes = entry.value("bytes", Json());
      if (bytes.is_number_unsigned()) stripped.bytes = bytes.get<std::uint64_t>();
      source_.stripped.push_back(std::move(stripped));
    }
  }

  const QuantizedCheckpoint& checkpoint_;
  ExportSource& source_;
  std::string subject_;
  std::set<std::string> used_;
};

Result<ExportSource> from_quantized(const std::filesystem::path& folder, ModelConfig config) {
  ExportSource source;
  source.config = std::move(config);
  ELQ_TRY(checkpoint, read_quantized_checkpoint(folder));
  // Tensors point into the checkpoint, and the variant's content stays put when the source moves:
  // maps and vectors keep their elements.
  source.owner = std::move(checkpoint);
  const auto& owned = std::get<QuantizedCheckpoint>(source.owner);
  source.info = owned.info;
  ELQ_CHECK(QuantizedCollector(owned, source, folder.string()).run());
  return source;
}

}  // namespace

bool ExportTensor::is_vector() const {
  return (role & ELQ_ROLE_BIAS) != 0 || is_norm(role);
}

Result<ExportSource> read_export_source(const std::filesystem::path& folder) {
  ELQ_TRY(config, read_model_config(folder));
  if (is_quantized_checkpoint(folder)) return from_quantized(folder, std::move(config));
  return from_checkpoint(folder, std::move(config));
}

}  // namespace elastiq
