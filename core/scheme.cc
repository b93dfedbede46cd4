#include "core/scheme.h"

#include <charconv>
#include <optional>

#include "kernels/elq_layout.h"

namespace elastiq {
namespace {

constexpr const char* kGrammar =
    "allowed: seq1..seq4, sym3, sym4, sym8 or ternary, then -row or -g32|64|128|256-u8|f16, "
    "then nothing or -k1..64; for example seq2-g64-u8-k8, ternary-g64-f16, sym4-row";

Error refuse(std::string subject, const std::string& detail) {
  return Error{ErrorCode::kInvalidArgument, std::move(subject), detail, 0};
}

/// The text up to the next '-', removed from `rest` together with the dash.
std::string_view take_part(std::string_view& rest) {
  const std::size_t dash = rest.find('-');
  const std::string_view part = rest.substr(0, dash);
  rest = dash == std::string_view::npos ? std::string_view() : rest.substr(dash + 1);
  return part;
}

std::optional<int> number_after(std::string_view part, std::string_view prefix) {
  if (!part.starts_with(prefix)) return std::nullopt;
  part.remove_prefix(prefix.size());
  int value = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  if (error != std::errc() || end != part.data() + part.size() || value < 0) return std::nullopt;
  return value;
}

bool parse_grid(std::string_view part, Scheme& scheme) {
  if (part == "ternary") {
    scheme.grid = Grid::kTernary;
    scheme.bits = 2;
    return true;
  }
  const auto seq = number_after(part, "seq");
  const auto symmetric = number_after(part, "sym");
  scheme.grid = seq ? Grid::kSeq : Grid::kSymmetric;
  scheme.bits = seq ? *seq : symmetric.value_or(0);
  return seq || symmetric;
}

bool parse_scale(std::string_view& rest, Scheme& scheme) {
  const std::string_view part = take_part(rest);
  if (part == "row") {
    scheme.group = 0;
    scheme.scale = ScaleMode::kRow;
    return true;
  }
  const auto group = number_after(part, "g");
  const std::string_view mode = take_part(rest);
  if (!group || (mode != "u8" && mode != "f16")) return false;
  scheme.group = *group;
  scheme.scale = mode == "u8" ? ScaleMode::kU8 : ScaleMode::kF16;
  return true;
}

bool bits_are_allowed(const Scheme& scheme) {
  switch (scheme.grid) {
    case Grid::kSeq:
      return scheme.bits >= 1 && scheme.bits <= 4;
    case Grid::kSymmetric:
      return scheme.bits == 3 || scheme.bits == 4 || scheme.bits == 8;
    case Grid::kTernary:
      return scheme.bits == 2;
  }
  return false;
}

bool group_is_allowed(int group) {
  return group == 0 || group == 32 || group == 64 || group == 128 || group == 256;
}

}  // namespace

int scheme_z2(const Scheme& scheme) {
  if (scheme.grid == Grid::kTernary) return 2;
  return scheme.grid == Grid::kSeq ? (1 << scheme.bits) - 1 : 1 << scheme.bits;
}

int scheme_codes(const Scheme& scheme) {
  return scheme.grid == Grid::kTernary ? 3 : 1 << scheme.bits;
}

std::string scheme_name(const Scheme& scheme) {
  std::string name = "ternary";
  if (scheme.grid == Grid::kSeq) name = "seq" + std::to_string(scheme.bits);
  if (scheme.grid == Grid::kSymmetric) name = "sym" + std::to_string(scheme.bits);
  if (scheme.scale == ScaleMode::kRow) {
    name += "-row";
  } else {
    name += "-g" + std::to_string(scheme.group);
    name += scheme.scale == ScaleMode::kU8 ? "-u8" : "-f16";
  }
  if (scheme.kept_columns > 0) name += "-k" + std::to_string(scheme.kept_columns);
  return name;
}

Result<Scheme> parse_scheme(std::string_view name) {
  const std::string subject = "scheme '" + std::string(name) + "'";
  std::string_view rest = name;
  Scheme scheme;
  if (!parse_grid(take_part(rest), scheme) || !parse_scale(rest, scheme)) {
    return refuse(subject, kGrammar);
  }
  scheme.kept_columns = 0;
  if (!rest.empty()) {
    const auto kept = number_after(take_part(rest), "k");
    if (!kept || *kept == 0 || !rest.empty()) return refuse(subject, kGrammar);
    scheme.kept_columns = *kept;
  }
  const Status status = check_scheme(scheme);
  if (!status.ok()) return refuse(subject, status.error().detail);
  // One spelling per scheme: names are compared and hashed ("seq02-..." and a last dash end here).
  if (scheme_name(scheme) != name) return refuse(subject, kGrammar);
  return scheme;
}

Status check_scheme(const Scheme& scheme) {
  const std::string subject = "scheme " + scheme_name(scheme);
  if (!bits_are_allowed(scheme)) {
    return refuse(subject, std::to_string(scheme.bits) +
                               " bits; allowed: seq 1 to 4, sym 3, 4 or 8, ternary 2");
  }
  if (!group_is_allowed(scheme.group)) {
    return refuse(subject, "group of " + std::to_string(scheme.group) +
                               " columns; allowed: 32, 64, 128, 256, or row");
  }
  const bool known_mode = scheme.scale == ScaleMode::kRow || scheme.scale == ScaleMode::kU8 ||
                          scheme.scale == ScaleMode::kF16;
  if (!known_mode || (scheme.group == 0) != (scheme.scale == ScaleMode::kRow)) {
    return refuse(
        subject,
        "one scale per row has no group size; allowed: row, or a group of columns with u8 or f16");
  }
  if (scheme.kept_columns < 0 || scheme.kept_columns > static_cast<int>(ELQ_MAX_KEPT_COLUMNS)) {
    return refuse(subject, std::to_string(scheme.kept_columns) + " kept columns; allowed: 0 to 64");
  }
  return ok_status();
}

}  // namespace elastiq
