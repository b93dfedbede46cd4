/*
 * The definition of every kernel in plain C: the formulas of elq_kernels.h and elq_internal.h, term
 * by term. The other implementations return these bits.
 */
#include "kernels/elq_internal.h"
#include "kernels/elq_math.h"

/* ---------------------------------------------------------------- packed matrices */

static inline void unpack_unit(const uint8_t* lines, uint32_t bits, uint8_t* cells) {
  for (uint32_t p = 0; p < 8; ++p) { /* cell p: columns 4p..4p+3 */
    const uint8_t* low = lines + ELQ_LINE_BYTES * (p / 4u);
    const uint8_t* high = lines + ELQ_LINE_BYTES * 2u;
    uint8_t* cell = cells + ELQ_LINE_BYTES * p;
    for (uint32_t i = 0; i < ELQ_LINE_BYTES; ++i) {
      switch (bits) {
        case 1:
          cell[i] = lines[i] >> p & 1u;
          break;
        case 2:
          cell[i] = low[i] >> (2u * (p % 4u)) & 3u;
          break;
        case 3:
          cell[i] = (uint8_t)((low[i] >> (2u * (p % 4u)) & 3u) | (high[i] >> p & 1u) << 2);
          break;
        case 4:
          cell[i] =
              (uint8_t)((uint32_t)lines[ELQ_LINE_BYTES * (p / 2u) + i] >> (4u * (p % 2u)) & 15u);
          break;
        default:
          cell[i] = lines[ELQ_LINE_BYTES * p + i] ^ 0x80u;
          break;
      }
    }
  }
}

static void ref_unpack(const elq_matrix* m, const uint8_t* panel, uint32_t first_unit,
                       uint32_t n_units, uint8_t* cells) {
  for (uint32_t u = 0; u < n_units; ++u, cells += 8u * ELQ_LINE_BYTES) {
    const uint8_t* lines = panel + elq_unit_offset(m, first_unit + u);
    switch (m->bits) { /* a constant width per call: the switch inside goes away */
      case 1:
        unpack_unit(lines, 1, cells);
        break;
      case 2:
        unpack_unit(lines, 2, cells);
        break;
      case 3:
        unpack_unit(lines, 3, cells);
        break;
      case 4:
        unpack_unit(lines, 4, cells);
        break;
      default:
        unpack_unit(lines, 8, cells);
        break;
    }
  }
}

static void sum_codes(const uint8_t* cells, const int8_t* a, uint32_t n_cols, int32_t* sums) {
  for (uint32_t c = 0; c < n_cols; c += ELQ_CELL_COLS) {
    const uint8_t* cell = cells + (size_t)c * ELQ_PANEL_ROWS;
    for (uint32_t r = 0; r < ELQ_PANEL_ROWS; ++r) {
      for (uint32_t j = 0; j < ELQ_CELL_COLS; ++j) sums[r] += (int32_t)cell[4 * r + j] * a[c + j];
    }
  }
}

/* One group's share of the row sums: u8 * D (wrapping, a false smax must not be undefined) or half
 * * D. */
static void add_group(const elq_matrix* m, const uint8_t* scales, const int32_t* code_sums,
                      int32_t activation_sum, elq_sums* sums) {
  for (uint32_t r = 0; r < ELQ_PANEL_ROWS; ++r) {
    const int32_t d = elq_level_sum(code_sums[r], m->z2, activation_sum);
    if (m->scale_mode == ELQ_SCALE_U8) {
      sums->i[r] = (int32_t)((uint32_t)sums->i[r] + (uint32_t)scales[r] * (uint32_t)d);
    } else {
      const float half_scale = elq_float_of_half(elq_load_u16(scales + 2u * r));
      sums->f[r] = sums->f[r] + half_scale * (float)d;
    }
  }
}

static void ref_tile(const elq_block* block, const elq_activations* tokens, uint32_t n,
                     elq_sums* sums) {
  const elq_matrix* m = block->m;
  for (uint32_t t = 0; t < n; ++t) {
    const int8_t* a = tokens[t].values + block->first_col;
    if (block->n_groups == 0) {
      sum_codes(block->cells, a, block->n_cols, sums[t].i);
      continue;
    }
    for (uint32_t g = 0; g < block->n_groups; ++g) {
      const uint32_t col = g * m->group;
      int32_t code_sums[ELQ_PANEL_ROWS] = {0};
      sum_codes(block->cells + (size_t)col * ELQ_PANEL_ROWS, a + col,
                elq_min_u32(m->group, block->n_cols - col), code_sums);
      const uint32_t group = block->first_group + g;
      add_group(m, block->scales[g], code_sums, tokens[t].sums[group], sums + t);
    }
  }
}

