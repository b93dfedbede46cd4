// The C++ package reader and verifier, on the bytes as they are and with checksums put right.

#include <vector>

#include "formats/package.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/reseal.h"

namespace {

void open_and_verify(const std::uint8_t* data, std::size_t size) {
  const elastiq::fuzz::MemoryFile file(data, size);
  const auto opened = elastiq::Package::open(file.path());
  if (!opened.ok()) return;
  (void)opened.value().verify().ok();
  for (const elq_toc_entry& entry : opened.value().toc()) {
    (void)opened.value().section(entry.type).ok();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  open_and_verify(data, size);
  std::vector<std::uint8_t> sealed(data, data + size);
  elastiq::fuzz::reseal(sealed.data(), sealed.size());
  open_and_verify(sealed.data(), sealed.size());
  const auto meta = elastiq::decode_meta(std::as_bytes(std::span(data, size)), "fuzz");
  if (!meta.ok()) return 0;
  // META that was read is written back as the same bytes.
  const auto encoded = elastiq::encode_meta(meta.value());
  elastiq::fuzz::require(encoded.ok() && encoded.value().size() == size &&
                         std::memcmp(encoded.value().data(), data, size) == 0);
  return 0;
}
