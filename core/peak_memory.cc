#include "core/peak_memory.h"

#include <fstream>
#include <string>

namespace elastiq {

std::uint64_t peak_rss_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmHWM:") continue;
    std::uint64_t kib = 0;
    status >> kib;
    return kib * 1024;
  }
  return 0;
}

}  // namespace elastiq
