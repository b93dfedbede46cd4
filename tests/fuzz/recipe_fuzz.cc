// A recipe file of any content.

#include "recipes/recipe.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const elastiq::fuzz::MemoryFile file(data, size);
  (void)elastiq::load_recipe({file.path(), {}}).ok();
  return 0;
}
