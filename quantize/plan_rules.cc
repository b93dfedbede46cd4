#include "quantize/plan_rules.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <optional>

namespace elastiq {
namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// A whole number at the start of text, removed from it.
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

struct Range {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

std::optional<Range> parse_range(std::string_view part) {
  const auto first = take_number(part);
  if (!first) return std::nullopt;
  if (part.empty()) return Range{*first, *first};
  if (part.front() != '-') return std::nullopt;
  part.remove_prefix(1);
  const auto last = take_number(part);
  if (!last || !part.empty()) return std::nullopt;
  return Range{*first, *last};
}

/// The parts between commas, without blanks around them.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t comma = text.find(',');
    parts.push_back(trim(text.substr(0, comma)));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

std::string about_layers(std::string_view part, const std::string& detail) {
  return "layers '" + std::string(part) + "': " + detail;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j + 1] + 1, row[j] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view text) {
  // Greedy with one restart point: the last star is the only one worth widening.
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string layers_problem(std::string_view text) {
  for (const std::string_view part : parts_of(text)) {
    if (part == "odd" || part == "even") continue;
    const auto range = parse_range(part);
    if (!range) {
      return about_layers(part, "expected a number, a range such as 2-5 or 0--2, 'odd' or 'even'");
    }
    // Ends of one sign have an order without a number of blocks.
    const bool comparable = (range->first < 0) == (range->last < 0);
    if (comparable && range->last < range->first) return about_layers(part, "the range is empty");
  }
  return "";
}

Result<std::vector<bool>> select_layers(std::string_view text, std::int64_t layers,
                                        const std::string& rule) {
  const auto refuse = [&rule](const std::string& detail) {
    return Error{ErrorCode::kRecipe, rule, detail, 0};
  };
  const std::string problem = layers_problem(text);
  if (!problem.empty()) return refuse(problem);
  std::vector<bool> selected(static_cast<std::size_t>(layers), false);
  for (const std::string_view part : parts_of(text)) {
    if (part == "odd" || part == "even") {
      for (std::size_t i = part == "odd" ? 1 : 0; i < selected.size(); i += 2) selected[i] = true;
      continue;
    }
    const Range range = parse_range(part).value_or(Range{});
    const std::int64_t first = range.first < 0 ? range.first + layers : range.first;
    const std::int64_t last = range.last < 0 ? range.last + layers : range.last;
    if (first < 0 || first >= layers || last < 0 || last >= layers) {
      return refuse(about_layers(part, "the model has blocks 0 to " + std::to_string(layers - 1)));
    }
    if (last < first) return refuse(about_layers(part, "the range is empty"));
    for (std::int64_t i = first; i <= last; ++i) selected[static_cast<std::size_t>(i)] = true;
  }
  return selected;
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = candidate;
  }
  return best;
}

}  // namespace elastiq
