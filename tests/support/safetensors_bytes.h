#pragma once

// Safetensors files put together from a header text, without the product's writer.

#include <cstdint>
#include <cstring>
#include <string>

namespace elastiq::testing {

inline std::string u64_bytes(std::uint64_t value) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &value, 8);
  return bytes;
}

inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  return u64_bytes(header.size()) + header + data;
}

/// "name":{"dtype":...,"shape":...,"data_offsets":[begin,end]}
inline std::string entry_text(const std::string& name, const std::string& dtype,
                              const std::string& shape, const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

}  // namespace elastiq::testing
