#pragma once

// What the package_*.cc files share and nobody else includes.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "formats/package.h"
#include "kernels/elq_layout.h"

namespace elastiq::package {

Error refuse(ErrorCode code, const std::string& subject, std::uint64_t offset, std::string detail);

/// "META", "WGT", ...; "type 77" for unknown ones.
std::string section_name(std::uint32_t type);

/// Sections the C runtime reads in place, so they are stored as they are.
bool is_always_raw(std::uint32_t type);

/// Log2 of the alignment the writer gives a section.
std::uint32_t section_align_log2(std::uint32_t type);

bool all_zero(std::span<const std::byte> bytes);

/// First byte of a text that is malformed UTF-8, NUL, or a control character (C0, DEL, C1); npos
/// when it is clean.
std::size_t find_unclean(std::string_view text);

// ---------------------------------------------------------------- zstd

/// One frame with content size.
Result<std::vector<std::byte>> zstd_compress(std::span<const std::span<const std::byte>> parts,
                                             std::uint64_t raw_bytes, int level);

/// Errors  kVerification: not exactly one frame of raw_bytes.
Result<std::vector<std::byte>> zstd_inflate(std::span<const std::byte> stored,
                                            std::uint64_t raw_bytes, const std::string& subject,
                                            std::uint64_t offset);

// ---------------------------------------------------------------- reading

struct Container {
  std::span<const std::byte> image;
  elq_header header{};
  std::vector<elq_toc_entry> toc;

  std::span<const std::byte> stored(std::size_t index) const {
    return image.subspan(toc[index].offset, toc[index].stored_bytes);
  }

  /// Index of the only section of this type; toc.size() when there is none.
  std::size_t find(std::uint32_t type) const;
};

/// Header, TOC and padding. Allocates the TOC only, after its size has been compared with the file.
Result<Container> read_container(std::span<const std::byte> image, const std::string& subject);

/// TENS and STRT.
Result<std::vector<PackageTensor>> read_tensors(const Container& container,
                                                const std::string& subject);

/// CRC of the stored bytes and SHA-256 of the raw ones; inflated only when the section is
/// compressed.
struct RawSection {
  std::vector<std::byte> inflated;
  std::span<const std::byte> bytes;
};

Result<RawSection> read_section(const Container& container, std::size_t index,
                                const std::string& subject);

/// Contents of all sections.
Status verify_contents(const Container& container, const std::vector<PackageTensor>& tensors,
                       const std::string& subject);

/// Codes, scales and pads of one packed tensor; bytes are the tensor's, `offset` its place in the
/// raw section, for errors.
Status verify_packed(const PackageTensor& tensor, std::span<const std::byte> bytes,
                     const std::string& subject, std::uint64_t offset);

// ---------------------------------------------------------------- packed layout

/// The closed formulas of SPEC-package.md, section 7, for one packed record.
struct PackedLayout {
  std::uint64_t padded_rows = 0;
  std::uint64_t padded_cols = 0;
  std::uint64_t bits = 0;
  std::uint64_t group_columns = 0;  ///< padded_cols when there is one group per row.
  std::uint64_t groups = 0;
  std::uint64_t superblock_groups = 0;  ///< Under one scale line; 0 in ROW mode.
  std::uint64_t head_bytes = 0;         ///< Row-scale line: 64, or 0 in F16 mode.
  std::uint64_t panel_bytes = 0;
  std::uint64_t panels_bytes = 0;  ///< All panels: where kept columns begin.
  std::uint64_t kept_index_bytes = 0;
  std::uint64_t kept_scale_bytes = 0;
  std::uint64_t kept_value_bytes = 0;
  std::uint64_t total_bytes = 0;

  /// First code line of columns 32u..32u+31, from the panel's start.
  std::uint64_t unit_offset(std::uint64_t unit) const;
  /// The 16 scales of a group, from the panel's start.
  std::uint64_t scale_offset(std::uint64_t group) const;
};

/// Nothing when a field is outside the closed lists or the limits.
std::optional<PackedLayout> packed_layout(const elq_tensor_record& record);

/// Largest |2 * code - z2| over all codes of the width.
std::uint64_t largest_level(const elq_tensor_record& record);

}  // namespace elastiq::package
