/*
 * AVX2 with F16C: half a line (8 rows) per register.
 *
 * vpmaddubsw adds pairs into int16 and saturates, so codes are shifted down to bit 0 first, at most
 * 32 columns (8 results, each <= 2 * 15 * 127 = 3810) are added before widening, and 8-bit codes
 * are split at bit 7: 2 * 127 * 127 = 32258 still fits.
 */
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#include "kernels/elq_internal.h"

#define ELQ_VEC __attribute__((target("avx2,f16c")))
#define ELQ_VEC_HALF(p, out)                                                                     \
  do {                                                                                           \
    const __m256 half0 = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(const void*)(p)));     \
    const __m256 half1 = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(const void*)(p) + 1)); \
    memcpy((out), &half0, 32);                                                                   \
    memcpy((char*)(out) + 32, &half1, 32);                                                       \
  } while (0)
#include "kernels/elq_vec.h"

#define ELQ_INLINE ELQ_VEC __attribute__((always_inline)) static inline

enum { ELQ_PREFETCH_BYTES = 8192, ELQ_AVX2_TOKENS = 4 };

ELQ_INLINE __m256i load_half(const uint8_t* p) {
  return _mm256_load_si256((const __m256i*)(const void*)p);
}

ELQ_INLINE __m256i spread(const int8_t* a) {
  return _mm256_set1_epi32(elq_load_i32(a));
}

ELQ_INLINE __m256i shifted(__m256i codes, int shift, int mask) {
  return _mm256_and_si256(_mm256_srli_epi16(codes, shift), _mm256_set1_epi8((char)mask));
}

ELQ_INLINE __m256i add_pairs(__m256i sum, __m256i codes, const int8_t* a) {
  return _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, spread(a)));
}

ELQ_INLINE __m256i widen(__m256i pairs) {
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

/* ---------------------------------------------------------------- 2 and 4 bits from packed lines
 */

/* Sums of one unit (32 columns) for 8 rows, in int16 pairs: 2 bits. */
ELQ_INLINE __m256i unit_2(const uint8_t* line, const int8_t* a) {
  __m256i sum = _mm256_setzero_si256();
#pragma GCC unroll 2
  for (int v = 0; v < 2; ++v) {
    const __m256i codes = load_half(line + 64 * v);
    sum = add_pairs(sum, shifted(codes, 0, 3), a + 16 * v);
    sum = add_pairs(sum, shifted(codes, 2, 3), a + 16 * v + 4);
    sum = add_pairs(sum, shifted(codes, 4, 3), a + 16 * v + 8);
    sum = add_pairs(sum, shifted(codes, 6, 3), a + 16 * v + 12);
  }
  return sum;
}

ELQ_INLINE __m256i unit_4(const uint8_t* line, const int8_t* a) {
  __m256i sum = _mm256_setzero_si256();
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    const __m256i codes = load_half(line + 64 * v);
    sum = add_pairs(sum, shifted(codes, 0, 15), a + 8 * v);
    sum = add_pairs(sum, shifted(codes, 4, 15), a + 8 * v + 4);
  }
  return sum;
}

ELQ_INLINE void direct_sum(uint32_t bits, const uint8_t* line, const int8_t* a, uint32_t units,
                           __m256i p[2]) {
  for (uint32_t u = 0; u < units; ++u, line += 64u * bits, a += 32) {
    for (uint32_t i = 0; i < bits; ++i) {
      _mm_prefetch((const char*)((uintptr_t)line + ELQ_PREFETCH_BYTES + 64u * i), _MM_HINT_T0);
    }
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const __m256i pairs = bits == 2 ? unit_2(line + 32 * h, a) : unit_4(line + 32 * h, a);
      p[h] = _mm256_add_epi32(p[h], widen(pairs));
    }
  }
}

/* ---------------------------------------------------------------- scales */

ELQ_INLINE __m256i level_sum(__m256i code_sum, uint32_t z2, int32_t activation_sum) {
  const __m256i offset = _mm256_set1_epi32((int32_t)(z2 * (uint32_t)activation_sum));
  return _mm256_sub_epi32(_mm256_slli_epi32(code_sum, 1), offset);
}

