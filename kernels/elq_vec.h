/*
 * The float helpers, 16 lanes at a time: one text, included once by each ISA file, so that they
 * cannot drift apart. 16 lanes are as many vectors as the target needs: vectors wider than its
 * registers would live in memory.
 *
 * The including file defines
 *   ELQ_VEC             attributes of every function here: target(...), or nothing
 *   ELQ_VEC_BYTES       of one register: 16, 32 or 64
 *   ELQ_VEC_HALF(p)     one register of IEEE halves at p as floats
 * Vectors never cross a call by value: their ABI depends on the target.
 */
#ifndef ELQ_VEC_H
#define ELQ_VEC_H

#include "kernels/elq_internal.h"
#include "kernels/elq_math.h"

enum {
  ELQ_VEC_LANES = ELQ_VEC_BYTES / 4,
  ELQ_VEC_PARTS = 64 / ELQ_VEC_BYTES,
  /* Rows and tokens of a tile of float sums, as many as the registers hold. */
  ELQ_VEC_TILE = ELQ_VEC_PARTS == 1 ? 4 : 2
};

typedef float elq_vn __attribute__((vector_size(ELQ_VEC_BYTES)));
typedef int32_t elq_vni __attribute__((vector_size(ELQ_VEC_BYTES)));
typedef float elq_vn_any __attribute__((vector_size(ELQ_VEC_BYTES), aligned(4), may_alias));
typedef uint16_t elq_vnh_any __attribute__((vector_size(ELQ_VEC_BYTES / 2), aligned(1), may_alias));

typedef struct elq_v16 {
  elq_vn part[ELQ_VEC_PARTS];
} elq_v16;

#define ELQ_VEC_INLINE ELQ_VEC __attribute__((always_inline)) static inline

ELQ_VEC_INLINE void vec_zero(elq_v16* out) {
#pragma GCC unroll 4
  for (int k = 0; k < ELQ_VEC_PARTS; ++k) out->part[k] = (elq_vn){0};
}

ELQ_VEC_INLINE void vec_load(const float* p, elq_v16* out) {
#pragma GCC unroll 4
  for (int k = 0; k < ELQ_VEC_PARTS; ++k) {
    out->part[k] = *(const elq_vn_any*)(p + k * ELQ_VEC_LANES);
  }
}

ELQ_VEC_INLINE void vec_store(float* p, const elq_v16* value) {
#pragma GCC unroll 4
  for (int k = 0; k < ELQ_VEC_PARTS; ++k) {
    *(elq_vn_any*)(p + k * ELQ_VEC_LANES) = value->part[k];
  }
}

/* sum += a * b, multiply then add. */
ELQ_VEC_INLINE void vec_add_product(elq_v16* sum, const elq_v16* a, const elq_v16* b) {
#pragma GCC unroll 4
  for (int k = 0; k < ELQ_VEC_PARTS; ++k) sum->part[k] = sum->part[k] + a->part[k] * b->part[k];
}

ELQ_VEC_INLINE void vec_add_scaled(elq_v16* sum, float s, const elq_v16* x) {
#pragma GCC unroll 4
  for (int k = 0; k < ELQ_VEC_PARTS; ++k) sum->part[k] = sum->part[k] + s * x->part[k];
}

/* The first n < 16 floats, the rest 0: adding 0 to a lane that started at +0 changes no bit. */
ELQ_VEC_INLINE void vec_load_part(const float* p, size_t n, elq_v16* out) {
  float part[16] = {0};
  memcpy(part, p, n * sizeof(float));
  vec_load(part, out);
}

ELQ_VEC_INLINE float vec_sum(const elq_v16* value) {
  float lane[16];
  vec_store(lane, value);
  for (int l = 0; l < 8; ++l) lane[l] = lane[l] + lane[l + 8];
  for (int l = 0; l < 4; ++l) lane[l] = lane[l] + lane[l + 4];
  lane[0] = lane[0] + lane[2];
  lane[1] = lane[1] + lane[3];
  return lane[0] + lane[1];
}

ELQ_VEC static float vec_dot_f32(const float* a, const float* b, size_t n) {
  elq_v16 sum;
  elq_v16 left;
  elq_v16 right;
  size_t i = 0;
  vec_zero(&sum);
  for (; i + 16 <= n; i += 16) {
    vec_load(a + i, &left);
    vec_load(b + i, &right);
    vec_add_product(&sum, &left, &right);
  }
  if (i < n) {
    vec_load_part(a + i, n - i, &left);
    vec_load_part(b + i, n - i, &right);
    vec_add_product(&sum, &left, &right);
  }
  return vec_sum(&sum);
}

