#include <cmath>
#include <cstring>

#include "core/float_bits.h"
#include "formats/package_internal.h"

namespace elastiq::package {
namespace {

template <class T>
T load(std::span<const std::byte> bytes, std::uint64_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

/// Code of row r (0..15) and column c (0..31) in the code lines of 32 columns (SPEC-package.md,
/// section 7).
unsigned code_at(std::span<const std::byte> lines, std::uint64_t bits, unsigned r, unsigned c) {
  const unsigned cell = 4 * r + c % 4;
  auto byte = [&](unsigned line) {
    return std::to_integer<unsigned>(lines[line * ELQ_LINE_BYTES + cell]);
  };
  const unsigned low_two_bits = byte(c / 16 * (bits == 2 || bits == 3 ? 1 : 0)) >> (c % 16 / 4 * 2);
  switch (bits) {
    case 1:
      return byte(0) >> (c / 4) & 1;
    case 2:
      return low_two_bits & 3;
    case 3:
      return (low_two_bits & 3) | (byte(2) >> (c / 4) & 1) << 2;
    case 4:
      return byte(c / 8) >> (c % 8 / 4 * 4) & 15;
    default:
      return byte(c / 4) ^ 0x80;
  }
}

class PackedCheck {
 public:
  PackedCheck(const PackageTensor& tensor, std::span<const std::byte> bytes,
              const std::string& subject, std::uint64_t offset)
      : tensor_(tensor),
        r_(tensor.record),
        layout_(*packed_layout(tensor.record)),
        bytes_(bytes),
        subject_(subject),
        offset_(offset) {}

  Status run() {
    ELQ_CHECK(kept());
    mark_pad_columns();
    for (std::uint64_t panel = 0; panel < layout_.padded_rows / ELQ_PANEL_ROWS; ++panel) {
      const std::uint64_t at = panel * layout_.panel_bytes;
      const auto bytes = bytes_.subspan(at, layout_.panel_bytes);
      ELQ_CHECK(codes(panel, at, bytes));
      ELQ_CHECK(scales(panel, at, bytes));
    }
    return ok_status();
  }

 private:
  Error refuse(std::uint64_t at, const std::string& detail) const {
    return package::refuse(ErrorCode::kVerification, subject_, offset_ + at,
                           "tensor " + tensor_.name + ": " + detail);
  }

  void mark_pad_columns() {
    pad_column_.assign(layout_.padded_cols, false);
    for (std::uint64_t c = r_.cols; c < layout_.padded_cols; ++c) pad_column_[c] = true;
    for (std::uint32_t k = 0; k < r_.n_kept; ++k) {
      pad_column_[load<std::uint16_t>(bytes_, layout_.panels_bytes + 2 * k)] = true;
    }
  }

  Status codes(std::uint64_t panel, std::uint64_t at, std::span<const std::byte> bytes) const {
    const bool ternary = r_.bits == 2 && r_.z2 == 2;
    const std::uint64_t rows_left = r_.rows - panel * ELQ_PANEL_ROWS;
    const auto rows = static_cast<unsigned>(std::min<std::uint64_t>(ELQ_PANEL_ROWS, rows_left));
    for (std::uint64_t unit = 0; unit < layout_.padded_cols / 32; ++unit) {
      const std::uint64_t from = layout_.unit_offset(unit);
      const auto lines = bytes.subspan(from, layout_.bits * ELQ_LINE_BYTES);
      if (ternary && has_code_3(lines)) return refuse(at + from, "ternary code 3");
      for (unsigned c = 0; c < 32; ++c) {
        // Pad rows begin where the matrix ends; in a pad column every row is pad.
        for (unsigned r = pad_column_[32 * unit + c] ? 0 : rows; r < ELQ_PANEL_ROWS; ++r) {
          if (code_at(lines, layout_.bits, r, c) == 0) continue;
          return refuse(at + from, "a pad code or the code of a kept column is not 0");
        }
      }
    }
    return ok_status();
  }

  static bool has_code_3(std::span<const std::byte> lines) {
    std::byte any{0};
    for (const std::byte b : lines) any |= b & b >> 1 & std::byte{0x55};
    return any != std::byte{0};
  }

  Status scales(std::uint64_t panel, std::uint64_t at, std::span<const std::byte> bytes) const {
    for (unsigned r = 0; r < ELQ_PANEL_ROWS; ++r) {
      const bool pad = panel * ELQ_PANEL_ROWS + r >= r_.rows;
      if (layout_.head_bytes != 0) {
        const auto scale = load<float>(bytes, 4 * r);
        const bool good = pad ? load<std::uint32_t>(bytes, 4 * r) == 0 : std::isfinite(scale);
        if (!good) return refuse(at + 4 * r, "a row scale is not finite, or not 0 in a pad row");
      }
      if (layout_.superblock_groups != 0) ELQ_CHECK(group_scales(at, bytes, r, pad));
    }
    return ok_status();
  }

  // Groups past the last one fill up its scale line; their scales are pads.
  Status group_scales(std::uint64_t at, std::span<const std::byte> bytes, unsigned r,
                      bool pad_row) const {
    const std::uint64_t per = layout_.superblock_groups;
    const std::uint64_t lines_groups = (layout_.groups + per - 1) / per * per;
    for (std::uint64_t g = 0; g < lines_groups; ++g) {
      const std::uint64_t line = layout_.scale_offset(g / per * per);
      const std::uint64_t from =
          line + g % per * (ELQ_LINE_BYTES / per) + (r_.scale_mode == ELQ_SCALE_U8 ? r : 2 * r);
      const bool pad = pad_row || g >= layout_.groups;
      if (r_.scale_mode == ELQ_SCALE_U8) {
        const unsigned scale = std::to_integer<unsigned>(bytes[from]);
        if (scale > (pad ? 0 : r_.smax)) {
          return refuse(at + from, "a u8 scale is above smax, or not 0 in a pad");
        }
        continue;
      }
      const auto half = load<std::uint16_t>(bytes, from);
      const bool good = pad ? half == 0 : std::isfinite(f16_to_f32(half));
      if (!good) return refuse(at + from, "an f16 scale is not finite, or not 0 in a pad");
    }
    return ok_status();
  }

  Status kept() const {
    const std::uint64_t index = layout_.panels_bytes;
    const std::uint64_t scale = index + layout_.kept_index_bytes;
    const std::uint64_t value = scale + layout_.kept_scale_bytes;
    for (std::uint32_t k = 0; k < r_.n_kept; ++k) {
      const auto column = load<std::uint16_t>(bytes_, index + 2 * k);
      const bool ascending = k == 0 || load<std::uint16_t>(bytes_, index + 2 * (k - 1)) < column;
      if (column >= r_.cols || !ascending) {
        return refuse(index + 2 * k, "kept columns must be ascending and below cols");
      }
      if (!std::isfinite(load<float>(bytes_, scale + 4 * k))) {
        return refuse(scale + 4 * k, "the scale of a kept column is not finite");
      }
      const std::uint64_t pads = value + k * layout_.padded_rows + r_.rows;
      if (!all_zero(bytes_.subspan(pads, layout_.padded_rows - r_.rows))) {
        return refuse(pads, "values of kept columns must be 0 in pad rows");
      }
    }
    const std::uint64_t index_end = index + 2 * r_.n_kept;
    const std::uint64_t scale_end = scale + 4 * r_.n_kept;
    const std::uint64_t value_end = value + r_.n_kept * layout_.padded_rows;
    const bool clean = all_zero(bytes_.subspan(index_end, scale - index_end)) &&
                       all_zero(bytes_.subspan(scale_end, value - scale_end)) &&
                       all_zero(bytes_.subspan(value_end));
    if (clean) return ok_status();
    return refuse(index, "padding of kept columns must be zero");
  }

  const PackageTensor& tensor_;
  const elq_tensor_record& r_;
  PackedLayout layout_;
  std::span<const std::byte> bytes_;
  const std::string& subject_;
  std::uint64_t offset_;
  std::vector<bool> pad_column_;
};

/// The tensors of one WGT section and the zeros between them.
Status verify_weights(const std::vector<PackageTensor>& tensors, std::size_t section,
                      std::span<const std::byte> raw, const std::string& subject,
                      std::uint64_t offset) {
  for (const PackageTensor& t : tensors) {
    const elq_tensor_record& r = t.record;
    if (r.section != section || r.alias_of != 0) continue;
    const std::uint64_t end = r.offset + r.bytes;
    const std::uint64_t pad = std::min((64 - end % 64) % 64, raw.size() - end);
    if (!all_zero(raw.subspan(end, pad))) {
      return refuse(ErrorCode::kVerification, subject, offset + end,
                    "padding after tensor " + t.name + " must be zero");
    }
    if (r.layout != ELQ_LAYOUT_PACKED) continue;
    ELQ_CHECK(verify_packed(t, raw.subspan(r.offset, r.bytes), subject, offset + r.offset));
  }
  return ok_status();
}

}  // namespace

Status verify_packed(const PackageTensor& tensor, std::span<const std::byte> bytes,
                     const std::string& subject, std::uint64_t offset) {
  return PackedCheck(tensor, bytes, subject, offset).run();
}

Status verify_contents(const Container& c, const std::vector<PackageTensor>& tensors,
                       const std::string& subject) {
  for (std::size_t i = 0; i < c.toc.size(); ++i) {
    ELQ_TRY(raw, read_section(c, i, subject));
    if (c.toc[i].type != ELQ_SECTION_WGT) continue;
    ELQ_CHECK(verify_weights(tensors, i, raw.bytes, subject, c.toc[i].offset));
  }
  return ok_status();
}

}  // namespace elastiq::package
