#include "model/tensor_roles.h"

#include <array>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "model/value_scan.h"

namespace elastiq {
namespace {

struct RoleRow {
  std::uint32_t role;
  const char* module;  ///< Without "model.layers.N." and ".weight".
  const char* kind;    ///< role_name
  const char* input;   ///< Suffix of input_key, "" for norms.
};

// Order of the tensors in a block.
constexpr std::array<RoleRow, 9> kBlockRoles = {{
    {ELQ_ROLE_ATTN_NORM, "input_layernorm", "norm", ""},
    {ELQ_ROLE_Q, "self_attn.q_proj", "attn.q", "attn_in"},
    {ELQ_ROLE_K, "self_attn.k_proj", "attn.k", "attn_in"},
    {ELQ_ROLE_V, "self_attn.v_proj", "attn.v", "attn_in"},
    {ELQ_ROLE_O, "self_attn.o_proj", "attn.o", "attn_out"},
    {ELQ_ROLE_MLP_NORM, "post_attention_layernorm", "norm", ""},
    {ELQ_ROLE_GATE, "mlp.gate_proj", "mlp.gate", "mlp_in"},
    {ELQ_ROLE_UP, "mlp.up_proj", "mlp.up", "mlp_in"},
    {ELQ_ROLE_DOWN, "mlp.down_proj", "mlp.down", "mlp_out"},
}};

constexpr std::array<RoleRow, 3> kOuterRoles = {{
    {ELQ_ROLE_EMBED, "model.embed_tokens", "embed", "head_in"},
    {ELQ_ROLE_FINAL_NORM, "model.norm", "norm", ""},
    {ELQ_ROLE_HEAD, "lm_head", "head", "head_in"},
}};

constexpr std::uint32_t base_role(std::uint32_t role) {
  return role & ~std::uint32_t{ELQ_ROLE_BIAS};
}

const RoleRow* find_row(std::uint32_t role) {
  for (const RoleRow& row : kBlockRoles) {
    if (row.role == role) return &row;
  }
  for (const RoleRow& row : kOuterRoles) {
    if (row.role == role) return &row;
  }
  return nullptr;
}

// ---------------------------------------------------------------- refusals with a reason of their
// own

struct Refusal {
  const char* part;  ///< Occurs in the name.
  const char* reason;
};

constexpr std::array<Refusal, 19> kRefusals = {{
    {"qkv_proj", "fused query, key and value projection; split it into q_proj, k_proj and v_proj"},
    {"gate_up_proj", "fused gate and up projection; split it into gate_proj and up_proj"},
    {"query_key_value", "fused query, key and value projection of another architecture"},
    {"lora_", "adapter tensor; merge the adapter into the model first"},
    {"adapter", "adapter tensor; merge the adapter into the model first"},
    {"base_model.", "adapter tensor; merge the adapter into the model first"},
    {".qweight", "packed weight of an already quantized checkpoint; give the original"},
    {".qzeros", "packed zero points of an already quantized checkpoint; give the original"},
    {".g_idx", "group index of an already quantized checkpoint; give the original"},
    {".weight_packed", "packed weight of an already quantized checkpoint; give the original"},
    {".weight_scale", "scale of an already quantized checkpoint; give the original"},
    {".weight_zero_point", "zero points of an already quantized checkpoint; give the original"},
    {".weight_shape", "packed weight of an already quantized checkpoint; give the original"},
    {".input_scale", "scale of an already quantized checkpoint; give the original"},
    {".scales", "scale of an already quantized checkpoint; give the original"},
    {"_scale", "scale of an already quantized checkpoint; give the original"},
    {".absmax", "scale of an already quantized checkpoint; give the original"},
    {".SCB", "scale of an already quantized checkpoint; give the original"},
    {".codes", "codes of a quantized checkpoint folder; give the original model"},
}};

Error unknown_tensor(const TensorView& view) {
  const std::string subject = view.file + ": " + view.name;
  for (const Refusal& refusal : kRefusals) {
    if (view.name.find(refusal.part) == std::string::npos) continue;
    return Error{ErrorCode::kUnsupportedType, subject, refusal.reason, 0};
  }
  return Error{ErrorCode::kUnsupportedType, subject,
               "no tensor of a Llama decoder has this name; nothing is dropped in silence", 0};
}

std::optional<std::string> reason_to_strip(const TensorView& view) {
  if (view.name.ends_with("rotary_emb.inv_freq")) return "rotary inverse frequencies";
  if (view.elements() == 0) return "empty tensor";
  const bool scale = view.name.find("scale") != std::string::npos;
  if (view.shape.empty() && !scale) return "single value without a role";
  return std::nullopt;
}

// ---------------------------------------------------------------- names

struct Place {
  std::uint32_t role = 0;
  std::int64_t layer = -1;
};

std::optional<std::uint32_t> match_module(std::string_view name, std::string_view module,
                                          std::uint32_t role) {
  if (!name.starts_with(module)) return std::nullopt;
  name.remove_prefix(module.size());
  if (name == ".weight") return role;
  if (name == ".bias") return role | ELQ_ROLE_BIAS;
  return std::nullopt;
}

// Names with and without the "model." prefix are the same (a bare LlamaModel is saved without).
std::optional<Place> place_of(std::string_view name) {
  constexpr std::string_view kPrefix = "model.";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  for (const RoleRow& row : kOuterRoles) {
    std::string_view module = row.module;
    if (module.starts_with(kPrefix)) module.remove_prefix(kPrefix.size());
    if (const auto role = match_module(name, module, row.role)) return Place{*role, -1};
  }
  constexpr std::string_view kLayers = "layers.";
  if (!name.starts_with(kLayers)) return std::nullopt;
  name.remove_prefix(kLayers.size());
  Place place;
  const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), place.layer);
  const auto digits = static_cast<std::size_t>(end - name.data());
  const bool canonical = code == std::errc() && (digits == 1 || name[0] != '0') && name[0] != '-';
  if (!canonical || digits >= name.size() || name[digits] != '.') return std::nullopt;
  name.remove_prefix(digits + 1);
  for (const RoleRow& row : kBlockRoles) {
    const auto role = match_module(name, row.module, row.role);
    if (!role) continue;
    place.role = *role;
    return place;
  }
  return std::nullopt;
}