ELQ_VEC static void vec_axpy_f32(float s, const float* x, float* y, size_t n) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    elq_v16 add;
    elq_v16 to;
    vec_load(x + i, &add);
    vec_load(y + i, &to);
    vec_add_scaled(&to, s, &add);
    vec_store(y + i, &to);
  }
  for (; i < n; ++i) y[i] = y[i] + s * x[i];
}

/* ---------------------------------------------------------------- float matrices */

ELQ_VEC_INLINE void vec_load_weights(uint32_t layout, const uint8_t* p, elq_v16* out) {
#pragma GCC unroll 4
  for (int k = 0; k < ELQ_VEC_PARTS; ++k) {
    const uint8_t* half = p + k * ELQ_VEC_BYTES / 2;
    if (layout == ELQ_LAYOUT_F32) {
      out->part[k] = *(const elq_vn_any*)(const void*)(p + k * ELQ_VEC_BYTES);
    } else if (layout == ELQ_LAYOUT_F16) {
      out->part[k] = ELQ_VEC_HALF(half);
    } else {
      const elq_vnh_any bf16 = *(const elq_vnh_any*)(const void*)half;
      out->part[k] = (elq_vn)(__builtin_convertvector(bf16, elq_vni) << 16);
    }
  }
}

/* n_rows x n_tokens outputs, both constants: each loaded vector is used for all of the other side.
 */
ELQ_VEC_INLINE void vec_float_tile(uint32_t layout, const uint8_t* rows, uint32_t cols,
                                   const float* x, size_t x_stride, int n_rows, int n_tokens,
                                   float* y, size_t y_stride) {
  const size_t size = layout == ELQ_LAYOUT_F32 ? 4 : 2;
  elq_v16 sum[ELQ_VEC_TILE][ELQ_VEC_TILE];
#pragma GCC unroll 4
  for (int r = 0; r < n_rows; ++r) {
#pragma GCC unroll 4
    for (int t = 0; t < n_tokens; ++t) vec_zero(&sum[r][t]);
  }
  for (uint32_t i = 0; i < cols; i += 16) {
    const uint32_t n = elq_min_u32(16, cols - i);
    elq_v16 w[ELQ_VEC_TILE];
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; ++r) {
      const uint8_t* from = rows + ((size_t)r * cols + i) * size;
      uint8_t part[64] = {0};
      if (n < 16) from = (const uint8_t*)memcpy(part, from, n * size);
      vec_load_weights(layout, from, &w[r]);
    }
#pragma GCC unroll 4
    for (int t = 0; t < n_tokens; ++t) {
      elq_v16 in;
      if (n < 16) {
        vec_load_part(x + (size_t)t * x_stride + i, n, &in);
      } else {
        vec_load(x + (size_t)t * x_stride + i, &in);
      }
#pragma GCC unroll 4
      for (int r = 0; r < n_rows; ++r) vec_add_product(&sum[r][t], &w[r], &in);
    }
  }
#pragma GCC unroll 4
  for (int t = 0; t < n_tokens; ++t) {
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; ++r) y[(size_t)t * y_stride + (size_t)r] = vec_sum(&sum[r][t]);
  }
}

ELQ_VEC_INLINE void vec_float_rows(uint32_t layout, const uint8_t* rows, uint32_t cols,
                                   const float* x, size_t x_stride, int n_rows, uint32_t n_tokens,
                                   float* y, size_t y_stride) {
  uint32_t t = 0;
  for (; t + ELQ_VEC_TILE <= n_tokens; t += ELQ_VEC_TILE) {
    vec_float_tile(layout, rows, cols, x + t * x_stride, x_stride, n_rows, ELQ_VEC_TILE,
                   y + t * y_stride, y_stride);
  }
  for (; t < n_tokens; ++t) {
    vec_float_tile(layout, rows, cols, x + t * x_stride, x_stride, n_rows, 1, y + t * y_stride,
                   y_stride);
  }
}

ELQ_VEC_INLINE void vec_float_layout(uint32_t layout, const uint8_t* rows, uint32_t cols,
                                     uint32_t first, uint32_t last, const float* x, size_t x_stride,
                                     uint32_t n_tokens, float* y, size_t y_stride) {
  const size_t row_bytes = (size_t)cols * (layout == ELQ_LAYOUT_F32 ? 4 : 2);
  uint32_t row = first;
  for (; row + ELQ_VEC_TILE <= last; row += ELQ_VEC_TILE) {
    vec_float_rows(layout, rows + row * row_bytes, cols, x, x_stride, ELQ_VEC_TILE, n_tokens,
                   y + row, y_stride);
  }
  for (; row < last; ++row) {
    vec_float_rows(layout, rows + row * row_bytes, cols, x, x_stride, 1, n_tokens, y + row,
                   y_stride);
  }
}

