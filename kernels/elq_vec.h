/*
 * The float helpers in 16-wide vectors: one text, included once by each ISA file, so that they
 * cannot drift apart. GCC and clang split the 64-byte vectors into what the target has.
 *
 * The including file defines
 *   ELQ_VEC            attributes of every function here: target(...)
 *   ELQ_VEC_HALF(p, out)  16 IEEE halves at p to the elq_v16 at out
 * Vectors never cross a call by value: their ABI depends on the target.
 */
#ifndef ELQ_VEC_H
#define ELQ_VEC_H

#include "kernels/elq_internal.h"
#include "kernels/elq_math.h"

typedef float elq_v16 __attribute__((vector_size(64)));
typedef int32_t elq_v16i __attribute__((vector_size(64)));
typedef float elq_v16_any __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint16_t elq_v16h_any __attribute__((vector_size(32), aligned(1), may_alias));

#define ELQ_VEC_INLINE ELQ_VEC __attribute__((always_inline)) static inline

ELQ_VEC_INLINE void vec_load(const void* p, elq_v16* out) {
  *out = *(const elq_v16_any*)p;
}

ELQ_VEC_INLINE void vec_store(float* p, const elq_v16* value) {
  *(elq_v16_any*)p = *value;
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
  elq_v16 sum = {0};
  elq_v16 left;
  elq_v16 right;
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    vec_load(a + i, &left);
    vec_load(b + i, &right);
    sum = sum + left * right;
  }
  if (i < n) {
    vec_load_part(a + i, n - i, &left);
    vec_load_part(b + i, n - i, &right);
    sum = sum + left * right;
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
    to = to + s * add;
    vec_store(y + i, &to);
  }
  for (; i < n; ++i) y[i] = y[i] + s * x[i];
}

/* ---------------------------------------------------------------- float matrices */

ELQ_VEC_INLINE void vec_load_weights(uint32_t layout, const uint8_t* p, elq_v16* out) {
  if (layout == ELQ_LAYOUT_F32) {
    vec_load(p, out);
  } else if (layout == ELQ_LAYOUT_F16) {
    ELQ_VEC_HALF(p, out);
  } else {
    *out = (elq_v16)(__builtin_convertvector(*(const elq_v16h_any*)p, elq_v16i) << 16);
  }
}

/* n_rows x n_tokens outputs, both constants: each loaded vector is used for all of the other side.
 */