static void ref_finish(const elq_matrix* m, uint32_t panel, const elq_activations* token,
                       const elq_sums* sums, float* y) {
  const uint8_t* bytes = elq_panel(m, panel);
  elq_sums total = *sums;
  if (m->n_groups == 1 && m->scale_mode != ELQ_SCALE_ROW) {
    memset(&total, 0, sizeof total);
    add_group(m, bytes + elq_scale_offset(m, 0), sums->i, token->sums[0], &total);
  }
  for (uint32_t r = 0; r < ELQ_PANEL_ROWS; ++r) {
    if (m->scale_mode == ELQ_SCALE_ROW) {
      total.i[r] = elq_level_sum(sums->i[r], m->z2, token->sums[0]);
    }
    if (m->scale_mode == ELQ_SCALE_F16) {
      y[r] = total.f[r] * token->scale;
    } else {
      y[r] = (float)total.i[r] * (elq_load_f32(bytes + 4u * r) * token->scale);
    }
    for (uint32_t k = 0; k < m->n_kept; ++k) {
      const int8_t value = m->kept_value[(size_t)k * m->padded_rows + panel * ELQ_PANEL_ROWS + r];
      y[r] = y[r] + token->kept[k] * (m->kept_scale[k] * (float)value);
    }
  }
}

static void ref_matmul(const elq_matrix* m, const elq_activations* tokens, uint32_t n_tokens,
                       uint32_t first_panel, uint32_t last_panel, float* y, size_t y_stride) {
  static const elq_panel_ops ops = {ref_unpack, ref_tile, NULL, ref_finish};
  elq_matmul_walk(&ops, m, tokens, n_tokens, first_panel, last_panel, y, y_stride);
}

/* ---------------------------------------------------------------- float helpers */

static float sum_lanes(float* lane) {
  for (uint32_t width = 8; width > 0; width /= 2) {
    for (uint32_t l = 0; l < width; ++l) lane[l] = lane[l] + lane[l + width];
  }
  return lane[0];
}

static float ref_dot_f32(const float* a, const float* b, size_t n) {
  float lane[16] = {0};
  for (size_t i = 0; i < n; ++i) lane[i % 16] = lane[i % 16] + a[i] * b[i];
  return sum_lanes(lane);
}

static void ref_axpy_f32(float s, const float* x, float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = y[i] + s * x[i];
}

static float load_element(uint32_t layout, const uint8_t* row, size_t i) {
  if (layout == ELQ_LAYOUT_F32) return elq_load_f32(row + 4 * i);
  const uint16_t half = elq_load_u16(row + 2 * i);
  return layout == ELQ_LAYOUT_F16 ? elq_float_of_half(half) : elq_float_of_bf16(half);
}

static void ref_matmul_float(uint32_t layout, const uint8_t* rows, uint32_t cols, uint32_t first,
                             uint32_t last, const float* x, size_t x_stride, uint32_t n_tokens,
                             float* y, size_t y_stride) {
  const size_t row_bytes = (size_t)cols * (layout == ELQ_LAYOUT_F32 ? 4 : 2);
  for (uint32_t row = first; row < last; ++row) {
    for (uint32_t t = 0; t < n_tokens; ++t) {
      float lane[16] = {0};
      for (uint32_t i = 0; i < cols; ++i) {
        const float w = load_element(layout, rows + row * row_bytes, i);
        lane[i % 16] = lane[i % 16] + w * x[t * x_stride + i];
      }
      y[t * y_stride + row] = sum_lanes(lane);
    }
  }
}

static void ref_scores(const float* const* q, uint32_t n_queries, const float* keys,
                       uint32_t n_blocks, uint32_t head_dim, float scale, float* out,
                       size_t out_stride) {
  for (uint32_t i = 0; i < n_queries; ++i) {
    for (uint32_t j = 0; j < n_blocks * ELQ_KEY_BLOCK; ++j) {
      const float* key = keys + (size_t)(j / ELQ_KEY_BLOCK) * head_dim * ELQ_KEY_BLOCK;
      float sum = 0.0f;
      for (uint32_t d = 0; d < head_dim; ++d) {
        sum = sum + q[i][d] * key[(size_t)d * ELQ_KEY_BLOCK + j % ELQ_KEY_BLOCK];
      }
      out[i * out_stride + j] = sum * scale;
    }
  }
}

static void ref_mix(const float* p, size_t p_stride, uint32_t n_queries, uint32_t first,
                    uint32_t last, const float* values, uint32_t width, float* out) {
  for (uint32_t i = 0; i < n_queries; ++i) {
    for (uint32_t j = first; j < last; ++j) {
      ref_axpy_f32(p[i * p_stride + j], values + (size_t)j * width, out + (size_t)i * width, width);
    }
  }
}

static float ref_exp_sum(float* s, uint32_t n) {
  float lane[16] = {0};
  float top = s[0];
  for (uint32_t i = 1; i < n; ++i) top = s[i] > top ? s[i] : top;
  for (uint32_t i = 0; i < n; ++i) {
    s[i] = elq_expf(s[i] - top);
    lane[i % 16] = lane[i % 16] + s[i];
  }
  return sum_lanes(lane);
}

static void ref_silu_mul(float* gate, const float* up, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    gate[i] = gate[i] / (1.0f + elq_expf(-gate[i])) * up[i];
  }
}

static int always(void) {
  return 1;
}

static const elq_float_ops ref_floats = {ref_matmul_float, ref_scores, ref_mix, ref_exp_sum,
                                         ref_silu_mul};

const elq_impl elq_impl_scalar = {"scalar",    always,       ref_matmul,
                                  ref_dot_f32, ref_axpy_f32, &ref_floats};
