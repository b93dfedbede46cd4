#pragma once

// Small random Llama packages, built in memory byte by byte from elq_layout.h (not with the
// product's writer).

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/elq_layout.h"
#include "kernels/elq_runtime.h"
#include "tests/support/kernel_data.h"

namespace elastiq::testing {

struct TinyShape {
  uint32_t hidden, layers, heads, kv_heads, head_dim, ffn, vocab;
  bool tied;
  bool biases;
};

inline TinyShape tiny_t1() {
  return {48, 2, 3, 1, 16, 80, 67, true, false};
}

inline TinyShape tiny_t2() {
  return {64, 2, 4, 2, 24, 172, 512, false, true};
}

// One tensor as the test knows it: plain weights for the reference, and the record with its bytes.
struct TinyTensor {
  std::string name;
  elq_tensor_record record = {};
  std::vector<uint8_t> bytes;
  std::vector<float> weights;  // row-major
  std::vector<uint16_t> kept_index;
  bool quantized = false;
};

struct TinyModel {
  TinyShape shape = {};
  float rms_eps = 1e-5f;
  double rope_theta = 10000.0;
  uint32_t max_positions = 128;
  std::vector<TinyTensor> tensors;

  const TinyTensor* find(uint32_t role, uint32_t layer) const {
    for (const TinyTensor& t : tensors) {
      if (t.record.role == role && t.record.layer == layer) return &t;
    }
    return nullptr;
  }
};

inline TinyTensor packed_tensor(Random& random, std::string name, uint32_t role, uint32_t layer,
                                uint32_t rows, uint32_t cols, const Scheme& scheme) {
  const float magnitude = 1.7f / std::sqrt(static_cast<float>(cols));
  const PackedTensor p = random_packed(random, rows, cols, scheme, magnitude);
  TinyTensor t;
  t.name = std::move(name);
  t.quantized = true;
  t.kept_index = p.kept_index;
  t.bytes.assign(p.bytes.data(), p.bytes.data() + p.bytes.size());
  t.weights.resize(size_t{rows} * cols);
  for (uint32_t r = 0; r < rows; ++r) {
    for (uint32_t c = 0; c < cols; ++c) {
      t.weights[size_t{r} * cols + c] = static_cast<float>(p.weight(r, c));
    }
  }
  elq_tensor_record& record = t.record;
  record.role = role;
  record.layer = layer;
  record.layout = ELQ_LAYOUT_PACKED;
  record.bits = static_cast<uint8_t>(scheme.bits);
  record.scale_mode = static_cast<uint8_t>(scheme.scale_mode);
  record.z2 = static_cast<uint16_t>(scheme.z2);
  record.group = static_cast<uint16_t>(scheme.group);
  record.rows = rows;
  record.cols = cols;
  record.padded_rows = p.m.padded_rows;
  record.padded_cols = p.m.padded_cols;
  record.n_kept = p.m.n_kept;
  record.bytes = p.bytes.size();
  record.kept_offset = elq_matrix_kept_offset(&p.m);
  record.smax = scheme.scale_mode == ELQ_SCALE_U8 ? p.smax : 0;
  return t;
}

// Values are multiples of 2^-7 below 2, exact in every float layout.
inline TinyTensor float_tensor(Random& random, std::string name, uint32_t role, uint32_t layer,
                               uint32_t rows, uint32_t cols, uint32_t layout, float base,
                               float spread) {
  TinyTensor t;
  t.name = std::move(name);
  for (size_t i = 0; i < size_t{rows} * cols; ++i) {
    const float value = std::round((base + spread * random.symmetric()) * 128) / 128;
    t.weights.push_back(value);
    uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    uint16_t half = static_cast<uint16_t>(bits >> 16);
    if (layout == ELQ_LAYOUT_F16) {
      const uint32_t exponent = bits >> 23 & 255;
      half = exponent == 0 ? 0
                           : static_cast<uint16_t>((bits >> 16 & 0x8000) | (exponent - 112) << 10 |
                                                   (bits >> 13 & 1023));
    }
    const auto* from = layout == ELQ_LAYOUT_F32 ? reinterpret_cast<const uint8_t*>(&bits)
                                                : reinterpret_cast<const uint8_t*>(&half);
    t.bytes.insert(t.bytes.end(), from, from + (layout == ELQ_LAYOUT_F32 ? 4 : 2));
  }
  t.record.role = role;
  t.record.layer = layer;
  t.record.layout = static_cast<uint8_t>(layout);
  t.record.rows = t.record.padded_rows = rows;
  t.record.cols = t.record.padded_cols = cols;
  t.record.bytes = t.bytes.size();
  return t;
}

// Picks a scheme for a role; bits 0 means an F16 matrix.
using SchemeOf = std::function<Scheme(uint32_t role, uint32_t layer)>;

inline Scheme mixed_schemes(uint32_t role, uint32_t layer) {
  switch ((role + layer) % 5) {
    case 0:
      return {2, ELQ_SCALE_U8, 3, 64, 3};
    case 1:
      return {4, ELQ_SCALE_F16, 15, 32, 0};
    case 2:
      return {3, ELQ_SCALE_U8, 7, 32, 8};
    case 3:
      return {8, ELQ_SCALE_ROW, 256, 0, 1};
    default:
      return {0, 0, 0, 0, 0};
  }
}

inline TinyModel tiny_model(const TinyShape& shape, const SchemeOf& scheme_of, uint64_t seed) {
  Random random(seed);
  TinyModel model;
  model.shape = shape;
  auto matrix = [&](const std::string& name, uint32_t role, uint32_t layer, uint32_t rows,
                    uint32_t cols) {
    const Scheme scheme = scheme_of(role, layer);
    const float spread = 1.7f / std::sqrt(static_cast<float>(cols));
    model.tensors.push_back(
        scheme.bits == 0
            ? float_tensor(random, name, role, layer, rows, cols, ELQ_LAYOUT_F16, 0, spread)
            : packed_tensor(random, name, role, layer, rows, cols, scheme));
  };
  auto vector = [&](const std::string& name, uint32_t role, uint32_t layer, uint32_t n,
                    uint32_t layout, float base) {
    model.tensors.push_back(float_tensor(random, name, role, layer, 1, n, layout, base, 0.25f));
  };
  const uint32_t q = shape.heads * shape.head_dim;
  const uint32_t kv = shape.kv_heads * shape.head_dim;
  matrix("embed", ELQ_ROLE_EMBED, 0, shape.vocab, shape.hidden);
  if (!shape.tied) matrix("head", ELQ_ROLE_HEAD, 0, shape.vocab, shape.hidden);
  vector("norm", ELQ_ROLE_FINAL_NORM, 0, shape.hidden, ELQ_LAYOUT_F32, 1);
  for (uint32_t l = 0; l < shape.layers; ++l) {
    const std::string at = "layer." + std::to_string(l) + ".";
    vector(at + "attn_norm", ELQ_ROLE_ATTN_NORM, l, shape.hidden, ELQ_LAYOUT_F16, 1);
    vector(at + "mlp_norm", ELQ_ROLE_MLP_NORM, l, shape.hidden, ELQ_LAYOUT_BF16, 1);

    const struct {
      const char* name;
      uint32_t role, rows, cols;
    } linears[] = {{"q", ELQ_ROLE_Q, q, shape.hidden},
                   {"k", ELQ_ROLE_K, kv, shape.hidden},
                   {"v", ELQ_ROLE_V, kv, shape.hidden},
                   {"o", ELQ_ROLE_O, shape.hidden, q},
                   {"gate", ELQ_ROLE_GATE, shape.ffn, shape.hidden},
                   {"up", ELQ_ROLE_UP, shape.ffn, shape.hidden},
                   {"down", ELQ_ROLE_DOWN, shape.hidden, shape.ffn}};

    for (const auto& linear : linears) {
      matrix(at + linear.name, linear.role, l, linear.rows, linear.cols);
      if (!shape.biases) continue;
      vector(at + linear.name + ".bias", linear.role + ELQ_ROLE_BIAS, l, linear.rows,
             ELQ_LAYOUT_F32, 0);
    }
  }
  std::sort(model.tensors.begin(), model.tensors.end(),
            [](const TinyTensor& a, const TinyTensor& b) { return a.name < b.name; });
  return model;
}

// ------------------------------------------------------------------ the container

struct TinySection {
  uint32_t type = 0;
  uint32_t flags = 0;
  std::vector<uint8_t> bytes;
};

template <typename T>
void append(std::vector<uint8_t>& out, const T& value) {
  const auto* from = reinterpret_cast<const uint8_t*>(&value);
  out.insert(out.end(), from, from + sizeof value);
}

inline std::vector<uint8_t> meta_bytes(const TinyModel& model) {
  const TinyShape& s = model.shape;
  std::map<std::string, uint64_t> numbers = {
      {"model.hidden", s.hidden},     {"model.layers", s.layers},
      {"model.heads", s.heads},       {"model.kv_heads", s.kv_heads},
      {"model.head_dim", s.head_dim}, {"model.ffn", s.ffn},
      {"model.vocab", s.vocab},       {"model.max_positions", model.max_positions},
      {"tokenizer.bos", 1},           {"tokenizer.eos", UINT64_MAX},
      {"tokenizer.add_bos", 1}};
  std::map<std::string, elq_meta_entry> entries;
  for (const auto& [key, value] : numbers) entries[key] = {{}, ELQ_META_U64, 1, value, 0};
  uint64_t bits = 0;
  const double eps = model.rms_eps;
  std::memcpy(&bits, &eps, 8);
  entries["model.rms_eps"] = {{}, ELQ_META_F64, 1, bits, 0};
  std::memcpy(&bits, &model.rope_theta, 8);
  entries["model.rope_theta"] = {{}, ELQ_META_F64, 1, bits, 0};
  entries["model.architecture"] = {{}, ELQ_META_TEXT, 5, 0, 0};
  std::vector<uint8_t> out;
  append(out, static_cast<uint32_t>(entries.size()));
  append(out, uint32_t{0});
  for (auto& [key, entry] : entries) {
    std::memcpy(entry.key, key.data(), key.size());
    if (entry.type == ELQ_META_TEXT) entry.value = 8 + entries.size() * sizeof(elq_meta_entry);
    append(out, entry);
  }
  for (const char c : std::string("llama")) append(out, c);
  return out;
}

// Recomputes every checksum, so that a damaged field reaches the check that is meant for it.
inline void reseal(AlignedBytes& image) {
  auto* header = reinterpret_cast<elq_header*>(image.data());
  auto* toc = reinterpret_cast<elq_toc_entry*>(image.data() + sizeof(elq_header));
  for (uint32_t i = 0; i < header->toc_count && i < 64; ++i) {
    if (toc[i].offset > image.size() || toc[i].stored_bytes > image.size() - toc[i].offset) {
      continue;
    }
    toc[i].crc32c = elq_crc32c(0, image.data() + toc[i].offset, toc[i].stored_bytes);
  }
  header->crc32c = elq_crc32c(0, image.data(), offsetof(elq_header, crc32c));
}

inline AlignedBytes image_of(const std::vector<TinySection>& sections) {
  std::vector<elq_toc_entry> toc;
  uint64_t end = sizeof(elq_header) + sections.size() * sizeof(elq_toc_entry);
  for (const TinySection& section : sections) {
    elq_toc_entry entry = {};
    entry.type = section.type;
    entry.flags = section.flags;
    entry.align_log2 = section.type == ELQ_SECTION_WGT ? 16 : 6;
    const uint64_t align = uint64_t{1} << entry.align_log2;
    entry.offset = (end + align - 1) / align * align;
    entry.stored_bytes = entry.raw_bytes = section.bytes.size();
    end = entry.offset + entry.stored_bytes;
    toc.push_back(entry);
  }
  AlignedBytes image(end);
  elq_header header = {};
  std::memcpy(header.magic, ELQ_MAGIC, ELQ_MAGIC_BYTES);
  header.major = ELQ_FORMAT_MAJOR;
  header.header_bytes = sizeof(elq_header);
  header.file_bytes = end;
  header.toc_offset = sizeof(elq_header);
  header.toc_count = static_cast<uint32_t>(sections.size());
  header.toc_entry_bytes = sizeof(elq_toc_entry);
  std::memcpy(image.data(), &header, sizeof header);
  std::memcpy(image.data() + sizeof header, toc.data(), toc.size() * sizeof toc[0]);
  for (size_t i = 0; i < sections.size(); ++i) {
    if (sections[i].bytes.empty()) continue;
    std::memcpy(image.data() + toc[i].offset, sections[i].bytes.data(), sections[i].bytes.size());
  }
  reseal(image);
  return image;
}

// Sections META, TENS, STRT, WGT, a compressed TOKZ the runtime must ignore, and KAT when kat is
// not empty.
inline AlignedBytes package_of(const TinyModel& model, const std::vector<uint8_t>& kat = {}) {
  std::vector<TinySection> sections(5);
  sections[0] = {ELQ_SECTION_META, 0, meta_bytes(model)};
  sections[1].type = ELQ_SECTION_TENS;
  sections[2].type = ELQ_SECTION_STRT;
  sections[3].type = ELQ_SECTION_WGT;
  sections[4] = {ELQ_SECTION_TOKZ, ELQ_SECTION_FLAG_ZSTD, {1, 2, 3}};
  for (const TinyTensor& t : model.tensors) {
    elq_tensor_record record = t.record;
    record.name_offset = static_cast<uint32_t>(sections[2].bytes.size());
    record.name_bytes = static_cast<uint32_t>(t.name.size());
    record.section = 3;
    std::vector<uint8_t>& weights = sections[3].bytes;
    weights.resize((weights.size() + 63) / 64 * 64);
    record.offset = weights.size();
    weights.insert(weights.end(), t.bytes.begin(), t.bytes.end());
    append(sections[1].bytes, record);
    sections[2].bytes.insert(sections[2].bytes.end(), t.name.begin(), t.name.end());
  }
  if (!kat.empty()) sections.push_back({ELQ_SECTION_KAT, 0, kat});
  return image_of(sections);
}

}  // namespace elastiq::testing
