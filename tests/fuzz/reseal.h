#pragma once

// Makes the checksums of a changed package right again, where its fields still point into it:
// otherwise nothing behind the checksums would ever be reached.

#include <cstring>
#include <span>
#include <vector>

#include "core/digest.h"
#include "kernels/elq_kernels.h"
#include "kernels/elq_layout.h"

namespace elastiq::fuzz {

inline void reseal(std::uint8_t* image, std::size_t size) {
  elq_header header;
  if (size < sizeof header) return;
  std::memcpy(&header, image, sizeof header);
  const std::uint64_t room = (size - sizeof header) / sizeof(elq_toc_entry);
  const std::uint64_t entries = header.toc_count < room ? header.toc_count : room;
  for (std::uint64_t i = 0; i < entries; ++i) {
    elq_toc_entry entry;
    std::uint8_t* at = image + sizeof header + i * sizeof entry;
    std::memcpy(&entry, at, sizeof entry);
    if (entry.offset > size || entry.stored_bytes > size - entry.offset) continue;
    const std::span<const std::uint8_t> stored(image + entry.offset, entry.stored_bytes);
    entry.crc32c = elq_crc32c(0, stored.data(), stored.size());
    if ((entry.flags & ELQ_SECTION_FLAG_ZSTD) == 0) {
      const Sha256 digest = sha256(std::as_bytes(stored));
      std::memcpy(entry.sha256, digest.data(), digest.size());
    }
    std::memcpy(at, &entry, sizeof entry);
  }
  header.file_bytes = size;
  const Sha256 toc = sha256(std::as_bytes(
      std::span(image + sizeof header, static_cast<std::size_t>(entries) * sizeof(elq_toc_entry))));
  std::memcpy(header.toc_sha256, toc.data(), toc.size());
  header.crc32c = elq_crc32c(0, &header, sizeof header - 4);
  std::memcpy(image, &header, sizeof header);
}

}  // namespace elastiq::fuzz