// ---------------------------------------------------------------- shapes

std::vector<std::uint64_t> expected_shape(std::uint32_t role, const ModelConfig& c) {
  const auto u = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  const std::uint64_t hidden = u(c.hidden);
  std::vector<std::uint64_t> shape;
  switch (base_role(role)) {
    case ELQ_ROLE_EMBED:
    case ELQ_ROLE_HEAD:
      shape = {u(c.vocab), hidden};
      break;
    case ELQ_ROLE_Q:
      shape = {u(c.heads * c.head_dim), hidden};
      break;
    case ELQ_ROLE_K:
    case ELQ_ROLE_V:
      shape = {u(c.kv_heads * c.head_dim), hidden};
      break;
    case ELQ_ROLE_O:
      shape = {hidden, u(c.heads * c.head_dim)};
      break;
    case ELQ_ROLE_GATE:
    case ELQ_ROLE_UP:
      shape = {u(c.ffn), hidden};
      break;
    case ELQ_ROLE_DOWN:
      shape = {hidden, u(c.ffn)};
      break;
    default:
      shape = {hidden};
      break;
  }
  if ((role & ELQ_ROLE_BIAS) != 0) shape.resize(1);
  return shape;
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

/// Result  the number of subnormal values.
Result<std::uint64_t> check_tensor(const TensorView& view, const Place& place,
                                   const ModelConfig& config) {
  const std::string subject = view.file + ": " + view.name;
  const auto expected = expected_shape(place.role, config);
  if (view.shape != expected) {
    return Error{
        ErrorCode::kInconsistent, subject,
        "shape is " + shape_text(view.shape) + ", the config makes it " + shape_text(expected), 0};
  }
  if (!is_weight_dtype(view.dtype)) {
    return Error{
        ErrorCode::kUnsupportedType, subject,
        "type is " + std::string(dtype_name(view.dtype)) + ", a weight is F32, F16 or BF16", 0};
  }
  const ValueScan found = scan_values(view.dtype, view.bytes);
  if (found.non_finite == 0) return found.subnormal;
  const std::uint64_t first = found.first_non_finite;
  std::vector<std::uint64_t> position = {first};
  if (view.shape.size() == 2) position = {first / view.shape[1], first % view.shape[1]};
  return Error{ErrorCode::kNonFinite, subject,
               "NaN or infinity first at " + shape_text(position) + ", " +
                   std::to_string(found.non_finite) + " of " + std::to_string(view.elements()) +
                   " values",
               first * dtype_bytes(view.dtype)};
}

/// Subnormal values of a model: kept, but arithmetic elsewhere may flush them to zero.
struct Subnormals {
  std::uint64_t values = 0;
  std::uint64_t tensors = 0;
  std::string first;  ///< Name of a tensor.

  void add(const std::string& name, std::uint64_t count) {
    if (count == 0) return;
    if (tensors++ == 0) first = name;
    values += count;
  }
};

// ---------------------------------------------------------------- collection

using Placed = std::map<std::pair<std::int64_t, std::uint32_t>, const TensorView*>;

bool bias_expected(std::uint32_t base, const ModelConfig& config) {
  if (base >= ELQ_ROLE_Q && base <= ELQ_ROLE_O) return config.attention_bias;
  return base >= ELQ_ROLE_GATE && config.mlp_bias;
}

Status check_place(const TensorView& view, const Place& place, const ModelConfig& config) {
  const std::string subject = view.file + ": " + view.name;
  if (place.layer >= config.layers) {
    return Error{ErrorCode::kInconsistent, subject,
                 "the config has " + std::to_string(config.layers) + " layers, 0 to " +
                     std::to_string(config.layers - 1),
                 0};
  }
  const std::uint32_t base = base_role(place.role);
  if (base == place.role || bias_expected(base, config)) return ok_status();
  const char* flag = base >= ELQ_ROLE_GATE ? "mlp_bias" : "attention_bias";
  const bool may_have = base >= ELQ_ROLE_Q && base <= ELQ_ROLE_DOWN;
  return Error{ErrorCode::kInconsistent, subject,
               may_have ? std::string("a bias, but the config does not set ") + flag
                        : std::string("a Llama decoder has no bias here"),
               0};
}

Result<Placed> place_all(const Checkpoint& checkpoint, const ModelConfig& config,
                         ModelTensors& out) {
  Placed placed;
  Subnormals subnormals;
  for (const TensorView& view : checkpoint.tensors()) {
    const auto place = place_of(view.name);
    if (!place) {
      const auto reason = reason_to_strip(view);
      if (!reason) return unknown_tensor(view);
      out.stripped.push_back(StrippedTensor{view.name, *reason, view.bytes.size()});
      continue;
    }
    ELQ_CHECK(check_place(view, *place, config));
    ELQ_TRY(subnormal, check_tensor(view, *place, config));
    subnormals.add(view.name, subnormal);
    const auto [at, added] = placed.emplace(std::pair{place->layer, place->role}, &view);
    if (!added) {
      return Error{ErrorCode::kDuplicate, view.file + ": " + view.name,
                   "the same tensor as " + at->second->name, 0};
    }
  }
  out.warnings = checkpoint.warnings();
  if (subnormals.tensors == 0) return placed;
  out.warnings.push_back(std::to_string(subnormals.values) + " subnormal values in " +
                         std::to_string(subnormals.tensors) + " tensors, first in " +
                         subnormals.first + "; kept as they are");
  return placed;
}

struct Collector {
  const Placed& placed;
  ModelTensors out;

  Status add(std::uint32_t role, std::int64_t layer) {
    const auto found = placed.find({layer, role});
    if (found == placed.end()) {
      return Error{ErrorCode::kMissing, tensor_name(role, layer), "not in the checkpoint", 0};
    }
    out.tensors.push_back(ModelTensor{found->second->name, role, layer, found->second});
    return ok_status();
  }
};

bool same_bytes(const TensorView& a, const TensorView& b) {
  return a.dtype == b.dtype && a.bytes.size() == b.bytes.size() &&
         std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0;
}

// Bytes decide, the flag must not contradict them.
Status settle_head(const Placed& placed, const ModelConfig& config, Collector& collector) {
  const TensorView& embed = *placed.at({-1, ELQ_ROLE_EMBED});
  const auto found = placed.find({-1, ELQ_ROLE_HEAD});
  if (found == placed.end()) {
    collector.out.tied = config.tied == ModelConfig::Tied::kYes;
    if (collector.out.tied) return ok_status();
    const char* state = config.tied == ModelConfig::Tied::kNo ? "false" : "not stated";
    return Error{ErrorCode::kMissing, "lm_head.weight",
                 std::string("not in the checkpoint, and tie_word_embeddings in config.json is ") +
                     state + "; set it to true if the head shares the embedding",
                 0};
  }
  const TensorView& head = *found->second;
  if (same_bytes(embed, head)) {
    collector.out.tied = true;
    collector.out.stripped.push_back(
        StrippedTensor{head.name, "the same bytes as " + embed.name, head.bytes.size()});
    return ok_status();
  }
  if (config.tied == ModelConfig::Tied::kYes) {
    return Error{ErrorCode::kInconsistent, head.file + ": " + head.name,
                 "differs from " + embed.name +
                     ", but tie_word_embeddings in config.json is true; remove the tensor or set "
                     "the flag to false",
                 0};
  }
  return collector.add(ELQ_ROLE_HEAD, -1);
}

}  // namespace