/* scales: the 16 scales of the group; h: which 8 rows. */
ELQ_INLINE __m256i add_scaled(uint32_t mode, __m256i sum, __m256i d, const uint8_t* scales, int h) {
  if (mode == ELQ_SCALE_U8) {
    const __m128i u8 = _mm_loadl_epi64((const __m128i*)(const void*)(scales + 8 * h));
    return _mm256_add_epi32(sum, _mm256_mullo_epi32(_mm256_cvtepu8_epi32(u8), d));
  }
  const __m128i half = _mm_loadu_si128((const __m128i*)(const void*)(scales + 16 * h));
  const __m256 product = _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_cvtepi32_ps(d));
  return _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(sum), product));
}

ELQ_INLINE void direct_groups(uint32_t bits, const elq_matrix* m, const uint8_t* line,
                              const elq_activations* token, __m256i sum[2]) {
  const uint32_t per = elq_superblock_groups(m);
  const uint32_t scale_bytes = m->scale_mode == ELQ_SCALE_U8 ? 16u : 32u;
  uint32_t left = m->padded_cols / 32u;
  const int8_t* a = token->values;
  for (uint32_t g = 0; g < m->n_groups; g += per) {
    const uint32_t in_block = elq_min_u32(left, per * (m->group / 32u));
    const uint8_t* scales = line + (size_t)in_block * bits * 64u;
    for (uint32_t i = 0; i < elq_min_u32(per, m->n_groups - g); ++i) {
      const uint32_t units = elq_min_u32(left, m->group / 32u);
      __m256i p[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
      direct_sum(bits, line, a, units, p);
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        const __m256i d = level_sum(p[h], m->z2, token->sums[g + i]);
        sum[h] = add_scaled(m->scale_mode, sum[h], d, scales + i * scale_bytes, h);
      }
      line += (size_t)units * bits * 64u;
      a += 32u * units;
      left -= units;
    }
    line = scales + 64;
  }
}