ELQ_VEC static void vec_matmul_float(uint32_t layout, const uint8_t* rows, uint32_t cols,
                                     uint32_t first, uint32_t last, const float* x, size_t x_stride,
                                     uint32_t n_tokens, float* y, size_t y_stride) {
  if (layout == ELQ_LAYOUT_F32) {
    vec_float_layout(ELQ_LAYOUT_F32, rows, cols, first, last, x, x_stride, n_tokens, y, y_stride);
  } else if (layout == ELQ_LAYOUT_F16) {
    vec_float_layout(ELQ_LAYOUT_F16, rows, cols, first, last, x, x_stride, n_tokens, y, y_stride);
  } else {
    vec_float_layout(ELQ_LAYOUT_BF16, rows, cols, first, last, x, x_stride, n_tokens, y, y_stride);
  }
}

/* ---------------------------------------------------------------- attention */

ELQ_VEC_INLINE void vec_scores_n(const float* const* q, int n, const float* keys, uint32_t n_blocks,
                                 uint32_t head_dim, float scale, float* out, size_t out_stride) {
  for (uint32_t b = 0; b < n_blocks; ++b) {
    elq_v16 sum[ELQ_ATTEND_QUERIES];
#pragma GCC unroll 4
    for (int i = 0; i < n; ++i) vec_zero(&sum[i]);
    for (uint32_t d = 0; d < head_dim; ++d) {
      elq_v16 key;
      vec_load(keys + ((size_t)b * head_dim + d) * ELQ_KEY_BLOCK, &key);
#pragma GCC unroll 4
      for (int i = 0; i < n; ++i) vec_add_scaled(&sum[i], q[i][d], &key);
    }
#pragma GCC unroll 4
    for (int i = 0; i < n; ++i) {
#pragma GCC unroll 4
      for (int k = 0; k < ELQ_VEC_PARTS; ++k) sum[i].part[k] = sum[i].part[k] * scale;
      vec_store(out + (size_t)i * out_stride + (size_t)b * ELQ_KEY_BLOCK, &sum[i]);
    }
  }
}

ELQ_VEC static void vec_scores(const float* const* q, uint32_t n_queries, const float* keys,
                               uint32_t n_blocks, uint32_t head_dim, float scale, float* out,
                               size_t out_stride) {
  switch (n_queries) {
    case 4:
      vec_scores_n(q, 4, keys, n_blocks, head_dim, scale, out, out_stride);
      break;
    case 3:
      vec_scores_n(q, 3, keys, n_blocks, head_dim, scale, out, out_stride);
      break;
    case 2:
      vec_scores_n(q, 2, keys, n_blocks, head_dim, scale, out, out_stride);
      break;
    default:
      vec_scores_n(q, 1, keys, n_blocks, head_dim, scale, out, out_stride);
      break;
  }
}

ELQ_VEC_INLINE void vec_mix_n(const float* p, size_t p_stride, int n, uint32_t first, uint32_t last,
                              const float* values, uint32_t width, float* out) {
  for (uint32_t d = 0; d < width; d += 16) {
    elq_v16 sum[ELQ_ATTEND_QUERIES];
#pragma GCC unroll 4
    for (int i = 0; i < n; ++i) vec_load(out + (size_t)i * width + d, &sum[i]);
    for (uint32_t j = first; j < last; ++j) {
      elq_v16 value;
      vec_load(values + (size_t)j * width + d, &value);
#pragma GCC unroll 4
      for (int i = 0; i < n; ++i) vec_add_scaled(&sum[i], p[(size_t)i * p_stride + j], &value);
    }
#pragma GCC unroll 4
    for (int i = 0; i < n; ++i) vec_store(out + (size_t)i * width + d, &sum[i]);
  }
}

ELQ_VEC static void vec_mix(const float* p, size_t p_stride, uint32_t n_queries, uint32_t first,
                            uint32_t last, const float* values, uint32_t width, float* out) {
  switch (n_queries) {
    case 4:
      vec_mix_n(p, p_stride, 4, first, last, values, width, out);
      break;
    case 3:
      vec_mix_n(p, p_stride, 3, first, last, values, width, out);
      break;
    case 2:
      vec_mix_n(p, p_stride, 2, first, last, values, width, out);
      break;
    default:
      vec_mix_n(p, p_stride, 1, first, last, values, width, out);
      break;
  }
}

