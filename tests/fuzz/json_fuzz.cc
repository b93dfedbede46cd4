// parse -> dump -> parse is the identity, with and without comments.

#include "core/json.h"
#include "tests/fuzz/fuzz_target.h"

using elastiq::JsonLimits;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  JsonLimits limits;
  limits.max_bytes = 1u << 20;
  for (const auto comments : {JsonLimits::Comments::kRefuse, JsonLimits::Comments::kAllow}) {
    limits.comments = comments;
    const auto parsed = elastiq::parse_json(text, "fuzz", limits);
    if (!parsed.ok()) {
      elastiq::fuzz::require(parsed.error().byte_offset <= size);
      continue;
    }
    const std::string dumped = elastiq::dump_json(parsed.value());
    const auto again = elastiq::parse_json(dumped, "dump", JsonLimits{});
    elastiq::fuzz::require(again.ok() && elastiq::dump_json(again.value()) == dumped);
  }
  return 0;
}
