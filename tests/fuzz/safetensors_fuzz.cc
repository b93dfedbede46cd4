// What the reader accepts covers the data exactly.

#include <cstring>

#include "formats/safetensors_header.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using elastiq::fuzz::require;
  // A small limit, so that an allocation that follows the length field is seen as one.
  const auto parsed =
      elastiq::parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz", "fuzz", 1u << 20);
  if (!parsed.ok()) {
    require(parsed.error().byte_offset <= size);
    return 0;
  }
  std::uint64_t header = 0;
  std::memcpy(&header, data, sizeof header);
  const auto* cursor = reinterpret_cast<const std::byte*>(data) + 8 + header;
  for (const elastiq::TensorView& tensor : parsed.value().tensors) {
    const auto bytes = elastiq::tensor_bytes(tensor.dtype, tensor.shape);
    require(bytes.has_value() && *bytes == tensor.bytes.size());
    require(tensor.bytes.data() == cursor);
    cursor += tensor.bytes.size();
  }
  require(cursor == reinterpret_cast<const std::byte*>(data) + size);
  return 0;
}
