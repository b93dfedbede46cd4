// Feeds files and folders to a fuzz target, each as it is and then with small deterministic
// changes, so that the corpus works under every compiler and sanitizer, without libFuzzer.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/rng.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using Bytes = std::vector<std::uint8_t>;
namespace fs = std::filesystem;

std::vector<fs::path> files_of(int count, char** arguments) {
  std::vector<fs::path> files;
  for (int i = 2; i < count; ++i) {
    if (!fs::is_directory(arguments[i])) {
      files.emplace_back(arguments[i]);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(arguments[i])) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Bytes read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Flips, overwrites with edge values, cuts, repeats: one to four of them.
Bytes mutated(Bytes bytes, elastiq::Rng& rng) {
  constexpr std::uint8_t kEdges[] = {0x00, 0x01, 0x7f, 0x80, 0xff, '"', '{', '9'};
  for (std::uint64_t n = 1 + rng.below(4); n > 0 && !bytes.empty(); --n) {
    // Most fields are near the start.
    const std::uint64_t range =
        rng.below(2) == 0 ? bytes.size() : std::min<std::uint64_t>(bytes.size(), 512);
    const auto at = static_cast<std::ptrdiff_t>(rng.below(range));
    const auto length = static_cast<std::ptrdiff_t>(
        std::min(1 + rng.below(8), bytes.size() - static_cast<std::uint64_t>(at)));
    const auto first = bytes.begin() + at;
    switch (rng.below(6)) {
      case 0:
        *first = static_cast<std::uint8_t>(*first ^ (1u << rng.below(8)));
        break;
      case 1:
        std::fill(first, first + length, kEdges[rng.below(8)]);
        break;
      case 2:
        bytes.erase(first, first + length);
        break;
      case 3: {
        const Bytes part(first, first + length);
        bytes.insert(first, part.begin(), part.end());
        break;
      }
      case 4:
        *first = static_cast<std::uint8_t>(*first + 1 + rng.below(255));
        break;
      default:
        if (rng.below(8) == 0) bytes.resize(static_cast<std::size_t>(at));
        break;
    }
  }
  return bytes;
}

void run(const Bytes& bytes) {
  // A copy of exactly this size: one byte too far is seen by AddressSanitizer.
  const Bytes exact(bytes);
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

}  // namespace

/// replay_X MUTATIONS PATHS...: exit 0 when every input was survived and there was one.
int main(int count, char** arguments) {
  if (count < 3) {
    std::fprintf(stderr, "usage: %s MUTATIONS FILES-OR-FOLDERS...\n", arguments[0]);
    return 2;
  }
  const std::uint64_t mutations = std::strtoull(arguments[1], nullptr, 10);
  const auto files = files_of(count, arguments);
  for (const fs::path& path : files) {
    std::fprintf(stderr, "%s\n", path.c_str());  // the last line before a crash is its input
    const Bytes bytes = read(path);
    run(bytes);
    elastiq::Rng rng(bytes.size() + 1);
    for (std::uint64_t i = 0; i < mutations; ++i) run(mutated(bytes, rng));
  }
  std::fprintf(stderr, "%zu files, %llu changes of each\n", files.size(),
               static_cast<unsigned long long>(mutations));
  return files.empty() ? 1 : 0;
}
