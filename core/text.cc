#include "core/text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace elastiq {
namespace {

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '\n':
      case '\t':
        out += c;
        break;
      default:
        if (is_control(c)) {
          out += "\xEF\xBF\xBD";
        } else {
          out += c;
        }
    }
  }
  return out;
}

std::string escape_markdown(std::string_view text) {
  constexpr std::string_view kMarks = "\\`*_[]#|~!";
  std::string out;
  for (const char c : text) {
    if (is_control(c)) {
      out += ' ';
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      if (kMarks.find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
  }
  return out;
}

std::string escape_terminal(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (is_control(c)) c = '?';
  }
  return out;
}

std::string format_bytes(double bytes) {
  constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  // 999.95 would print as 1000 of the smaller unit.
  while (std::fabs(bytes) >= 999.5 && unit + 1 < kUnits.size()) {
    bytes /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f} B", bytes);
  const int digits = bytes < 9.995 ? 2 : bytes < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", bytes, digits, kUnits[unit]);
}

std::string format_number(double value) {
  if (!std::isfinite(value)) return "not finite";
  const double size = std::fabs(value);
  if (size == 0) return "0";
  if (size < 1e-4 || size >= 1e7) return fmt::format("{:.3e}", value);
  const int digits = static_cast<int>(std::floor(std::log10(size)));
  return fmt::format("{:.{}f}", value, digits >= 3 ? 0 : 3 - digits);
}

std::string format_percent(double share) {
  return fmt::format("{:.1f} %", share * 100);
}

std::string format_seconds(double seconds) {
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1000);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const long whole = std::lround(seconds);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) ++width;
  }
  return width;
}

}  // namespace elastiq