ELQ_INLINE void direct_width(uint32_t bits, const elq_matrix* m, const uint8_t* panel,
                             const elq_activations* token, elq_sums* sums) {
  const uint8_t* line = panel + elq_head_bytes(m);
  __m256i sum[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
  if (m->n_groups == 1) {
    direct_sum(bits, line, token->values, m->padded_cols / 32u, sum);
  } else {
    direct_groups(bits, m, line, token, sum);
  }
  _mm256_store_si256((__m256i*)(void*)sums, sum[0]);
  _mm256_store_si256((__m256i*)(void*)(sums->i + 8), sum[1]);
}

ELQ_VEC static int direct(const elq_matrix* m, const uint8_t* panel, const elq_activations* token,
                          elq_sums* sums) {
  if (m->bits == 2) {
    direct_width(2, m, panel, token, sums);
  } else if (m->bits == 4) {
    direct_width(4, m, panel, token, sums);
  } else {
    return 0;
  }
  return 1;
}

/* ---------------------------------------------------------------- many tokens */

/* Half h of cell p of a unit, as elq_ref.c's unpack_unit. */
ELQ_INLINE __m256i unpack_cell(uint32_t bits, const uint8_t* lines, int p) {
  switch (bits) {
    case 1:
      return shifted(load_half(lines), p, 1);
    case 2:
      return shifted(load_half(lines + 64 * (p / 4)), 2 * (p % 4), 3);
    case 3:
      return _mm256_or_si256(shifted(load_half(lines + 64 * (p / 4)), 2 * (p % 4), 3),
                             _mm256_slli_epi16(shifted(load_half(lines + 128), p, 1), 2));
    case 4:
      return shifted(load_half(lines + 64 * (p / 2)), 4 * (p % 2), 15);
    default:
      return _mm256_xor_si256(load_half(lines + 64 * p), _mm256_set1_epi8((char)0x80));
  }
}

ELQ_INLINE void unpack_width(uint32_t bits, const elq_matrix* m, const uint8_t* panel,
                             uint32_t first_unit, uint32_t n_units, uint8_t* cells) {
  for (uint32_t u = 0; u < n_units; ++u) {
    const uint8_t* lines = panel + elq_unit_offset(m, first_unit + u);
#pragma GCC unroll 8
    for (int p = 0; p < 8; ++p, cells += ELQ_LINE_BYTES) {
      _mm256_store_si256((__m256i*)(void*)cells, unpack_cell(bits, lines, p));
      _mm256_store_si256((__m256i*)(void*)(cells + 32), unpack_cell(bits, lines + 32, p));
    }
  }
}

ELQ_VEC static void unpack(const elq_matrix* m, const uint8_t* panel, uint32_t first_unit,
                           uint32_t n_units, uint8_t* cells) {
  switch (m->bits) {
    case 1:
      unpack_width(1, m, panel, first_unit, n_units, cells);
      break;
    case 2:
      unpack_width(2, m, panel, first_unit, n_units, cells);
      break;
    case 3:
      unpack_width(3, m, panel, first_unit, n_units, cells);
      break;
    case 4:
      unpack_width(4, m, panel, first_unit, n_units, cells);
      break;
    default:
      unpack_width(8, m, panel, first_unit, n_units, cells);
      break;
  }
}

/* 32 columns of 8 rows for n tokens. */
ELQ_INLINE void tile_unit(int wide, const uint8_t* cells, const int8_t* const* a, uint32_t col,
                          const int n, __m256i* p) {
  __m256i pairs[ELQ_AVX2_TOKENS];
#pragma GCC unroll 4
  for (int t = 0; t < n; ++t) pairs[t] = _mm256_setzero_si256();
  for (uint32_t c = 0; c < 32; c += ELQ_CELL_COLS) {
    const __m256i codes = load_half(cells + (size_t)(col + c) * ELQ_PANEL_ROWS);
    if (!wide) {
#pragma GCC unroll 4
      for (int t = 0; t < n; ++t) pairs[t] = add_pairs(pairs[t], codes, a[t] + col + c);
      continue;
    }
    const __m256i low = shifted(codes, 0, 0x7f);
    const __m256i high = shifted(codes, 7, 1);
#pragma GCC unroll 4
    for (int t = 0; t < n; ++t) {
      const __m256i in = spread(a[t] + col + c);
      p[t] = _mm256_add_epi32(p[t], widen(_mm256_maddubs_epi16(low, in)));
      const __m256i top = widen(_mm256_maddubs_epi16(high, in));
      p[t] = _mm256_add_epi32(p[t], _mm256_slli_epi32(top, 7));
    }
  }
#pragma GCC unroll 4
  for (int t = 0; t < n; ++t) p[t] = _mm256_add_epi32(p[t], widen(pairs[t]));
}

ELQ_INLINE void tile_half(int wide, const elq_block* block, const elq_activations* tokens,
                          elq_sums* sums, const int n, const int h) {
  const elq_matrix* m = block->m;
  const int8_t* a[ELQ_AVX2_TOKENS];
#pragma GCC unroll 4
  for (int t = 0; t < n; ++t) a[t] = tokens[t].values + block->first_col;
  uint32_t col = 0;
  for (uint32_t g = 0; col < block->n_cols; ++g) {
    const uint32_t end =
        block->n_groups == 0 ? block->n_cols : elq_min_u32(block->n_cols, col + m->group);
    __m256i p[ELQ_AVX2_TOKENS];
#pragma GCC unroll 4
    for (int t = 0; t < n; ++t) p[t] = _mm256_setzero_si256();
    for (; col < end; col += 32) tile_unit(wide, block->cells + 32 * h, a, col, n, p);
    const uint32_t group = block->first_group + g;
#pragma GCC unroll 4
    for (int t = 0; t < n; ++t) {
      __m256i* total = (__m256i*)(void*)(sums[t].i + 8 * h);
      if (block->n_groups == 0) {
        *total = _mm256_add_epi32(*total, p[t]);
      } else {
        const __m256i d = level_sum(p[t], m->z2, tokens[t].sums[group]);
        *total = add_scaled(m->scale_mode, *total, d, block->scales[g], h);
      }
    }
  }
}

ELQ_INLINE void tile_width(int wide, const elq_block* block, const elq_activations* tokens,
                           uint32_t n, elq_sums* sums) {
  for (int h = 0; h < 2; ++h) {
    uint32_t t = 0;
    for (; t + 4 <= n; t += 4) tile_half(wide, block, tokens + t, sums + t, 4, h);
    for (; t < n; ++t) tile_half(wide, block, tokens + t, sums + t, 1, h);
  }
}

ELQ_VEC static void tile(const elq_block* block, const elq_activations* tokens, uint32_t n,
                         elq_sums* sums) {
  if (block->m->bits == 8) {
    tile_width(1, block, tokens, n, sums);
  } else {
    tile_width(0, block, tokens, n, sums);
  }
}

ELQ_INLINE void finish_half(const elq_matrix* m, uint32_t panel, const elq_activations* token,
                            const elq_sums* sums, float* y, int h) {
  const uint8_t* bytes = elq_panel(m, panel);
  __m256i total = _mm256_load_si256((const __m256i*)(const void*)(sums->i + 8 * h));
  if (m->n_groups == 1) {
    total = level_sum(total, m->z2, token->sums[0]);
    if (m->scale_mode != ELQ_SCALE_ROW) {
      total = add_scaled(m->scale_mode, _mm256_setzero_si256(), total,
                         bytes + elq_scale_offset(m, 0), h);
    }
  }
  __m256 out;
  const __m256 act_scale = _mm256_set1_ps(token->scale);
  if (m->scale_mode == ELQ_SCALE_F16) {
    out = _mm256_mul_ps(_mm256_castsi256_ps(total), act_scale);
  } else {
    const float* row_scales = (const float*)(const void*)(bytes + 32 * h);
    out = _mm256_mul_ps(_mm256_cvtepi32_ps(total),
                        _mm256_mul_ps(_mm256_loadu_ps(row_scales), act_scale));
  }
  const size_t row = (size_t)panel * ELQ_PANEL_ROWS + 8u * (uint32_t)h;
  for (uint32_t k = 0; k < m->n_kept; ++k) {
    const int8_t* kept = m->kept_value + (size_t)k * m->padded_rows + row;
    const __m128i bytes8 = _mm_loadl_epi64((const __m128i*)(const void*)kept);
    const __m256 value = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes8));
    const __m256 weight = _mm256_mul_ps(_mm256_set1_ps(m->kept_scale[k]), value);
    out = _mm256_add_ps(out, _mm256_mul_ps(_mm256_set1_ps(token->kept[k]), weight));
  }
  _mm256_storeu_ps(y + 8 * h, out);
}

ELQ_VEC static void finish(const elq_matrix* m, uint32_t panel, const elq_activations* token,
                           const elq_sums* sums, float* y) {
  finish_half(m, panel, token, sums, y, 0);
  finish_half(m, panel, token, sums, y, 1);
}

ELQ_VEC static void matmul(const elq_matrix* m, const elq_activations* tokens, uint32_t n_tokens,
                           uint32_t first_panel, uint32_t last_panel, float* y, size_t y_stride) {
  static const elq_panel_ops ops = {unpack, tile, direct, finish};
  elq_matmul_walk(&ops, m, tokens, n_tokens, first_panel, last_panel, y, y_stride);
}

/* Not every compiler knows "f16c" in __builtin_cpu_supports; it is bit 29 of ecx of leaf 1. */
static int supported(void) {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
  return __builtin_cpu_supports("avx2") && (c >> 29 & 1u);
}

const elq_impl elq_impl_avx2 = {"avx2", supported, matmul, vec_dot_f32, vec_axpy_f32, &vec_floats};
#endif /* __x86_64__ */

typedef int elq_avx2_not_empty; /* ISO C wants a declaration in every file */
