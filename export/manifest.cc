#include "export/manifest.h"

#include <array>
#include <string_view>

#include "core/digest.h"
#include "core/quantized_matrix.h"
#include "model/tensor_roles.h"

namespace elastiq {
namespace {

constexpr const char* kBasis =
    "parameters: elements of all tensors, a tied head counted once; file: every byte of the "
    "package; ram: weight sections as the runtime maps them (scales, kept columns and padding "
    "included)";

/// "attn", "mlp", "embed", "head", "norm" or "bias".
std::string group_of(std::uint32_t role) {
  const std::string_view name = role_name(role);
  return std::string(name.substr(0, name.find('.')));
}

/// Bytes in memory by role. Codes and float weights under their role; scales and kept columns of
/// all matrices are slices of their own.
std::map<std::string, std::uint64_t> weight_roles(const PackedModel& model) {
  std::map<std::string, std::uint64_t> roles;
  for (const PackedTensor& t : model.tensors) {
    if (!t.alias_of.empty()) continue;
    if (t.source->matrix == nullptr) {
      roles[group_of(t.record.role)] += t.record.bytes;
      continue;
    }
    const MatrixBytes bytes =
        packed_bytes(t.source->matrix->scheme, t.record.rows, t.record.cols, t.record.n_kept);
    roles[group_of(t.record.role)] += bytes.codes;
    roles["scales"] += bytes.scales;
    roles["kept"] += bytes.kept;
  }
  return roles;
}

struct Sizes {
  std::uint64_t weights_raw = 0;
  std::uint64_t weights_stored = 0;
  std::uint64_t tokenizer = 0;
};

Sizes section_sizes(const Package& package) {
  Sizes sizes;
  for (const elq_toc_entry& s : package.toc()) {
    if (s.type == ELQ_SECTION_WGT) {
      sizes.weights_raw += s.raw_bytes;
      sizes.weights_stored += s.stored_bytes;
    }
    if (s.type == ELQ_SECTION_TOKZ || s.type == ELQ_SECTION_TMPL) sizes.tokenizer += s.stored_bytes;
  }
  return sizes;
}

std::uint64_t parameters(const ExportSource& source) {
  std::uint64_t n = 0;
  for (const ExportTensor& t : source.tensors) n += t.elements();
  return n;
}

Json tensors_json(const PackedModel& model) {
  Json list = Json::array();
  for (const PackedTensor& t : model.tensors) {
    Json entry;
    entry["name"] = t.name;
    entry["role"] = role_name(t.record.role);
    entry["rows"] = t.record.rows;
    entry["cols"] = t.record.cols;
    constexpr std::array<const char*, 4> kLayouts = {"", "f32", "f16", "bf16"};
    entry["scheme"] = t.record.layout == ELQ_LAYOUT_PACKED ? scheme_name(t.source->matrix->scheme)
                                                           : kLayouts.at(t.record.layout);
    entry["kept"] = t.record.n_kept;
    entry["bytes"] = t.alias_of.empty() ? t.record.bytes : 0;
    list.push_back(std::move(entry));
  }
  return list;
}

double per_parameter(std::uint64_t bytes, std::uint64_t n) {
  return 8.0 * static_cast<double>(bytes) / static_cast<double>(n);
}

}  // namespace

Json stripped_json(const ExportSource& source) {
  Json list = Json::array();
  for (const StrippedTensor& t : source.stripped) {
    // The head of a tied model is stored: as an alias.
    if (source.tied && t.name == tensor_name(ELQ_ROLE_HEAD, -1)) continue;
    list.push_back({{"name", t.name}, {"reason", t.reason}, {"bytes", t.bytes}});
  }
  return list;
}

Json aliased_json(const PackedModel& model) {
  Json list = Json::array();
  for (const PackedTensor& t : model.tensors) {
    if (t.alias_of.empty()) continue;
    list.push_back({{"name", t.name}, {"shares", t.alias_of}, {"bytes", t.record.bytes}});
  }
  return list;
}

Json make_manifest(const ManifestInput& input) {
  const Sizes sizes = section_sizes(input.package);
  const std::uint64_t file = input.package.image().size();
  const std::uint64_t n = parameters(input.source);
  const std::uint64_t saved = sizes.weights_raw - sizes.weights_stored;
  auto roles = weight_roles(input.model);
  std::uint64_t named = sizes.tokenizer;
  for (const auto& [role, bytes] : roles) named += bytes;

  Json by_role = Json::object();
  for (const char* role : {"embed", "head", "attn", "mlp", "norm", "bias", "scales", "kept"}) {
    by_role[role] = roles[role];
  }
  by_role["tokenizer"] = sizes.tokenizer;
  // Header, tables, golden vectors, provenance and all padding.
  by_role["metadata"] = file + saved - named;

  Json manifest;
  manifest["format"] = "elastiq.manifest/1";
  manifest["tool"] = std::string("elastiq ") + ELASTIQ_VERSION;
  manifest["package"] = input.file_name;
  manifest["parameters"] = n;
  manifest["bytes"] = {{"package", file}, {"by_role", by_role}, {"zstd_saved", saved}};
  manifest["bits_per_weight"] = {{"file", per_parameter(file, n)},
                                 {"ram", per_parameter(sizes.weights_raw, n)},
                                 {"basis", kBasis}};
  manifest["zstd"] = {{"weights_raw", sizes.weights_raw},
                      {"weights_zstd", input.zstd_weight_bytes},
                      {"stored", sizes.weights_raw == sizes.weights_stored ? "raw" : "zstd"}};
  manifest["stripped"] = stripped_json(input.source);
  manifest["aliased"] = aliased_json(input.model);
  manifest["warnings"] = input.source.warnings;
  Json digests;
  digests["package"] = to_hex(sha256(input.package.image()));
  for (const auto& [name, digest] : input.digests) digests[name] = digest;
  manifest["digests"] = std::move(digests);
  manifest["tensors"] = tensors_json(input.model);
  return manifest;
}

}  // namespace elastiq
