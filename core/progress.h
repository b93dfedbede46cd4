#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace elastiq {

/// Progress of one piece of work on stderr: a redrawn line on a terminal, else a plain line at the
/// start, every 30 s or 5 %, and at the end. Silent when ELASTIQ_PROGRESS=none. Library code takes
/// a Progress& and calls step().
class Progress {
 public:
  enum class Mode { kNone, kPlain, kTerminal };

  static Mode default_mode();

  Progress(std::string label, std::uint64_t total, Mode mode);
  ~Progress();

  void step(std::uint64_t done, const std::string& detail);

 private:
  std::string label_;
  std::uint64_t total_;
  Mode mode_;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
  std::uint64_t last_percent_ = 0;
  std::uint64_t done_ = 0;
};

}  // namespace elastiq