/* elq_expf, lane by lane. A comparison of vectors gives -1 or 0, the mask of the select. */
ELQ_VEC_INLINE void vec_exp(elq_vn* value) {
  const elq_vn lowest = (elq_vn){0} + ELQ_EXP_LOWEST;
  const elq_vn highest = (elq_vn){0} + ELQ_EXP_HIGHEST;
  elq_vn x = *value;
  elq_vni mask = lowest > x;
  x = (elq_vn)((mask & (elq_vni)lowest) | (~mask & (elq_vni)x));
  mask = highest < x;
  x = (elq_vn)((mask & (elq_vni)highest) | (~mask & (elq_vni)x));
  const elq_vn shifted = x * ELQ_EXP_LOG2E + ELQ_EXP_ROUND;
  const elq_vn n = shifted - ELQ_EXP_ROUND;
  elq_vn r = x - n * ELQ_EXP_LN2_HI;
  r = r - n * ELQ_EXP_LN2_LO;
  elq_vn p = (elq_vn){0} + ELQ_EXP_P0;
  p = p * r + ELQ_EXP_P1;
  p = p * r + ELQ_EXP_P2;
  p = p * r + ELQ_EXP_P3;
  p = p * r + ELQ_EXP_P4;
  p = p * r + ELQ_EXP_P5;
  p = p * (r * r);
  p = p + r;
  p = p + 1.0f;
  const elq_vni power = ((elq_vni)shifted - (int32_t)ELQ_EXP_ROUND_BITS + 127) << 23;
  *value = p * (elq_vn)power;
}

/* The largest of n >= 1 values; any order gives the same one. */
ELQ_VEC_INLINE float vec_max(const float* s, uint32_t n) {
  elq_vn most = (elq_vn){0} + s[0];
  uint32_t i = 0;
  for (; i + ELQ_VEC_LANES <= n; i += ELQ_VEC_LANES) {
    const elq_vn value = *(const elq_vn_any*)(s + i);
    const elq_vni mask = value > most;
    most = (elq_vn)((mask & (elq_vni)value) | (~mask & (elq_vni)most));
  }
  float lane[ELQ_VEC_LANES];
  *(elq_vn_any*)lane = most;
  float top = lane[0];
  for (int l = 1; l < ELQ_VEC_LANES; ++l) top = lane[l] > top ? lane[l] : top;
  for (; i < n; ++i) top = s[i] > top ? s[i] : top;
  return top;
}

ELQ_VEC static float vec_exp_sum(float* s, uint32_t n) {
  const float top = vec_max(s, n);
  elq_v16 sum;
  uint32_t i = 0;
  vec_zero(&sum);
  for (; i + 16 <= n; i += 16) {
#pragma GCC unroll 4
    for (int k = 0; k < ELQ_VEC_PARTS; ++k) {
      elq_vn_any* at = (elq_vn_any*)(s + i + k * ELQ_VEC_LANES);
      elq_vn value = *at - top;
      vec_exp(&value);
      *at = value;
      sum.part[k] = sum.part[k] + value;
    }
  }
  if (i < n) {
    float part[16] = {0};
    for (uint32_t l = 0; i + l < n; ++l) part[l] = s[i + l] = elq_expf(s[i + l] - top);
    elq_v16 value;
    vec_load(part, &value);
#pragma GCC unroll 4
    for (int k = 0; k < ELQ_VEC_PARTS; ++k) sum.part[k] = sum.part[k] + value.part[k];
  }
  return vec_sum(&sum);
}

ELQ_VEC static void vec_silu_mul(float* gate, const float* up, uint32_t n) {
  uint32_t i = 0;
  for (; i + ELQ_VEC_LANES <= n; i += ELQ_VEC_LANES) {
    elq_vn g = *(const elq_vn_any*)(gate + i);
    const elq_vn u = *(const elq_vn_any*)(up + i);
    elq_vn e = -g;
    vec_exp(&e);
    g = g / (1.0f + e) * u;
    *(elq_vn_any*)(gate + i) = g;
  }
  for (; i < n; ++i) gate[i] = gate[i] / (1.0f + elq_expf(-gate[i])) * up[i];
}

static const elq_float_ops vec_floats = {vec_matmul_float, vec_scores, vec_mix, vec_exp_sum,
                                         vec_silu_mul};

#endif /* ELQ_VEC_H */
