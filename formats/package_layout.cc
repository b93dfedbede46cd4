#include <algorithm>
#include <array>

#include "formats/package_internal.h"

namespace elastiq::package {
namespace {

struct KnownGrid {
  std::uint8_t bits;
  std::uint16_t z2;
};

// SEQ has z2 = 2^bits - 1, symmetric 2^bits, ternary 2 (SPEC-package.md, section 6).
constexpr std::array kGrids = {KnownGrid{1, 1},  KnownGrid{2, 3},  KnownGrid{2, 2},
                               KnownGrid{3, 7},  KnownGrid{3, 8},  KnownGrid{4, 15},
                               KnownGrid{4, 16}, KnownGrid{8, 256}};
constexpr std::array<std::uint16_t, 4> kGroups = {32, 64, 128, 256};

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t step) {
  return (value + step - 1) / step * step;
}

bool is_known(const elq_tensor_record& r) {
  const bool grid = std::any_of(kGrids.begin(), kGrids.end(), [&](const KnownGrid& g) {
    return g.bits == r.bits && g.z2 == r.z2;
  });
  if (!grid) return false;
  if (r.scale_mode == ELQ_SCALE_ROW) return r.group == 0;
  if (r.scale_mode != ELQ_SCALE_U8 && r.scale_mode != ELQ_SCALE_F16) return false;
  return std::find(kGroups.begin(), kGroups.end(), r.group) != kGroups.end();
}

}  // namespace

std::uint64_t largest_level(const elq_tensor_record& record) {
  const std::uint64_t top = 2 * ((std::uint64_t{1} << record.bits) - 1);
  return std::max<std::uint64_t>(record.z2, top - record.z2);
}

std::optional<PackedLayout> packed_layout(const elq_tensor_record& r) {
  if (!is_known(r) || r.rows == 0 || r.cols == 0) return std::nullopt;
  if (r.rows > ELQ_MAX_DIM || r.cols > ELQ_MAX_DIM) return std::nullopt;
  // Below 2^62, so nothing under it can overflow: a matrix has at most 2^40 elements plus padding.
  if (std::uint64_t{r.rows} * r.cols > ELQ_MAX_ELEMENTS) return std::nullopt;
  if (r.n_kept > ELQ_MAX_KEPT_COLUMNS || r.n_kept > r.cols) return std::nullopt;
  PackedLayout l;
  l.padded_rows = round_up(r.rows, ELQ_PANEL_ROWS);
  l.padded_cols = round_up(r.cols, ELQ_COLUMN_PAD);
  l.bits = r.bits;
  l.group_columns = r.group == 0 ? l.padded_cols : r.group;
  l.groups = (l.padded_cols + l.group_columns - 1) / l.group_columns;
  if (r.scale_mode != ELQ_SCALE_ROW) l.superblock_groups = r.scale_mode == ELQ_SCALE_U8 ? 4 : 2;
  l.head_bytes = r.scale_mode == ELQ_SCALE_F16 ? 0 : ELQ_LINE_BYTES;
  std::uint64_t lines = l.padded_cols / 32 * l.bits;
  if (l.superblock_groups != 0) {
    lines += (l.groups + l.superblock_groups - 1) / l.superblock_groups;
  }
  l.panel_bytes = l.head_bytes + lines * ELQ_LINE_BYTES;
  l.panels_bytes = l.padded_rows / ELQ_PANEL_ROWS * l.panel_bytes;
  l.kept_index_bytes = round_up(std::uint64_t{2} * r.n_kept, 64);
  l.kept_scale_bytes = round_up(std::uint64_t{4} * r.n_kept, 64);
  l.kept_value_bytes = round_up(r.n_kept * l.padded_rows, 64);
  l.total_bytes = l.panels_bytes + l.kept_index_bytes + l.kept_scale_bytes + l.kept_value_bytes;
  return l;
}

std::uint64_t PackedLayout::unit_offset(std::uint64_t unit) const {
  std::uint64_t lines = unit * bits;
  if (superblock_groups != 0) lines += unit / (superblock_groups * group_columns / 32);
  return head_bytes + lines * ELQ_LINE_BYTES;
}

std::uint64_t PackedLayout::scale_offset(std::uint64_t group) const {
  const std::uint64_t superblock = group / superblock_groups;
  const std::uint64_t per = superblock_groups * group_columns / 32;
  const std::uint64_t end = std::min((superblock + 1) * per, padded_cols / 32);
  return head_bytes + ELQ_LINE_BYTES * (end * bits + superblock) +
         group % superblock_groups * (ELQ_LINE_BYTES / superblock_groups);
}

}  // namespace elastiq::package
