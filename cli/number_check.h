#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <string>
#include <system_error>

namespace elastiq {

/// A decimal number of type T from `least` to `most`. Unlike CLI::Range it refuses NaN, infinity, a
/// minus sign before an unsigned number and what T cannot hold.
template <class T>
CLI::Validator number_check(T least, T most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    T value{};
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    const bool holds = error == std::errc() && stop == end &&
                       std::isfinite(static_cast<double>(value)) && value >= least && value <= most;
    if (holds) return "";
    return fmt::format("found {}, allowed {} to {}", text, least, most);
  };
  return CLI::Validator(check, "", "number");
}

}  // namespace elastiq
