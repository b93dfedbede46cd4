#pragma once

// Small packages built with the product's writer from records made by hand.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/crc32c.h"
#include "core/digest.h"
#include "formats/package.h"

namespace elastiq::testing {

template <class T>
std::vector<std::byte> bytes_of(const T& value) {
  const auto raw = std::as_bytes(std::span(&value, 1));
  return {raw.begin(), raw.end()};
}

inline std::vector<std::byte> bytes_of_text(const std::string& text) {
  const auto raw = std::as_bytes(std::span(text.data(), text.size()));
  return {raw.begin(), raw.end()};
}

/// The content of a package, section by section, free to be made wrong.
struct SmallPackage {
  struct Section {
    std::uint32_t type = 0;
    std::vector<std::byte> bytes;
    SectionToWrite::Compression compression = SectionToWrite::Compression::kNone;
  };

  std::vector<Section> sections;

  std::vector<SectionToWrite> to_write() const {
    std::vector<SectionToWrite> out;
    for (const Section& s : sections) out.push_back({s.type, {s.bytes}, s.compression});
    return out;
  }
};

/// One float32 vector "w" of two values; the example of SPEC-package.md, section 9.
inline SmallPackage spec_example() {
  elq_tensor_record record{};
  record.name_bytes = 1;
  record.role = ELQ_ROLE_FINAL_NORM;
  record.layout = ELQ_LAYOUT_F32;
  record.rows = record.padded_rows = 1;
  record.cols = record.padded_cols = 2;
  record.section = 3;
  record.bytes = 8;
  const float values[2] = {1.0f, -0.5f};
  auto meta = encode_meta(
      {{"model.architecture", std::string("llama")}, {"model.hidden", std::uint64_t{2}}});
  SmallPackage p;
  p.sections = {{ELQ_SECTION_META, meta.ok() ? meta.value() : std::vector<std::byte>{}},
                {ELQ_SECTION_TENS, bytes_of(record)},
                {ELQ_SECTION_STRT, bytes_of_text("w")},
                {ELQ_SECTION_WGT, bytes_of(values)}};
  return p;
}

constexpr std::uint64_t kExampleSecurity = 1;
constexpr std::uint64_t kExampleBuild = 0x0102030405060708;

/// Recomputes every digest of a raw image, so that a damaged field reaches the check meant for it.
inline void reseal_package(std::span<std::byte> image) {
  elq_header header{};
  std::memcpy(&header, image.data(), sizeof header);
  for (std::uint32_t i = 0; i < header.toc_count && i < 16; ++i) {
    std::byte* at = image.data() + sizeof header + i * sizeof(elq_toc_entry);
    elq_toc_entry entry{};
    std::memcpy(&entry, at, sizeof entry);
    if (entry.offset > image.size() || entry.stored_bytes > image.size() - entry.offset) continue;
    const auto stored = image.subspan(entry.offset, entry.stored_bytes);
    entry.crc32c = crc32c(0, stored);
    if (entry.flags == 0) {
      const Sha256 digest = sha256(stored);
      std::memcpy(entry.sha256, digest.data(), digest.size());
    }
    std::memcpy(at, &entry, sizeof entry);
  }
  const std::uint64_t toc = std::min<std::uint64_t>(header.toc_count * sizeof(elq_toc_entry),
                                                    image.size() - sizeof header);
  const Sha256 digest = sha256(image.subspan(sizeof header, toc));
  std::memcpy(header.toc_sha256, digest.data(), digest.size());
  std::memcpy(image.data(), &header, sizeof header);
  header.crc32c = crc32c(0, image.first(offsetof(elq_header, crc32c)));
  std::memcpy(image.data(), &header, sizeof header);
}

/// Opens and verifies an image through a file.
inline Status check_package(std::span<const std::byte> image, const std::filesystem::path& path) {
  {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(image.data()),
               static_cast<std::streamsize>(image.size()));
  }
  ELQ_TRY(package, Package::open(path));
  return package.verify();
}

}  // namespace elastiq::testing
