#include "export/pack_model.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>

#include "core/digest.h"
#include "core/float_bits.h"
#include "kernels/elq_kernels.h"

namespace elastiq {
namespace {

Error refuse(ErrorCode code, const std::string& name, std::string detail) {
  return Error{code, "tensor " + name, std::move(detail), 0};
}

std::uint64_t align_line(std::uint64_t bytes) {
  return (bytes + ELQ_TENSOR_ALIGN - 1) / ELQ_TENSOR_ALIGN * ELQ_TENSOR_ALIGN;
}

// ---------------------------------------------------------------- one tensor

Result<PackedTensor> pack_matrix(const ExportTensor& source, PackedTensor out) {
  const QuantizedMatrix& q = *source.matrix;
  elq_matrix m;
  const int known = elq_matrix_init(
      &m, static_cast<std::uint32_t>(source.rows), static_cast<std::uint32_t>(source.cols),
      static_cast<std::uint32_t>(q.scheme.bits), static_cast<std::uint32_t>(q.scheme.scale),
      static_cast<std::uint32_t>(scheme_z2(q.scheme)), static_cast<std::uint32_t>(q.scheme.group),
      static_cast<std::uint32_t>(q.kept_index.size()));
  if (known != 0) {
    return refuse(ErrorCode::kLimitExceeded, source.name,
                  scheme_name(q.scheme) + " cannot be packed for this shape");
  }
  elq_tensor_record& r = out.record;
  r.layout = ELQ_LAYOUT_PACKED;
  r.bits = m.bits;
  r.scale_mode = m.scale_mode;
  r.z2 = m.z2;
  r.group = static_cast<std::uint16_t>(q.scheme.group);
  r.padded_rows = m.padded_rows;
  r.padded_cols = m.padded_cols;
  r.n_kept = m.n_kept;
  r.kept_offset = elq_matrix_kept_offset(&m);
  r.bytes = elq_matrix_bytes(&m);
  if (q.scheme.scale == ScaleMode::kU8) {
    // A matrix of zero scales only still declares the smallest legal maximum.
    r.smax = std::max<std::uint32_t>(1, *std::max_element(q.u8_scales.begin(), q.u8_scales.end()));
  }
  const auto pointer = [](const auto& values) { return values.empty() ? nullptr : values.data(); };
  const elq_pack_source codes = {
      pointer(q.codes),      pointer(q.row_scales),  pointer(q.u8_scales),  pointer(q.f16_scales),
      pointer(q.kept_index), pointer(q.kept_scales), pointer(q.kept_values)};
  out.owned.resize(r.bytes);
  elq_pack(&m, &codes, reinterpret_cast<std::uint8_t*>(out.owned.data()));
  out.bytes = out.owned;
  return out;
}

Result<PackedTensor> pack_float(const ExportTensor& source, PackedTensor out) {
  elq_tensor_record& r = out.record;
  out.bytes = source.bytes;
  DType type = source.dtype;
  if (source.is_vector() && type != DType::kF32) {
    std::vector<float> values(source.elements());
    ELQ_CHECK(widen_to_f32(type, source.bytes, values));
    const auto raw = std::as_bytes(std::span(values));
    out.owned.assign(raw.begin(), raw.end());
    out.bytes = out.owned;
    type = DType::kF32;
  }
  r.layout = type == DType::kF32   ? ELQ_LAYOUT_F32
             : type == DType::kF16 ? ELQ_LAYOUT_F16
                                   : ELQ_LAYOUT_BF16;
  r.padded_rows = r.rows;
  r.padded_cols = r.cols;
  r.bytes = out.bytes.size();
  return out;
}

Result<PackedTensor> pack_tensor(const ExportTensor& source) {
  if (source.name.empty() || source.name.size() > ELQ_MAX_STRING_BYTES) {
    return refuse(ErrorCode::kLimitExceeded, source.name,
                  "a name has 1 to ELQ_MAX_STRING_BYTES = 255 bytes");
  }
  if (source.rows > ELQ_MAX_DIM || source.cols > ELQ_MAX_DIM) {
    return refuse(ErrorCode::kLimitExceeded, source.name, "a dimension passes ELQ_MAX_DIM");
  }
  PackedTensor out;
  out.source = &source;
  out.name = source.name;
  out.record.role = source.role;
  out.record.layer = source.layer < 0 ? 0 : static_cast<std::uint32_t>(source.layer);
  out.record.rows = static_cast<std::uint32_t>(source.rows);
  out.record.cols = static_cast<std::uint32_t>(source.cols);
  return source.matrix != nullptr ? pack_matrix(source, std::move(out))
                                  : pack_float(source, std::move(out));
}

// ---------------------------------------------------------------- aliases

constexpr std::size_t kFormatBegin = offsetof(elq_tensor_record, layout);
constexpr std::size_t kFormatEnd = offsetof(elq_tensor_record, alias_of);

/// Equal for tensors that one stored copy can serve: the format fields (section and offset are not
/// set yet) and the SHA-256 of the bytes.
std::string content_key(const PackedTensor& t) {
  const auto* fields = reinterpret_cast<const char*>(&t.record);
  std::string key(fields + kFormatBegin, kFormatEnd - kFormatBegin);
  const Sha256 digest = sha256(t.bytes);
  key.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  return key;
}

void find_aliases(std::vector<PackedTensor>& tensors, ThreadPool& pool) {
  std::vector<std::string> keys(tensors.size());
  pool.run(tensors.size(), [&](std::size_t i) { keys[i] = content_key(tensors[i]); });
  std::map<std::string, std::string> first;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto [at, added] = first.emplace(keys[i], tensors[i].name);
    if (added) continue;
    tensors[i].alias_of = at->second;
    tensors[i].owned = {};
    tensors[i].bytes = {};
  }
}

/// The head of a tied model: a record of its own that shares the embedding's bytes.
void add_tied_head(std::vector<PackedTensor>& tensors) {
  PackedTensor head;
  head.source = tensors.front().source;
  head.record = tensors.front().record;
  head.record.role = ELQ_ROLE_HEAD;
  head.name = tensor_name(ELQ_ROLE_HEAD, -1);
  head.alias_of = tensors.front().name;
  tensors.push_back(std::move(head));
}

// ---------------------------------------------------------------- sections

/// Cuts weights at layer boundaries where it can.
class SectionCutter {
 public:
  explicit SectionCutter(std::vector<PackedTensor>& tensors) : tensors_(tensors) {}

