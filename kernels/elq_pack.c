/* Sizes, packing and unpacking of one matrix: the layout of elq_layout.h, byte by byte. */
#include "kernels/elq_internal.h"

static int bits_are_known(uint32_t bits) {
  return bits == 1 || bits == 2 || bits == 3 || bits == 4 || bits == 8;
}

static int group_is_known(uint32_t group) {
  return group == 0 || group == 32 || group == 64 || group == 128 || group == 256;
}

static uint64_t round_up(uint64_t value, uint64_t step) {
  return (value + step - 1) / step * step;
}

/* Sums of one group must be exact in int32 whatever the activations; scales are bounded by smax. */
static int sums_fit(const elq_matrix* m) {
  const uint64_t top = 2u * ((1u << m->bits) - 1u);
  const uint64_t largest_level = top - m->z2 > m->z2 ? top - m->z2 : m->z2;
  const uint64_t cols = m->scale_mode == ELQ_SCALE_F16 ? m->group : m->padded_cols;
  return largest_level * 127u * cols <= ELQ_MAX_ROW_SUM;
}

int elq_matrix_init(elq_matrix* m, uint32_t rows, uint32_t cols, uint32_t bits, uint32_t scale_mode,
                    uint32_t z2, uint32_t group, uint32_t n_kept) {
  memset(m, 0, sizeof *m);
  if (!bits_are_known(bits) || !group_is_known(group)) return -1;
  if (scale_mode < ELQ_SCALE_ROW || scale_mode > ELQ_SCALE_F16) return -1;
  if (scale_mode == ELQ_SCALE_ROW && group != 0) return -1;
  if (z2 > 1u << bits) return -1;
  if (rows == 0 || cols == 0 || rows > ELQ_MAX_DIM || cols > ELQ_MAX_DIM) return -1;
  if ((uint64_t)rows * cols > ELQ_MAX_ELEMENTS) return -1;
  if (n_kept > ELQ_MAX_KEPT_COLUMNS || n_kept > cols) return -1;
  m->rows = rows;
  m->cols = cols;
  m->padded_rows = (uint32_t)round_up(rows, ELQ_PANEL_ROWS);
  m->padded_cols = (uint32_t)round_up(cols, ELQ_COLUMN_PAD);
  m->bits = (uint8_t)bits;
  m->scale_mode = (uint8_t)scale_mode;
  m->z2 = (uint16_t)z2;
  m->group = group == 0 ? m->padded_cols : group;
  m->n_groups = (uint32_t)(round_up(m->padded_cols, m->group) / m->group);
  m->n_kept = n_kept;
  if (!sums_fit(m)) return -1;
  uint64_t lines = (uint64_t)(m->padded_cols / 32u) * bits;
  if (scale_mode != ELQ_SCALE_F16) lines += 1;
  if (scale_mode != ELQ_SCALE_ROW) {
    const uint32_t per = elq_superblock_groups(m);
    lines += (m->n_groups + per - 1u) / per;
  }
  m->panel_bytes = lines * ELQ_LINE_BYTES;
  return 0;
}

uint64_t elq_matrix_panel_bytes(const elq_matrix* m) {
  return (uint64_t)(m->padded_rows / ELQ_PANEL_ROWS) * m->panel_bytes;
}

uint64_t elq_matrix_kept_offset(const elq_matrix* m) {
  return m->n_kept == 0 ? 0 : elq_matrix_panel_bytes(m);
}

static uint64_t kept_index_bytes(const elq_matrix* m) {
  return round_up(2u * m->n_kept, 64);
}

static uint64_t kept_scale_bytes(const elq_matrix* m) {
  return round_up(4u * m->n_kept, 64);
}

uint64_t elq_matrix_bytes(const elq_matrix* m) {
  return elq_matrix_panel_bytes(m) + kept_index_bytes(m) + kept_scale_bytes(m) +
         round_up((uint64_t)m->n_kept * m->padded_rows, 64);
}

void elq_matrix_bind(elq_matrix* m, const uint8_t* bytes) {
  m->panels = bytes;
  if (m->n_kept == 0) return;
  const uint8_t* kept = bytes + elq_matrix_panel_bytes(m);
  m->kept_index = (const uint16_t*)(const void*)kept;
  m->kept_scale = (const float*)(const void*)(kept + kept_index_bytes(m));
  m->kept_value = (const int8_t*)(kept + kept_index_bytes(m) + kept_scale_bytes(m));
}

/* ---------------------------------------------------------------- packing */

static void pack_code(uint8_t* lines, uint32_t bits, uint32_t r, uint32_t c, uint32_t code) {
  uint8_t* cell = lines + 4u * r + c % 4u;
  const uint32_t low_shift = 2u * (c % 16u / 4u);
  switch (bits) {
    case 1:
      cell[0] |= (uint8_t)((code & 1u) << (c / 4u));
      break;
    case 2:
      cell[ELQ_LINE_BYTES * (c / 16u)] |= (uint8_t)((code & 3u) << low_shift);
      break;
    case 3:
      cell[ELQ_LINE_BYTES * (c / 16u)] |= (uint8_t)((code & 3u) << low_shift);
      cell[ELQ_LINE_BYTES * 2u] |= (uint8_t)((code >> 2 & 1u) << (c / 4u));
      break;
    case 4:
      cell[ELQ_LINE_BYTES * (c / 8u)] |= (uint8_t)((code & 15u) << (4u * (c % 8u / 4u)));
      break;
    default:
      cell[ELQ_LINE_BYTES * (c / 4u)] = (uint8_t)(code ^ 0x80u);
      break;
  }
}