bool ModelTensor::is_matrix() const {
  return role == ELQ_ROLE_EMBED || role == ELQ_ROLE_HEAD ||
         (role >= ELQ_ROLE_Q && role <= ELQ_ROLE_DOWN);
}

const char* role_name(std::uint32_t role) {
  if ((role & ELQ_ROLE_BIAS) != 0) return "bias";
  const RoleRow* row = find_row(role);
  return row == nullptr ? "unknown" : row->kind;
}

std::string input_key(std::uint32_t role, std::int64_t layer) {
  const RoleRow* row = find_row(base_role(role));
  if (row == nullptr || row->input[0] == '\0') return "";
  if (layer < 0) return row->input;
  return "layers." + std::to_string(layer) + "." + row->input;
}

std::string tensor_name(std::uint32_t role, std::int64_t layer) {
  const RoleRow* row = find_row(base_role(role));
  if (row == nullptr) return "";
  const char* suffix = (role & ELQ_ROLE_BIAS) != 0 ? ".bias" : ".weight";
  if (layer < 0) return std::string(row->module) + suffix;
  return "model.layers." + std::to_string(layer) + "." + row->module + suffix;
}

Result<ModelTensors> assign_roles(const Checkpoint& checkpoint, const ModelConfig& config) {
  ModelTensors out;
  ELQ_TRY(placed, place_all(checkpoint, config, out));
  Collector collector{placed, std::move(out)};
  ELQ_CHECK(collector.add(ELQ_ROLE_EMBED, -1));
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    for (const RoleRow& row : kBlockRoles) {
      ELQ_CHECK(collector.add(row.role, layer));
      if (!bias_expected(row.role, config)) continue;
      ELQ_CHECK(collector.add(row.role | ELQ_ROLE_BIAS, layer));
    }
  }
  ELQ_CHECK(collector.add(ELQ_ROLE_FINAL_NORM, -1));
  ELQ_CHECK(settle_head(placed, config, collector));
  return std::move(collector.out);
}

}  // namespace elastiq
