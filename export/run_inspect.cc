#include "export/run_inspect.h"

#include <fmt/format.h>

#include <array>

#include "core/digest.h"
#include "core/text.h"
#include "formats/package.h"
#include "formats/quantized_checkpoint.h"
#include "formats/safetensors.h"
#include "model/tensor_roles.h"

namespace elastiq {
namespace {

struct SectionName {
  std::uint32_t type;
  const char* name;
};

constexpr std::array kSections = {
    SectionName{ELQ_SECTION_META, "META"}, SectionName{ELQ_SECTION_TENS, "TENS"},
    SectionName{ELQ_SECTION_STRT, "STRT"}, SectionName{ELQ_SECTION_WGT, "WGT"},
    SectionName{ELQ_SECTION_TOKZ, "TOKZ"}, SectionName{ELQ_SECTION_TMPL, "TMPL"},
    SectionName{ELQ_SECTION_PROF, "PROF"}, SectionName{ELQ_SECTION_KAT, "KAT"},
    SectionName{ELQ_SECTION_LICN, "LICN"}, SectionName{ELQ_SECTION_SBOM, "SBOM"},
    SectionName{ELQ_SECTION_SIGN, "SIGN"}, SectionName{ELQ_SECTION_PROV, "PROV"}};

std::string section_name(std::uint32_t type) {
  for (const SectionName& entry : kSections) {
    if (entry.type == type) return entry.name;
  }
  return std::to_string(type);
}

Json meta_value(const MetaValue& value) {
  return std::visit([](const auto& inner) { return Json(inner); }, value);
}

std::string layout_text(const elq_tensor_record& record) {
  constexpr std::array kScales = {"", "row", "u8", "f16"};
  switch (record.layout) {
    case ELQ_LAYOUT_F32:
      return "f32";
    case ELQ_LAYOUT_F16:
      return "f16";
    case ELQ_LAYOUT_BF16:
      return "bf16";
    default:
      return fmt::format("{} bit z2={} group {} scales {} kept {}", record.bits, record.z2,
                         record.group, kScales.at(record.scale_mode % kScales.size()),
                         record.n_kept);
  }
}

Json section_json(const elq_toc_entry& entry) {
  Sha256 digest{};
  std::copy(std::begin(entry.sha256), std::end(entry.sha256), digest.begin());
  return {{"type", section_name(entry.type)},
          {"offset", entry.offset},
          {"stored_bytes", entry.stored_bytes},
          {"raw_bytes", entry.raw_bytes},
          {"zstd", entry.flags == ELQ_SECTION_FLAG_ZSTD},
          {"sha256", to_hex(digest)}};
}

Json provenance_of(const Package& package) {
  const auto section = package.section(ELQ_SECTION_PROV);
  if (!section.ok()) return nullptr;
  const auto& bytes = section.value();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto json = parse_json(text, "PROV", JsonLimits{});
  return json.ok() ? std::move(json).value() : Json();
}

}  // namespace

Result<Json> describe_package(const std::filesystem::path& file) {
  ELQ_TRY(package, Package::open(file));
  Json json = {{"format", "elastiq.inspect/1"},
               {"package", file.string()},
               {"version", fmt::format("{}.{}", package.header().major, package.header().minor)},
               {"bytes", package.header().file_bytes},
               {"security_version", package.header().security_version}};
  Json meta = Json::object();
  for (const auto& [key, value] : package.meta()) meta[key] = meta_value(value);
  json["meta"] = std::move(meta);
  json["sections"] = Json::array();
  for (const elq_toc_entry& entry : package.toc()) json["sections"].push_back(section_json(entry));
  json["tensors"] = Json::array();
  for (const PackageTensor& tensor : package.tensors()) {
    const elq_tensor_record& record = tensor.record;
    json["tensors"].push_back({{"name", tensor.name},
                               {"layout", layout_text(record)},
                               {"shape", {record.rows, record.cols}},
                               {"bytes", record.bytes},
                               {"alias", record.alias_of != 0}});
  }
  json["provenance"] = provenance_of(package);
  return json;
}

Result<Json> describe_folder(const std::filesystem::path& folder) {
  ELQ_TRY(checkpoint, Checkpoint::open(folder));
  Json json = {{"format", "elastiq.inspect/1"},
               {"folder", folder.string()},
               {"kind", is_quantized_checkpoint(folder) ? "quantized checkpoint" : "checkpoint"},
               {"warnings", checkpoint.warnings()}};
  if (!is_quantized_checkpoint(folder)) {
    ELQ_TRY(config, read_model_config(folder));
    json["architecture"] = config.architecture;
    json["layers"] = config.layers;
    json["hidden"] = config.hidden;
    json["vocab"] = config.vocab;
    ELQ_TRY(roles, assign_roles(checkpoint, config));
    json["tied"] = roles.tied;
    json["warnings"] = roles.warnings;
    json["stripped"] = Json::array();
    for (const StrippedTensor& tensor : roles.stripped) {
      json["stripped"].push_back({{"name", tensor.name}, {"reason", tensor.reason}});
    }
  }
  json["tensors"] = Json::array();
  std::uint64_t bytes = 0;
  for (const TensorView& tensor : checkpoint.tensors()) {
    bytes += tensor.bytes.size();
    json["tensors"].push_back({{"name", tensor.name},
                               {"layout", dtype_name(tensor.dtype)},
                               {"shape", tensor.shape},
                               {"bytes", tensor.bytes.size()}});
  }
  json["bytes"] = bytes;
  return json;
}

std::string description_text(const Json& description) {
  std::string out;
  for (const auto& [key, value] : description.items()) {
    if (value.is_structured() || value.is_null()) continue;
    out +=
        fmt::format("{:<18} {}\n", key,
                    escape_terminal(value.is_string() ? value.get<std::string>() : value.dump()));
  }
  if (description.contains("meta")) {
    for (const auto& [key, value] : description["meta"].items()) {
      out += fmt::format("{:<18} {}\n", escape_terminal(key), escape_terminal(value.dump()));
    }
  }
  out += "tensors\n";
  for (const Json& tensor : description["tensors"]) {
    out += fmt::format("  {:<48} {:<16} {:>12}  {}\n",
                       escape_terminal(tensor["name"].get<std::string>()), tensor["shape"].dump(),
                       tensor["bytes"].dump(), tensor["layout"].get<std::string>());
  }
  return out;
}

}  // namespace elastiq
