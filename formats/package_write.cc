#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "core/checked_math.h"
#include "core/crc32c.h"
#include "core/digest.h"
#include "formats/package_internal.h"

namespace elastiq {
namespace {

using package::refuse;
using Parts = std::vector<std::span<const std::byte>>;

// zstd's strong levels are worth their time on texts and small models only: level 19 takes about a
// second per MiB.
constexpr std::uint64_t kSmallSectionBytes = std::uint64_t{4} << 20;
constexpr int kSmallLevel = 19;
constexpr int kLargeLevel = 9;

/// A package in its parts: everything but the bytes of raw sections is owned.
struct Layout {
  elq_header header{};
  std::vector<elq_toc_entry> toc;
  std::vector<std::vector<std::byte>> compressed;  ///< Empty: stored as it is.
};

std::uint64_t total_bytes(const Parts& parts) {
  std::uint64_t bytes = 0;
  for (const auto part : parts) bytes += part.size();
  return bytes;
}

/// The limit of a type's raw bytes, or 0 where there is none.
struct SectionLimit {
  std::uint64_t bytes = 0;
  const char* name = "";
};

SectionLimit section_limit(std::uint32_t type) {
  switch (type) {
    case ELQ_SECTION_META:
      return {ELQ_MAX_META_BYTES, "ELQ_MAX_META_BYTES"};
    case ELQ_SECTION_STRT:
      return {ELQ_MAX_STRING_TABLE_BYTES, "ELQ_MAX_STRING_TABLE_BYTES"};
    case ELQ_SECTION_TENS:
      return {std::uint64_t{ELQ_MAX_TENSORS} * sizeof(elq_tensor_record),
              "ELQ_MAX_TENSORS records"};
    default:
      return {};
  }
}

Status check_sections(const std::vector<SectionToWrite>& sections) {
  if (sections.empty() || sections.size() > ELQ_MAX_SECTIONS) {
    return refuse(ErrorCode::kLimitExceeded, "package", 0,
                  std::to_string(sections.size()) +
                      " sections, 1 to ELQ_MAX_SECTIONS = " + std::to_string(ELQ_MAX_SECTIONS));
  }
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const SectionToWrite& s = sections[i];
    const std::string name = package::section_name(s.type);
    if (s.type < ELQ_SECTION_META || s.type > ELQ_SECTION_PROV) {
      return refuse(ErrorCode::kInvalidArgument, "package", 0, "unknown section " + name);
    }
    const auto same = [&](const SectionToWrite& other) { return other.type == s.type; };
    if (s.type != ELQ_SECTION_WGT &&
        std::any_of(sections.begin(), sections.begin() + static_cast<std::ptrdiff_t>(i), same)) {
      return refuse(ErrorCode::kDuplicate, "package", 0, "two sections " + name);
    }
    if (s.type == ELQ_SECTION_SIGN && i + 1 != sections.size()) {
      return refuse(ErrorCode::kInvalidArgument, "package", 0, "SIGN must be the last section");
    }
    if (s.compression != SectionToWrite::Compression::kNone && package::is_always_raw(s.type)) {
      return refuse(ErrorCode::kInvalidArgument, "package", 0, name + " must not be compressed");
    }
    const SectionLimit limit = section_limit(s.type);
    if (limit.bytes != 0 && total_bytes(s.parts) > limit.bytes) {
      return refuse(ErrorCode::kLimitExceeded, "package", 0,
                    name + " has " + std::to_string(total_bytes(s.parts)) + " bytes, at most " +
                        limit.name + " = " + std::to_string(limit.bytes));
    }
  }
  return ok_status();
}

/// Compressed bytes where they are smaller and within ELQ_MAX_RAW_RATIO, else none.
Result<std::vector<std::byte>> compress(const SectionToWrite& section, std::uint64_t raw) {
  if (section.compression == SectionToWrite::Compression::kNone) return std::vector<std::byte>{};
  const int level = raw < kSmallSectionBytes ? kSmallLevel : kLargeLevel;
  ELQ_TRY(bytes, package::zstd_compress(section.parts, raw, level));
  if (bytes.size() >= raw || raw / ELQ_MAX_RAW_RATIO > bytes.size()) bytes.clear();
  return bytes;
}

Status add_section(const SectionToWrite& section, std::uint64_t end, Layout& layout) {
  elq_toc_entry entry{};
  entry.type = section.type;
  entry.raw_bytes = total_bytes(section.parts);
  entry.align_log2 = package::section_align_log2(section.type);
  ELQ_TRY(compressed, compress(section, entry.raw_bytes));
  entry.flags = compressed.empty() ? 0 : ELQ_SECTION_FLAG_ZSTD;
  entry.stored_bytes = compressed.empty() ? entry.raw_bytes : compressed.size();
  Sha256Hasher hasher;
  for (const auto part : section.parts) {
    hasher.update(part);
    if (compressed.empty()) entry.crc32c = crc32c(entry.crc32c, part);
  }
  if (!compressed.empty()) entry.crc32c = crc32c(0, compressed);
  const Sha256 digest = hasher.finish();
  std::memcpy(entry.sha256, digest.data(), digest.size());
  const auto offset = checked_align_up(end, std::uint64_t{1} << entry.align_log2);
  const auto next = offset ? checked_add(*offset, entry.stored_bytes) : std::nullopt;
  if (!next || *next > ELQ_MAX_FILE_BYTES) {
    return refuse(ErrorCode::kLimitExceeded, "package", end,
                  "would pass ELQ_MAX_FILE_BYTES = " + std::to_string(ELQ_MAX_FILE_BYTES));
  }
  entry.offset = *offset;
  layout.toc.push_back(entry);
  layout.compressed.push_back(std::move(compressed));
  layout.header.file_bytes = *next;
  return ok_status();
}

Result<Layout> make_layout(const std::vector<SectionToWrite>& sections,
                           std::uint64_t security_version, std::uint64_t build_id) {
  ELQ_CHECK(check_sections(sections));
  Layout layout;
  elq_header& header = layout.header;
  std::uint64_t end = sizeof(elq_header) + sections.size() * sizeof(elq_toc_entry);
  for (const SectionToWrite& section : sections) {
    ELQ_CHECK(add_section(section, end, layout));
    end = header.file_bytes;
  }
  std::memcpy(header.magic, ELQ_MAGIC, ELQ_MAGIC_BYTES);
  header.major = ELQ_FORMAT_MAJOR;
  header.minor = ELQ_FORMAT_MINOR;
  header.header_bytes = sizeof(elq_header);
  header.toc_offset = sizeof(elq_header);
  header.toc_count = static_cast<std::uint32_t>(sections.size());
  header.toc_entry_bytes = sizeof(elq_toc_entry);
  header.security_version = security_version;
  header.build_id = build_id;
  const Sha256 digest = sha256(std::as_bytes(std::span(layout.toc)));
  std::memcpy(header.toc_sha256, digest.data(), digest.size());
  const auto bytes = std::as_bytes(std::span(&header, 1));
  header.crc32c = crc32c(0, bytes.first(offsetof(elq_header, crc32c)));
  return layout;
}

using Sink = std::function<Status(std::span<const std::byte>)>;

Status emit(const Layout& layout, const std::vector<SectionToWrite>& sections, const Sink& sink) {
  static constexpr std::array<std::byte, std::size_t{1} << ELQ_WEIGHT_ALIGN_LOG2> kZeros{};
  ELQ_CHECK(sink(std::as_bytes(std::span(&layout.header, 1))));
  ELQ_CHECK(sink(std::as_bytes(std::span(layout.toc))));
  std::uint64_t end = sizeof(elq_header) + layout.toc.size() * sizeof(elq_toc_entry);
  for (std::size_t i = 0; i < layout.toc.size(); ++i) {
    const elq_toc_entry& entry = layout.toc[i];
    ELQ_CHECK(sink(std::span(kZeros).first(entry.offset - end)));
    if (!layout.compressed[i].empty()) {
      ELQ_CHECK(sink(layout.compressed[i]));
    } else {
      for (const auto part : sections[i].parts) ELQ_CHECK(sink(part));
    }
    end = entry.offset + entry.stored_bytes;
  }
  return ok_status();
}

}  // namespace

Status write_package(const std::filesystem::path& path, const std::vector<SectionToWrite>& sections,
                     std::uint64_t security_version, std::uint64_t build_id) {
  ELQ_TRY(layout, make_layout(sections, security_version, build_id));
  ELQ_TRY(file, AtomicFile::create(path));
  ELQ_CHECK(
      emit(layout, sections, [&](std::span<const std::byte> bytes) { return file.write(bytes); }));
  return file.commit();
}

Result<std::uint64_t> stored_bytes(const SectionToWrite& section) {
  const std::uint64_t raw = total_bytes(section.parts);
  ELQ_TRY(compressed, compress(section, raw));
  return compressed.empty() ? raw : compressed.size();
}

Result<LineBytes> package_image(const std::vector<SectionToWrite>& sections,
                                std::uint64_t security_version, std::uint64_t build_id) {
  ELQ_TRY(layout, make_layout(sections, security_version, build_id));
  LineBytes image;
  image.reserve(layout.header.file_bytes);
  ELQ_CHECK(emit(layout, sections, [&](std::span<const std::byte> bytes) {
    image.insert(image.end(), bytes.begin(), bytes.end());
    return ok_status();
  }));
  return image;
}

}  // namespace elastiq
