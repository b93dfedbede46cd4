#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "formats/safetensors.h"

namespace elastiq {

/// The reference implementation's limit; reader and writer enforce it.
inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

/// Bytes of a tensor of this type and shape (1 element for rank 0); nothing when 64 bits are too
/// few.
std::optional<std::uint64_t> tensor_bytes(DType type, const std::vector<std::uint64_t>& shape);

/// The directory of one safetensors file.
struct SafetensorsDirectory {
  std::vector<TensorView> tensors;  ///< In order of data; bytes point into the file given.
  std::map<std::string, std::string> metadata;
};

/// Every rule of SUBSET-safetensors.md for one file. subject: the path, for errors; file_name goes
/// into the views. max_header_bytes: kMaxSafetensorsHeaderBytes, or less under a fuzzer.
Result<SafetensorsDirectory> parse_safetensors(std::span<const std::byte> file,
                                               const std::string& subject,
                                               const std::string& file_name,
                                               std::uint64_t max_header_bytes);

}  // namespace elastiq
