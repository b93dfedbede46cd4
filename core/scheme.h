#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.h"

namespace elastiq {

/// How codes become levels: level = 2 * code - z2 in half steps (architecture.md section 5).
enum class Grid : std::uint8_t { kSeq, kSymmetric, kTernary };

/// How scales are stored; values equal elq_scale_mode.
enum class ScaleMode : std::uint8_t { kRow = 1, kU8 = 2, kF16 = 3 };

/// The format of one packed matrix.
struct Scheme {
  Grid grid = Grid::kSeq;
  int bits = 2;    ///< 1, 2, 3, 4 or 8. Ternary has 2. Symmetric has 3, 4 or 8. SEQ 1 to 4.
  int group = 64;  ///< 32, 64, 128, 256 columns, or 0: one group per row (scale mode kRow).
  ScaleMode scale = ScaleMode::kU8;
  int kept_columns =
      0;  ///< Wanted number, 0..64; a matrix of fewer columns keeps at most a quarter of them.

  friend bool operator==(const Scheme&, const Scheme&) = default;
};

/// Levels: SEQ 2^b - 1, symmetric 2^b, ternary 2.
int scheme_z2(const Scheme& scheme);

/// Number of codes: 2^b, 3 for ternary.
int scheme_codes(const Scheme& scheme);

/// "seq2-g64-u8-k8", "ternary-g64-f16", "sym4-row", "sym8-g32-f16-k4".
std::string scheme_name(const Scheme& scheme);
/// Errors  kInvalidArgument with what is allowed.
Result<Scheme> parse_scheme(std::string_view name);
/// Errors  kInvalidArgument: bits, group, scale mode or kept columns outside the closed lists.
Status check_scheme(const Scheme& scheme);

}  // namespace elastiq
