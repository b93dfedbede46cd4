#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"

namespace elastiq {

/// Reads little-endian fields from untrusted bytes. Every read is bounds-checked, a failed read
/// consumes nothing, and no length is trusted before it is compared with its limit and with the
/// bytes that are left.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string subject);

  /// Errors  kTruncated.
  Result<std::uint32_t> read_u32(std::string_view field);
  /// Errors  kTruncated; kLimitExceeded above max.
  Result<std::uint64_t> read_u64(std::string_view field, std::uint64_t max);
  /// The next `size` bytes, not copied. Errors  kTruncated.
  Result<std::string_view> read_text(std::string_view field, std::uint64_t size);

  std::uint64_t offset() const { return offset_; }

  std::uint64_t left() const { return bytes_.size() - offset_; }

 private:
  Status need(std::string_view field, std::uint64_t size) const;

  std::span<const std::byte> bytes_;  ///< Not owned; outlives the reader.
  std::string subject_;
  std::uint64_t offset_ = 0;
};

}  // namespace elastiq
