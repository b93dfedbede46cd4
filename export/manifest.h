#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "core/error.h"
#include "core/json.h"
#include "export/pack_model.h"
#include "export/strip.h"
#include "formats/package.h"

namespace elastiq {

struct ManifestInput {
  const ExportSource& source;
  const PackedModel& model;
  const Package& package;                      ///< As written.
  std::string file_name;                       ///< Of the package.
  std::map<std::string, std::string> digests;  ///< Name of an input -> SHA-256, hex.
  std::uint64_t zstd_weight_bytes = 0;         ///< What zstd makes of the weight sections.
};

/// What was stripped and which tensors share bytes, as manifest.json and PROV have it.
Json stripped_json(const ExportSource& source);
Json aliased_json(const PackedModel& model);

/// manifest.json, "elastiq.manifest/1" (docs of the fields in export/manifest.cc). The bytes by
/// role are those in memory; with "zstd_saved" taken off they add up to the file.
Json make_manifest(const ManifestInput& input);

}  // namespace elastiq
