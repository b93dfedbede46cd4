#include <algorithm>
#include <array>
#include <cstring>

#include "core/checked_math.h"
#include "core/crc32c.h"
#include "core/digest.h"
#include "formats/package_internal.h"

namespace elastiq::package {
namespace {

constexpr std::array<const char*, 13> kSectionNames = {"",     "META", "TENS", "STRT", "WGT",
                                                       "TOKZ", "TMPL", "PROF", "KAT",  "LICN",
                                                       "SBOM", "SIGN", "PROV"};

// In the order a reader meets doubt: is it ours, is it this version, is it whole, is it possible.
Status check_identity(std::span<const std::byte> image, const elq_header& h,
                      const std::string& subject) {
  if (std::memcmp(h.magic, ELQ_MAGIC, ELQ_MAGIC_BYTES) != 0) {
    return refuse(ErrorCode::kBadMagic, subject, 0, "the first 8 bytes are not those of a package");
  }
  if (h.major != ELQ_FORMAT_MAJOR) {
    return refuse(ErrorCode::kUnsupportedVersion, subject, offsetof(elq_header, major),
                  "format version " + std::to_string(h.major) + ", this program reads " +
                      std::to_string(ELQ_FORMAT_MAJOR));
  }
  if (crc32c(0, image.first(offsetof(elq_header, crc32c))) != h.crc32c) {
    return refuse(ErrorCode::kVerification, subject, offsetof(elq_header, crc32c),
                  "the header's CRC-32C differs");
  }
  if (h.file_bytes > ELQ_MAX_FILE_BYTES) {
    return refuse(ErrorCode::kLimitExceeded, subject, offsetof(elq_header, file_bytes),
                  "file_bytes is " + std::to_string(h.file_bytes) + ", at most " +
                      std::to_string(ELQ_MAX_FILE_BYTES));
  }
  if (h.file_bytes != image.size()) {
    return refuse(image.size() < h.file_bytes ? ErrorCode::kTruncated : ErrorCode::kInconsistent,
                  subject, offsetof(elq_header, file_bytes),
                  "file_bytes is " + std::to_string(h.file_bytes) + ", the file has " +
                      std::to_string(image.size()));
  }
  return ok_status();
}

Status check_header(std::span<const std::byte> image, const elq_header& h,
                    const std::string& subject) {
  ELQ_CHECK(check_identity(image, h, subject));
  auto bad = [&](ErrorCode code, std::size_t offset, std::string detail) {
    return refuse(code, subject, offset, std::move(detail));
  };
  if (h.header_bytes != sizeof(elq_header) || h.toc_offset != sizeof(elq_header)) {
    return bad(ErrorCode::kInconsistent, offsetof(elq_header, header_bytes),
               "header_bytes and toc_offset must be 256");
  }
  if (h.required_features != 0) {
    return bad(ErrorCode::kUnsupportedType, offsetof(elq_header, required_features),
               "needs features this program does not know: " + std::to_string(h.required_features));
  }
  if (!all_zero(std::as_bytes(std::span(h.reserved)))) {
    return bad(ErrorCode::kInconsistent, offsetof(elq_header, reserved),
               "reserved bytes must be zero");
  }
  if (h.toc_entry_bytes != sizeof(elq_toc_entry)) {
    return bad(ErrorCode::kInconsistent, offsetof(elq_header, toc_entry_bytes),
               "toc_entry_bytes is " + std::to_string(h.toc_entry_bytes) + ", must be 96");
  }
  if (h.toc_count == 0 || h.toc_count > ELQ_MAX_SECTIONS) {
    return bad(ErrorCode::kLimitExceeded, offsetof(elq_header, toc_count),
               "toc_count is " + std::to_string(h.toc_count) +
                   ", 1 to ELQ_MAX_SECTIONS = " + std::to_string(ELQ_MAX_SECTIONS));
  }
  if (h.toc_count * sizeof(elq_toc_entry) > image.size() - sizeof(elq_header)) {
    return bad(ErrorCode::kTruncated, offsetof(elq_header, toc_count),
               "the table of contents leaves the file");
  }
  return ok_status();
}

struct Place {
  std::uint64_t at = 0;
  std::string name;
};

Status check_entry_fields(const elq_toc_entry& s, const Place& place, const std::string& subject) {
  auto bad = [&](ErrorCode code, const char* detail) {
    return refuse(code, subject, place.at, "section " + place.name + ": " + detail);
  };
  if (s.type < ELQ_SECTION_META || s.type > ELQ_SECTION_PROV) {
    return bad(ErrorCode::kUnsupportedType, "unknown type");
  }
  if ((s.flags & ~ELQ_SECTION_FLAG_ZSTD) != 0) {
    return bad(ErrorCode::kUnsupportedType, "unknown flag");
  }
  if (s.flags != 0 && is_always_raw(s.type)) {
    return bad(ErrorCode::kInconsistent, "must not be compressed");
  }
  if (s.base_section_id != 0) {
    return bad(ErrorCode::kUnsupportedType, "delta sections are not part of version 1");
  }
  if (!all_zero(std::as_bytes(std::span(s.reserved)))) {
    return bad(ErrorCode::kInconsistent, "reserved bytes must be zero");
  }
  if (s.align_log2 != 6 && s.align_log2 != 12 && s.align_log2 != 14 && s.align_log2 != 16) {
    return bad(ErrorCode::kLimitExceeded, "align_log2 must be 6, 12, 14 or 16");
  }
  if (s.type == ELQ_SECTION_WGT && s.align_log2 != ELQ_WEIGHT_ALIGN_LOG2) {
    return bad(ErrorCode::kInconsistent, "weights must be aligned to 64 KiB");
  }
  if (s.flags == 0 && s.raw_bytes != s.stored_bytes) {
    return bad(ErrorCode::kInconsistent, "raw_bytes must equal stored_bytes when not compressed");
  }
  if (s.raw_bytes / ELQ_MAX_RAW_RATIO > s.stored_bytes) {
    return bad(ErrorCode::kLimitExceeded, "raw_bytes above ELQ_MAX_RAW_RATIO = 64 times stored");
  }
  return ok_status();
}

/// Sections follow each other without holes, so nothing can overlap or hide.
Status check_entry_place(const Container& c, std::size_t index, std::uint64_t end,
                         const Place& place, const std::string& subject) {
  const elq_toc_entry& s = c.toc[index];
  const auto expected = checked_align_up(end, std::uint64_t{1} << s.align_log2);
  if (!expected || s.offset != *expected) {
    return refuse(ErrorCode::kInconsistent, subject, place.at,
                  "section " + place.name + " begins at " + std::to_string(s.offset) +
                      ", must follow the one before at " + std::to_string(expected.value_or(0)));
  }
  if (s.offset > c.image.size() || s.stored_bytes > c.image.size() - s.offset) {
    return refuse(ErrorCode::kTruncated, subject, place.at,
                  "section " + place.name + " leaves the file");
  }
  if (!all_zero(c.image.subspan(end, s.offset - end))) {
    return refuse(ErrorCode::kVerification, subject, end,
                  "padding before section " + place.name + " must be zero");
  }
  return ok_status();
}

Status check_sections(const Container& c, const std::string& subject) {
  std::uint64_t end = sizeof(elq_header) + c.toc.size() * sizeof(elq_toc_entry);
  std::array<bool, kSectionNames.size()> seen{};
  for (std::size_t i = 0; i < c.toc.size(); ++i) {
    const elq_toc_entry& s = c.toc[i];
    const Place place{sizeof(elq_header) + i * sizeof(elq_toc_entry),
                      std::to_string(i) + " (" + section_name(s.type) + ")"};
    ELQ_CHECK(check_entry_fields(s, place, subject));
    if (seen[s.type] && s.type != ELQ_SECTION_WGT) {
      return refuse(ErrorCode::kDuplicate, subject, place.at,
                    "section " + place.name + " is there twice");
    }
    seen[s.type] = true;
    if (s.type == ELQ_SECTION_SIGN && i + 1 != c.toc.size()) {
      return refuse(ErrorCode::kInconsistent, subject, place.at, "SIGN must be the last section");
    }
    ELQ_CHECK(check_entry_place(c, i, end, place, subject));
    end = s.offset + s.stored_bytes;
  }
  if (end != c.image.size()) {
    return refuse(ErrorCode::kInconsistent, subject, end,
                  "bytes after the last section: " + std::to_string(c.image.size() - end));
  }
  for (const std::uint32_t type : {ELQ_SECTION_META, ELQ_SECTION_TENS, ELQ_SECTION_STRT}) {
    if (seen[type]) continue;
    return refuse(ErrorCode::kMissing, subject, sizeof(elq_header),
                  std::string("no section ") + section_name(type));
  }
  return ok_status();
}

}  // namespace

Error refuse(ErrorCode code, const std::string& subject, std::uint64_t offset, std::string detail) {
  return Error{code, subject, std::move(detail), offset};
}

std::string section_name(std::uint32_t type) {
  if (type == 0 || type >= kSectionNames.size()) return "type " + std::to_string(type);
  return kSectionNames[type];
}

bool is_always_raw(std::uint32_t type) {
  return type == ELQ_SECTION_META || type == ELQ_SECTION_TENS || type == ELQ_SECTION_STRT ||
         type == ELQ_SECTION_KAT || type == ELQ_SECTION_SIGN;
}

std::uint32_t section_align_log2(std::uint32_t type) {
  return type == ELQ_SECTION_WGT ? ELQ_WEIGHT_ALIGN_LOG2 : 6;
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

std::size_t find_unclean(std::string_view text) {
  const std::size_t invalid = find_invalid_utf8(text);
  for (std::size_t i = 0; i < text.size() && i < invalid; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool c1 = c == 0xc2 && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (c < 0x20 || c == 0x7f || c1) return i;
  }
  return invalid;
}

std::size_t Container::find(std::uint32_t type) const {
  const auto found =
      std::find_if(toc.begin(), toc.end(), [&](const elq_toc_entry& s) { return s.type == type; });
  return static_cast<std::size_t>(found - toc.begin());
}

Result<Container> read_container(std::span<const std::byte> image, const std::string& subject) {
  Container c;
  c.image = image;
  if (image.size() < sizeof(elq_header)) {
    return refuse(ErrorCode::kTruncated, subject, image.size(),
                  "has " + std::to_string(image.size()) + " bytes, a header has 256");
  }
  std::memcpy(&c.header, image.data(), sizeof c.header);
  ELQ_CHECK(check_header(image, c.header, subject));
  const auto toc = image.subspan(sizeof(elq_header), c.header.toc_count * sizeof(elq_toc_entry));
  const Sha256 digest = sha256(toc);
  if (std::memcmp(digest.data(), c.header.toc_sha256, digest.size()) != 0) {
    return refuse(ErrorCode::kVerification, subject, sizeof(elq_header),
                  "the SHA-256 of the table of contents differs");
  }
  c.toc.resize(c.header.toc_count);
  std::memcpy(c.toc.data(), toc.data(), toc.size());
  ELQ_CHECK(check_sections(c, subject));
  return c;
}

Result<RawSection> read_section(const Container& c, std::size_t index, const std::string& subject) {
  const elq_toc_entry& s = c.toc[index];
  const std::string name = "section " + std::to_string(index) + " (" + section_name(s.type) + ")";
  const auto stored = c.stored(index);
  const std::uint32_t crc = crc32c(0, stored);
  if (crc != s.crc32c) {
    return refuse(
        ErrorCode::kVerification, subject, s.offset,
        name + ": CRC-32C is " + std::to_string(crc) + ", expected " + std::to_string(s.crc32c));
  }
  RawSection raw;
  raw.bytes = stored;
  if (s.flags != 0) {
    ELQ_TRY(inflated, zstd_inflate(stored, s.raw_bytes, subject, s.offset));
    raw.inflated = std::move(inflated);
    raw.bytes = raw.inflated;
  }
  const Sha256 digest = sha256(raw.bytes);
  if (std::memcmp(digest.data(), s.sha256, digest.size()) != 0) {
    Sha256 expected{};
    std::memcpy(expected.data(), s.sha256, expected.size());
    return refuse(ErrorCode::kVerification, subject, s.offset,
                  name + ": SHA-256 is " + to_hex(digest) + ", expected " + to_hex(expected));
  }
  return raw;
}

}  // namespace elastiq::package