static int is_kept(const elq_matrix* m, const elq_pack_source* source, uint32_t col) {
  for (uint32_t k = 0; k < m->n_kept; ++k) {
    if (source->kept_index[k] == col) return 1;
  }
  return 0;
}

static void pack_unit(const elq_matrix* m, const elq_pack_source* source, uint32_t panel,
                      uint32_t unit, uint8_t* lines) {
  /* Code 0 is byte 0x80 at 8 bits, in pad rows and pad columns too. */
  memset(lines, m->bits == 8 ? 0x80 : 0, (size_t)m->bits * ELQ_LINE_BYTES);
  for (uint32_t c = 0; c < 32; ++c) {
    const uint32_t col = 32 * unit + c;
    if (col >= m->cols || is_kept(m, source, col)) continue;
    for (uint32_t r = 0; r < ELQ_PANEL_ROWS; ++r) {
      const uint32_t row = panel * ELQ_PANEL_ROWS + r;
      if (row >= m->rows) break;
      pack_code(lines, m->bits, r, c, source->codes[(size_t)row * m->cols + col]);
    }
  }
}

static void pack_scales(const elq_matrix* m, const elq_pack_source* source, uint32_t panel,
                        uint8_t* out) {
  for (uint32_t r = 0; r < ELQ_PANEL_ROWS; ++r) {
    const size_t row = (size_t)panel * ELQ_PANEL_ROWS + r;
    if (row >= m->rows) break;
    if (m->scale_mode != ELQ_SCALE_F16) memcpy(out + 4u * r, source->row_scales + row, 4);
    if (m->scale_mode == ELQ_SCALE_ROW) continue;
    for (uint32_t g = 0; g < m->n_groups; ++g) {
      uint8_t* scales = out + elq_scale_offset(m, g);
      if (m->scale_mode == ELQ_SCALE_U8) {
        scales[r] = source->u8_scales[row * m->n_groups + g];
      } else {
        memcpy(scales + 2u * r, source->f16_scales + row * m->n_groups + g, 2);
      }
    }
  }
}

static void pack_kept(const elq_matrix* m, const elq_pack_source* source, uint8_t* out) {
  uint8_t* values = out + kept_index_bytes(m) + kept_scale_bytes(m);
  memcpy(out, source->kept_index, 2u * m->n_kept);
  memcpy(out + kept_index_bytes(m), source->kept_scale, 4u * m->n_kept);
  for (uint32_t k = 0; k < m->n_kept; ++k) {
    memcpy(values + (size_t)k * m->padded_rows, source->kept_value + (size_t)k * m->rows, m->rows);
  }
}

void elq_pack(const elq_matrix* m, const elq_pack_source* source, uint8_t* out) {
  memset(out, 0, (size_t)elq_matrix_bytes(m));
  for (uint32_t panel = 0; panel < m->padded_rows / ELQ_PANEL_ROWS; ++panel) {
    uint8_t* bytes = out + (uint64_t)panel * m->panel_bytes;
    for (uint32_t unit = 0; unit < m->padded_cols / 32u; ++unit) {
      pack_unit(m, source, panel, unit, bytes + elq_unit_offset(m, unit));
    }
    pack_scales(m, source, panel, bytes);
  }
  if (m->n_kept != 0) pack_kept(m, source, out + elq_matrix_panel_bytes(m));
}

/* ---------------------------------------------------------------- unpacking */

void elq_unpack_codes(const elq_matrix* m, uint32_t row, uint8_t* codes) {
  const uint8_t* panel = elq_panel(m, row / ELQ_PANEL_ROWS);
  for (uint32_t col = 0; col < m->cols; ++col) {
    const uint8_t* lines = panel + elq_unit_offset(m, col / 32u);
    codes[col] = elq_code_in_unit(lines, m->bits, row % ELQ_PANEL_ROWS, col % 32u);
  }
}

/* One group of one row: float(multiplier * level) * scale, the product inside being an exact
 * integer. */
static void dequantize_group(const elq_matrix* m, const uint8_t* panel, uint32_t r, uint32_t group,
                             float* out) {
  float scale = 0.0f;
  int32_t multiplier = 1;
  if (m->scale_mode == ELQ_SCALE_F16) {
    scale = elq_float_of_half(elq_load_u16(panel + elq_scale_offset(m, group) + 2u * r));
  } else {
    scale = elq_load_f32(panel + 4u * r);
    if (m->scale_mode == ELQ_SCALE_U8) multiplier = panel[elq_scale_offset(m, group) + r];
  }
  const uint64_t first = (uint64_t)group * m->group;
  const uint64_t last = first + m->group < m->cols ? first + m->group : m->cols;
  for (uint64_t col = first; col < last; ++col) {
    const uint8_t* lines = panel + elq_unit_offset(m, (uint32_t)(col / 32u));
    const int32_t code = elq_code_in_unit(lines, m->bits, r, (uint32_t)(col % 32u));
    out[col] = scale * (float)(multiplier * (2 * code - (int32_t)m->z2));
  }
}

void elq_dequantize_row(const elq_matrix* m, uint32_t row, float* out) {
  const uint8_t* panel = elq_panel(m, row / ELQ_PANEL_ROWS);
  for (uint32_t g = 0; g < m->n_groups; ++g) {
    dequantize_group(m, panel, row % ELQ_PANEL_ROWS, g, out);
  }
  for (uint32_t k = 0; k < m->n_kept; ++k) {
    const int8_t value = m->kept_value[(size_t)k * m->padded_rows + row];
    out[m->kept_index[k]] = m->kept_scale[k] * (float)value;
  }
}
