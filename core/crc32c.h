#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace elastiq {

/// CRC-32C (Castagnoli, reflected polynomial 0x82f63b78), as packages store it.
///
/// Range     crc is 0 for the first piece, else the result of the pieces before.
/// Source    RFC 3720, appendix B.4: 32 zero bytes give 0x8a9136aa.
std::uint32_t crc32c(std::uint32_t crc, std::span<const std::byte> bytes);

/// The same without special instructions, for CPUs that have none and for the test that compares.
std::uint32_t crc32c_portable(std::uint32_t crc, std::span<const std::byte> bytes);

}  // namespace elastiq
