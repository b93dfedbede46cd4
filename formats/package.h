#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "kernels/elq_layout.h"

namespace elastiq {

/// One section to write; bytes stay alive until the write returns.
struct SectionToWrite {
  std::uint32_t type = 0;                         ///< elq_section_type
  std::vector<std::span<const std::byte>> parts;  ///< Concatenated.
  enum class Compression { kNone, kZstdIfSmaller } compression = Compression::kNone;
};

/// Deterministic, atomic. WGT sections are aligned to 64 KiB, others to 64 bytes.
/// Errors  limits of elq_layout.h by name; kIo, kResources.
Status write_package(const std::filesystem::path& path, const std::vector<SectionToWrite>& sections,
                     std::uint64_t security_version, std::uint64_t build_id);

/// The same image in memory (for tests and for golden vectors before the file exists); 64-byte
/// aligned start.
Result<std::vector<std::byte>> package_image(const std::vector<SectionToWrite>& sections,
                                             std::uint64_t security_version,
                                             std::uint64_t build_id);

using MetaValue = std::variant<std::uint64_t, double, std::string, std::vector<std::uint32_t>,
                               std::vector<float>>;

/// META section bytes from sorted keys, and back.
Result<std::vector<std::byte>> encode_meta(const std::map<std::string, MetaValue>& meta);
Result<std::map<std::string, MetaValue>> decode_meta(std::span<const std::byte> bytes,
                                                     const std::string& subject);

struct PackageTensor {
  std::string name;
  elq_tensor_record record{};
};

/// An opened package: mapped, every rule of SPEC-package.md checked but the digests of section
/// contents.
class Package {
 public:
  static Result<Package> open(const std::filesystem::path& path);

  const elq_header& header() const { return header_; }

  const std::vector<elq_toc_entry>& toc() const { return toc_; }

  const std::map<std::string, MetaValue>& meta() const { return meta_; }

  const std::vector<PackageTensor>& tensors() const { return tensors_; }

  /// Stored bytes of the file.
  std::span<const std::byte> image() const { return file_.bytes(); }

  /// Raw (decompressed, length-checked, SHA-256-checked) bytes of the first section of this type.
  /// Errors  kMissing, kVerification.
  Result<std::vector<std::byte>> section(std::uint32_t type) const;

  /// CRC and SHA-256 of every section, zero padding, closed formulas, code ranges (ternary code 3).
  /// Errors  kVerification with section, offset, found and expected.
  Status verify() const;

 private:
  MappedFile file_;
  elq_header header_{};
  std::vector<elq_toc_entry> toc_;
  std::map<std::string, MetaValue> meta_;
  std::vector<PackageTensor> tensors_;
};

}  // namespace elastiq
