#include "core/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace elastiq {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

std::uint64_t percent(std::uint64_t done, std::uint64_t total) {
  if (total == 0 || done >= total) return 100;
  return static_cast<std::uint64_t>(100.0 * static_cast<double>(done) / static_cast<double>(total));
}

void put(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

Progress::Mode Progress::default_mode() {
  const char* wanted = std::getenv("ELASTIQ_PROGRESS");
  if (wanted != nullptr && std::string_view(wanted) == "none") return Mode::kNone;
  return ::isatty(STDERR_FILENO) != 0 ? Mode::kTerminal : Mode::kPlain;
}

Progress::Progress(std::string label, std::uint64_t total, Mode mode)
    : label_(std::move(label)), total_(total), mode_(mode), start_(Clock::now()), last_(start_) {
  if (mode_ == Mode::kPlain) put(fmt::format("{}: 0 of {}\n", label_, total_));
}

Progress::~Progress() {
  if (mode_ == Mode::kNone) return;
  const char* clear = mode_ == Mode::kTerminal ? "\r\x1b[K" : "";
  put(fmt::format("{}{}: {} of {} in {:.1f} s\n", clear, label_, done_, total_,
                  seconds_since(start_)));
}

void Progress::step(std::uint64_t done, const std::string& detail) {
  done_ = done;
  if (mode_ == Mode::kNone) return;
  const double quiet = seconds_since(last_);
  const std::uint64_t now = percent(done, total_);
  // A terminal is redrawn ten times a second at most; a log gets a line per 30 s or 5 %, but never
  // more than one a second.
  const bool due = mode_ == Mode::kTerminal
                       ? quiet >= 0.1
                       : quiet >= 30.0 || (quiet >= 1.0 && now >= last_percent_ + 5);
  if (!due) return;
  last_ = Clock::now();
  last_percent_ = now;
  const double elapsed = seconds_since(start_);
  std::string text =
      fmt::format("{}: {} of {} ({} %), {:.0f} s", label_, done, total_, now, elapsed);
  if (done > 0 && done < total_) {
    text += fmt::format(", {:.0f} s left",
                        elapsed * static_cast<double>(total_ - done) / static_cast<double>(done));
  }
  if (!detail.empty()) text += ", " + detail;
  put(mode_ == Mode::kTerminal ? "\r\x1b[K" + text : text + "\n");
}

}  // namespace elastiq