ELQ_VEC_INLINE void vec_float_tile(uint32_t layout, const uint8_t* rows, uint32_t cols,
                                   const float* x, size_t x_stride, int n_rows, int n_tokens,
                                   float* y, size_t y_stride) {
  const size_t size = layout == ELQ_LAYOUT_F32 ? 4 : 2;
  elq_v16 sum[4][4];
  for (int r = 0; r < 4; ++r) {
    for (int t = 0; t < 4; ++t) sum[r][t] = (elq_v16){0};
  }
  for (uint32_t i = 0; i < cols; i += 16) {
    const uint32_t n = elq_min_u32(16, cols - i);
    elq_v16 w[4];
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
      for (int r = 0; r < n_rows; ++r) sum[r][t] = sum[r][t] + w[r] * in;
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
  for (; t + 4 <= n_tokens; t += 4) {
    vec_float_tile(layout, rows, cols, x + t * x_stride, x_stride, n_rows, 4, y + t * y_stride,
                   y_stride);
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
  for (; row + 4 <= last; row += 4) {
    vec_float_rows(layout, rows + row * row_bytes, cols, x, x_stride, 4, n_tokens, y + row,
                   y_stride);
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
    for (int i = 0; i < n; ++i) sum[i] = (elq_v16){0};
    for (uint32_t d = 0; d < head_dim; ++d) {
      elq_v16 key;
      vec_load(keys + ((size_t)b * head_dim + d) * ELQ_KEY_BLOCK, &key);
#pragma GCC unroll 4
      for (int i = 0; i < n; ++i) sum[i] = sum[i] + q[i][d] * key;
    }
#pragma GCC unroll 4
    for (int i = 0; i < n; ++i) {
      sum[i] = sum[i] * scale;
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
      for (int i = 0; i < n; ++i) sum[i] = sum[i] + p[(size_t)i * p_stride + j] * value;
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
ELQ_VEC_INLINE void vec_exp(elq_v16* value) {
  const elq_v16 lowest = (elq_v16){0} + ELQ_EXP_LOWEST;
  const elq_v16 highest = (elq_v16){0} + ELQ_EXP_HIGHEST;
  elq_v16 x = *value;
  elq_v16i mask = lowest > x;
  x = (elq_v16)((mask & (elq_v16i)lowest) | (~mask & (elq_v16i)x));
  mask = highest < x;
  x = (elq_v16)((mask & (elq_v16i)highest) | (~mask & (elq_v16i)x));
  const elq_v16 shifted = x * ELQ_EXP_LOG2E + ELQ_EXP_ROUND;
  const elq_v16 n = shifted - ELQ_EXP_ROUND;
  elq_v16 r = x - n * ELQ_EXP_LN2_HI;
  r = r - n * ELQ_EXP_LN2_LO;
  elq_v16 p = (elq_v16){0} + ELQ_EXP_P0;
  p = p * r + ELQ_EXP_P1;
  p = p * r + ELQ_EXP_P2;
  p = p * r + ELQ_EXP_P3;
  p = p * r + ELQ_EXP_P4;
  p = p * r + ELQ_EXP_P5;
  p = p * (r * r);
  p = p + r;
  p = p + 1.0f;
  const elq_v16i power = ((elq_v16i)shifted - (int32_t)ELQ_EXP_ROUND_BITS + 127) << 23;
  *value = p * (elq_v16)power;
}

/* The largest of n >= 1 values; any order gives the same one. */
ELQ_VEC_INLINE float vec_max(const float* s, uint32_t n) {
  elq_v16 most = (elq_v16){0} + s[0];
  uint32_t i = 0;
  for (; i + 16 <= n; i += 16) {
    elq_v16 value;
    vec_load(s + i, &value);
    const elq_v16i mask = value > most;
    most = (elq_v16)((mask & (elq_v16i)value) | (~mask & (elq_v16i)most));
  }
  float lane[16];
  vec_store(lane, &most);
  float top = lane[0];
  for (int l = 1; l < 16; ++l) top = lane[l] > top ? lane[l] : top;
  for (; i < n; ++i) top = s[i] > top ? s[i] : top;
  return top;
}

ELQ_VEC static float vec_exp_sum(float* s, uint32_t n) {
  const float top = vec_max(s, n);
  elq_v16 sum = {0};
  uint32_t i = 0;
  for (; i + 16 <= n; i += 16) {
    elq_v16 value;
    vec_load(s + i, &value);
    value = value - top;
    vec_exp(&value);
    vec_store(s + i, &value);
    sum = sum + value;
  }
  if (i < n) {
    float part[16] = {0};
    for (uint32_t l = 0; i + l < n; ++l) part[l] = s[i + l] = elq_expf(s[i + l] - top);
    elq_v16 value;
    vec_load(part, &value);
    sum = sum + value;
  }
  return vec_sum(&sum);
}

ELQ_VEC static void vec_silu_mul(float* gate, const float* up, uint32_t n) {
  uint32_t i = 0;
  for (; i + 16 <= n; i += 16) {
    elq_v16 g;
    elq_v16 u;
    vec_load(gate + i, &g);
    vec_load(up + i, &u);
    elq_v16 e = -g;
    vec_exp(&e);
    g = g / (1.0f + e) * u;
    vec_store(gate + i, &g);
  }
  for (; i < n; ++i) gate[i] = gate[i] / (1.0f + elq_expf(-gate[i])) * up[i];
}

static const elq_float_ops vec_floats = {vec_matmul_float, vec_scores, vec_mix, vec_exp_sum,
                                         vec_silu_mul};

#endif /* ELQ_VEC_H */