  std::vector<PackedSection> run() {
    std::size_t begin = 0;
    while (begin < tensors_.size()) {
      std::size_t end = begin;
      while (end < tensors_.size() && same_block(begin, end)) ++end;
      add_block(begin, end);
      begin = end;
    }
    return std::move(sections_);
  }

 private:
  bool same_block(std::size_t a, std::size_t b) const {
    return tensors_[a].source->layer == tensors_[b].source->layer;
  }

  void add_block(std::size_t begin, std::size_t end) {
    std::uint64_t bytes = 0;
    for (std::size_t i = begin; i < end; ++i) {
      if (tensors_[i].alias_of.empty()) bytes = align_line(bytes) + tensors_[i].record.bytes;
    }
    if (!fits(bytes)) closed_ = true;
    for (std::size_t i = begin; i < end; ++i) {
      if (!tensors_[i].alias_of.empty()) continue;
      if (!fits(tensors_[i].record.bytes)) closed_ = true;
      place(i);
    }
    // A block that filled more than one section ends its last one.
    if (bytes > ELQ_MAX_WEIGHT_SECTION_BYTES) closed_ = true;
  }

  bool fits(std::uint64_t bytes) const {
    return sections_.empty() ||
           align_line(sections_.back().bytes) + bytes <= ELQ_MAX_WEIGHT_SECTION_BYTES;
  }

  void place(std::size_t i) {
    if (sections_.empty() || (closed_ && sections_.back().bytes > 0)) sections_.emplace_back();
    closed_ = false;
    PackedSection& section = sections_.back();
    elq_tensor_record& r = tensors_[i].record;
    r.section = static_cast<std::uint32_t>(3 + sections_.size() - 1);
    r.offset = align_line(section.bytes);
    section.bytes = r.offset + r.bytes;
    section.tensors.push_back(i);
  }

  std::vector<PackedTensor>& tensors_;
  std::vector<PackedSection> sections_;
  bool closed_ = false;
};

/// TENS and STRT, sorted by name; aliases get the place of what they share.
Status write_tables(PackedModel& model) {
  std::map<std::string, std::size_t> by_name;
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    if (by_name.emplace(model.tensors[i].name, i).second) continue;
    return refuse(ErrorCode::kDuplicate, model.tensors[i].name, "two tensors of one name");
  }
  if (by_name.size() > ELQ_MAX_TENSORS) {
    return refuse(ErrorCode::kLimitExceeded, by_name.begin()->first,
                  std::to_string(by_name.size()) + " tensors, at most ELQ_MAX_TENSORS");
  }
  for (auto& [name, i] : by_name) {
    PackedTensor& t = model.tensors[i];
    elq_tensor_record& r = t.record;
    if (!t.alias_of.empty()) {
      const auto target = by_name.find(t.alias_of);
      r.alias_of = 1 + static_cast<std::uint32_t>(std::distance(by_name.begin(), target));
      r.section = model.tensors[target->second].record.section;
      r.offset = model.tensors[target->second].record.offset;
    }
    r.name_offset = static_cast<std::uint32_t>(model.names.size());
    r.name_bytes = static_cast<std::uint32_t>(name.size());
    const auto text = std::as_bytes(std::span(name.data(), name.size()));
    const auto record = std::as_bytes(std::span(&r, 1));
    model.names.insert(model.names.end(), text.begin(), text.end());
    model.records.insert(model.records.end(), record.begin(), record.end());
  }
  return ok_status();
}

