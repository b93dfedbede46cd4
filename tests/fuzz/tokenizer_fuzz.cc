// tokenizer.json from bytes; what it accepts must encode and decode any text.

#include "core/file.h"
#include "model/tokenizer.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = elastiq::Tokenizer::from_json(text, "", "fuzz");
  if (!tokenizer.ok()) return 0;
  const std::string_view start = text.substr(0, 200);
  const std::size_t bad = elastiq::find_invalid_utf8(start);
  for (const std::string_view sample :
       {std::string_view("Hello, w\xC3\xB6rld 123 \xF0\x9F\x98\x80\n"), start.substr(0, bad)}) {
    const auto ids = tokenizer.value().encode(sample);
    for (const std::uint32_t id : ids) elastiq::fuzz::require(id < tokenizer.value().size());
    (void)tokenizer.value().decode(ids);
  }
  return 0;
}
