#include "formats/byte_reader.h"

#include <bit>
#include <cstring>
#include <utility>

namespace elastiq {

static_assert(std::endian::native == std::endian::little, "fields are copied as they lie");

ByteReader::ByteReader(std::span<const std::byte> bytes, std::string subject)
    : bytes_(bytes), subject_(std::move(subject)) {}

Status ByteReader::need(std::string_view field, std::uint64_t size) const {
  // Compared with what is left, never offset + size, which may wrap.
  if (size <= left()) return ok_status();
  return Error{ErrorCode::kTruncated, subject_,
               std::string(field) + " needs " + std::to_string(size) + " bytes, " +
                   std::to_string(left()) + " are left",
               offset_};
}

Result<std::uint32_t> ByteReader::read_u32(std::string_view field) {
  ELQ_CHECK(need(field, 4));
  std::uint32_t value = 0;
  std::memcpy(&value, bytes_.data() + offset_, 4);
  offset_ += 4;
  return value;
}

Result<std::uint64_t> ByteReader::read_u64(std::string_view field, std::uint64_t max) {
  ELQ_CHECK(need(field, 8));
  std::uint64_t value = 0;
  std::memcpy(&value, bytes_.data() + offset_, 8);
  if (value > max) {
    return Error{
        ErrorCode::kLimitExceeded, subject_,
        std::string(field) + " is " + std::to_string(value) + ", at most " + std::to_string(max),
        offset_};
  }
  offset_ += 8;
  return value;
}

Result<std::string_view> ByteReader::read_text(std::string_view field, std::uint64_t size) {
  ELQ_CHECK(need(field, size));
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + offset_,
                              static_cast<std::size_t>(size));
  offset_ += size;
  return text;
}

}  // namespace elastiq