// ---------------------------------------------------------------- META

Result<std::uint64_t> token_id(std::int64_t id, std::int64_t vocab, const char* key) {
  if (id < 0) return std::uint64_t{UINT64_MAX};
  if (id < vocab) return static_cast<std::uint64_t>(id);
  return Error{
      ErrorCode::kInconsistent, key,
      "token id " + std::to_string(id) + " is not below the vocabulary of " + std::to_string(vocab),
      0};
}

Result<std::vector<std::byte>> make_meta(const ModelConfig& c, const TokenFacts& tokens,
                                         const std::string& model_name) {
  ELQ_TRY(bos, token_id(tokens.bos, c.vocab, "tokenizer.bos"));
  ELQ_TRY(eos, token_id(tokens.eos, c.vocab, "tokenizer.eos"));
  const auto u64 = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  const std::map<std::string, MetaValue> meta = {
      {"model.architecture", std::string("llama")},
      {"model.name", model_name},
      {"model.hidden", u64(c.hidden)},
      {"model.layers", u64(c.layers)},
      {"model.heads", u64(c.heads)},
      {"model.kv_heads", u64(c.kv_heads)},
      {"model.head_dim", u64(c.head_dim)},
      {"model.ffn", u64(c.ffn)},
      {"model.vocab", u64(c.vocab)},
      {"model.max_positions", u64(c.max_positions)},
      {"model.rms_eps", c.rms_eps},
      {"model.rope_theta", c.rope_theta},
      {"tokenizer.bos", bos},
      {"tokenizer.eos", eos},
      {"tokenizer.add_bos", std::uint64_t{tokens.add_bos == TokenFacts::AddBos::kYes ? 1u : 0u}},
  };
  return encode_meta(meta);
}

}  // namespace

std::vector<SectionToWrite> PackedModel::sections(
    SectionToWrite::Compression weights_compression) const {
  static constexpr std::array<std::byte, ELQ_TENSOR_ALIGN> kZeros{};
  std::vector<SectionToWrite> out;
  out.push_back({ELQ_SECTION_META, {meta}, SectionToWrite::Compression::kNone});
  out.push_back({ELQ_SECTION_TENS, {records}, SectionToWrite::Compression::kNone});
  out.push_back({ELQ_SECTION_STRT, {names}, SectionToWrite::Compression::kNone});
  for (const PackedSection& section : weights) {
    SectionToWrite wgt{ELQ_SECTION_WGT, {}, weights_compression};
    std::uint64_t end = 0;
    for (const std::size_t i : section.tensors) {
      const elq_tensor_record& r = tensors[i].record;
      if (r.offset > end) wgt.parts.push_back(std::span(kZeros).first(r.offset - end));
      wgt.parts.push_back(tensors[i].bytes);
      end = r.offset + r.bytes;
    }
    out.push_back(std::move(wgt));
  }
  return out;
}

Result<PackedModel> pack_model(const ExportSource& source, const TokenFacts& tokens,
                               const std::string& model_name, ThreadPool& pool) {
  PackedModel model;
  std::vector<std::optional<Result<PackedTensor>>> packed(source.tensors.size());
  pool.run(packed.size(), [&](std::size_t i) { packed[i] = pack_tensor(source.tensors[i]); });
  for (auto& result : packed) {
    if (!result->ok()) return result->error();
    model.tensors.push_back(std::move(*result).value());
    // A vector's buffer stays where it is when its owner moves; said again because bytes point
    // there.
    PackedTensor& t = model.tensors.back();
    if (!t.owned.empty()) t.bytes = t.owned;
  }
  find_aliases(model.tensors, pool);
  if (source.tied) add_tied_head(model.tensors);
  model.weights = SectionCutter(model.tensors).run();
  ELQ_CHECK(write_tables(model));
  ELQ_TRY(meta, make_meta(source.config, tokens, model_name));
  model.meta = std::move(meta);
  return model;
}

}  // namespace elastiq
