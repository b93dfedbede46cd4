#include "recipes/machine.h"

#include <sys/sysinfo.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "model/run_kernels.h"

namespace elastiq {
namespace {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace

Json machine_json(int threads) {
  struct sysinfo info {};

  sysinfo(&info);
  const auto memory = static_cast<double>(info.totalram) * info.mem_unit / (1 << 30);
  return {{"cpu", cpu_name()},
          {"cores", sysconf(_SC_NPROCESSORS_ONLN)},
          {"threads", threads},
          {"memory", std::to_string(static_cast<long>(memory + 0.5)) + " GiB"}};
}

Json speed_conditions() {
  const char* forced = std::getenv("ELQ_ISA");
  return {{"cpu", cpu_name()},
          {"kernels", forced != nullptr ? Json(forced) : run_kernels()["best"]}};
}

}  // namespace elastiq
