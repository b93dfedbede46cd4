/*
 * AVX-512 with VNNI: one 64-byte line per register, 16 rows in 16 int32 lanes.
 *
 * vpdpbusd takes unsigned bytes, so a code need not be shifted down to bit 0: each bit plane is
 * masked in place, summed in its own register (code << shift), and the sum is shifted once per
 * group.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/elq_internal.h"

#define ELQ_VEC __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define ELQ_VEC_BYTES 64
#define ELQ_VEC_HALF(p) \
  ((elq_vn)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)(const void*)(p))))
#include "kernels/elq_vec.h"

#define ELQ_INLINE ELQ_VEC __attribute__((always_inline)) static inline

/* Direct reading sums planes up to 240 << 0 times 127: 1024 columns stay far below 2^31. */
enum { ELQ_DIRECT_UNITS = 32, ELQ_PREFETCH_BYTES = 8192 };

/* Four activations in every row's lane. */
ELQ_INLINE __m512i spread(const int8_t* a) {
  return _mm512_set1_epi32(elq_load_i32(a));
}

ELQ_INLINE __m512i load_line(const uint8_t* line) {
  /* An address, not a pointer: past the end of the weights it is only a hint. */
  _mm_prefetch((const char*)((uintptr_t)line + ELQ_PREFETCH_BYTES), _MM_HINT_T0);
  return _mm512_load_si512((const void*)line);
}

ELQ_INLINE __m512i plane(__m512i sum, __m512i line, int mask, const int8_t* a) {
  return _mm512_dpbusd_epi32(sum, _mm512_and_si512(line, _mm512_set1_epi8((char)mask)), spread(a));
}

/* ---------------------------------------------------------------- sums of one group, packed lines
 */

typedef struct elq_planes {
  __m512i low[4];  /* two-bit codes at shifts 0, 2, 4, 6 */
  __m512i high[8]; /* single bits at shifts 0..7 */
} elq_planes;

ELQ_INLINE void add_two_bit_line(elq_planes* s, const uint8_t* line, const int8_t* a) {
  const __m512i codes = load_line(line);
  s->low[0] = plane(s->low[0], codes, 0x03, a);
  s->low[1] = plane(s->low[1], codes, 0x0c, a + 4);
  s->low[2] = plane(s->low[2], codes, 0x30, a + 8);
  s->low[3] = plane(s->low[3], codes, 0xc0, a + 12);
}

ELQ_INLINE void add_one_bit_line(elq_planes* s, const uint8_t* line, const int8_t* a) {
  const __m512i codes = load_line(line);
#pragma GCC unroll 8
  for (int p = 0; p < 8; ++p) s->high[p] = plane(s->high[p], codes, 1 << p, a + 4 * p);
}

ELQ_INLINE __m512i join_low(const elq_planes* s) {
  const __m512i a = _mm512_add_epi32(s->low[0], _mm512_srai_epi32(s->low[1], 2));
  const __m512i b =
      _mm512_add_epi32(_mm512_srai_epi32(s->low[2], 4), _mm512_srai_epi32(s->low[3], 6));
  return _mm512_add_epi32(a, b);
}

ELQ_INLINE __m512i join_high(const elq_planes* s) {
  __m512i sum = s->high[0];
#pragma GCC unroll 8
  for (int p = 1; p < 8; ++p) {
    sum = _mm512_add_epi32(sum, _mm512_srai_epi32(s->high[p], (unsigned)p));
  }
  return sum;
}

ELQ_INLINE __m512i direct_1(const uint8_t* line, const int8_t* a, uint32_t units) {
  elq_planes s;
  memset(&s, 0, sizeof s);
  for (uint32_t u = 0; u < units; ++u) add_one_bit_line(&s, line + 64 * u, a + 32 * u);
  return join_high(&s);
}

ELQ_INLINE __m512i direct_2(const uint8_t* line, const int8_t* a, uint32_t units) {
  elq_planes s;
  memset(&s, 0, sizeof s);
  for (uint32_t u = 0; u < units; ++u) {
    add_two_bit_line(&s, line + 128 * u, a + 32 * u);
    add_two_bit_line(&s, line + 128 * u + 64, a + 32 * u + 16);
  }
  return join_low(&s);
}

ELQ_INLINE __m512i direct_3(const uint8_t* line, const int8_t* a, uint32_t units) {
  elq_planes s;
  memset(&s, 0, sizeof s);
  for (uint32_t u = 0; u < units; ++u) {
    add_two_bit_line(&s, line + 192 * u, a + 32 * u);
    add_two_bit_line(&s, line + 192 * u + 64, a + 32 * u + 16);
    add_one_bit_line(&s, line + 192 * u + 128, a + 32 * u);
  }
  return _mm512_add_epi32(join_low(&s), _mm512_slli_epi32(join_high(&s), 2));
}

ELQ_INLINE __m512i direct_4(const uint8_t* line, const int8_t* a, uint32_t units) {
  __m512i low = _mm512_setzero_si512();
  __m512i high = _mm512_setzero_si512();
  for (uint32_t v = 0; v < 4 * units; ++v) {
    const __m512i codes = load_line(line + 64 * v);
    low = plane(low, codes, 0x0f, a + 8 * v);
    high = plane(high, codes, 0xf0, a + 8 * v + 4);
  }
  return _mm512_add_epi32(low, _mm512_srai_epi32(high, 4));
}

ELQ_INLINE __m512i direct_8(const uint8_t* line, const int8_t* a, uint32_t units) {
  const __m512i flip = _mm512_set1_epi8((char)0x80);
  __m512i even = _mm512_setzero_si512();
  __m512i odd = _mm512_setzero_si512();
  for (uint32_t v = 0; v < 8 * units; v += 2) {
    const __m512i first = _mm512_xor_si512(load_line(line + 64 * v), flip);
    const __m512i second = _mm512_xor_si512(load_line(line + 64 * v + 64), flip);
    even = _mm512_dpbusd_epi32(even, first, spread(a + 4 * v));
    odd = _mm512_dpbusd_epi32(odd, second, spread(a + 4 * v + 4));
  }
  return _mm512_add_epi32(even, odd);
}

ELQ_INLINE __m512i direct_sum(uint32_t bits, const uint8_t* line, const int8_t* a, uint32_t units) {
  switch (bits) {
    case 1:
      return direct_1(line, a, units);
    case 2:
      return direct_2(line, a, units);
    case 3:
      return direct_3(line, a, units);
    case 4:
      return direct_4(line, a, units);
    default:
      return direct_8(line, a, units);
  }
}

/* ---------------------------------------------------------------- scales */

ELQ_INLINE __m512i level_sum(__m512i code_sum, uint32_t z2, int32_t activation_sum) {
  const __m512i offset = _mm512_set1_epi32((int32_t)(z2 * (uint32_t)activation_sum));
  return _mm512_sub_epi32(_mm512_slli_epi32(code_sum, 1), offset);
}

ELQ_INLINE __m512i load_u8_scales(const uint8_t* scales) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)(const void*)scales));
}

/* sum + scale * D, int32 in U8 mode, float bits in F16 mode. */
ELQ_INLINE __m512i add_scaled(uint32_t mode, __m512i sum, __m512i d, const uint8_t* scales) {
  if (mode == ELQ_SCALE_U8) {
    return _mm512_add_epi32(sum, _mm512_mullo_epi32(load_u8_scales(scales), d));
  }
  const __m512 half = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)(const void*)scales));
  const __m512 product = _mm512_mul_ps(half, _mm512_cvtepi32_ps(d));
  return _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(sum), product));
}

ELQ_INLINE __m512i direct_one_group(uint32_t bits, const elq_matrix* m, const uint8_t* line,
                                    const int8_t* a) {
  __m512i sum = _mm512_setzero_si512();
  const uint32_t units = m->padded_cols / 32u;
  for (uint32_t u = 0; u < units; u += ELQ_DIRECT_UNITS) {
    const uint32_t n = elq_min_u32(ELQ_DIRECT_UNITS, units - u);
    sum = _mm512_add_epi32(sum, direct_sum(bits, line + (size_t)u * bits * 64u, a + 32u * u, n));
  }
  return sum;
}

ELQ_INLINE __m512i direct_groups(uint32_t bits, uint32_t mode, const elq_matrix* m,
                                 const uint8_t* line, const elq_activations* token) {
  const uint32_t per = elq_superblock_groups(m);
  const uint32_t scale_bytes = mode == ELQ_SCALE_U8 ? 16u : 32u;
  uint32_t left = m->padded_cols / 32u;
  const int8_t* a = token->values;
  __m512i sum = _mm512_setzero_si512();
  for (uint32_t g = 0; g < m->n_groups; g += per) {
    const uint32_t in_block = elq_min_u32(left, per * (m->group / 32u));
    const uint8_t* scales = line + (size_t)in_block * bits * 64u;
    for (uint32_t i = 0; i < elq_min_u32(per, m->n_groups - g); ++i) {
      const uint32_t units = elq_min_u32(left, m->group / 32u);
      const __m512i p = direct_sum(bits, line, a, units);
      sum =
          add_scaled(mode, sum, level_sum(p, m->z2, token->sums[g + i]), scales + i * scale_bytes);
      line += (size_t)units * bits * 64u;
      a += 32u * units;
      left -= units;
    }
    line = scales + 64;
  }
  return sum;
}

/* The width is a constant in each copy, so the inner loops have no switch. */
ELQ_INLINE __m512i direct_width(uint32_t bits, const elq_matrix* m, const uint8_t* panel,
                                const elq_activations* token) {
  const uint8_t* line = panel + elq_head_bytes(m);
  if (m->n_groups == 1) return direct_one_group(bits, m, line, token->values);
  if (m->scale_mode == ELQ_SCALE_U8) return direct_groups(bits, ELQ_SCALE_U8, m, line, token);
  return direct_groups(bits, ELQ_SCALE_F16, m, line, token);
}

ELQ_VEC static int direct(const elq_matrix* m, const uint8_t* panel, const elq_activations* token,
                          elq_sums* sums) {
  __m512i sum = _mm512_setzero_si512();
  const uint32_t bits = m->bits; /* a constant in each inlined copy */
  if (bits == 1) sum = direct_width(1, m, panel, token);
  if (bits == 2) sum = direct_width(2, m, panel, token);
  if (bits == 3) sum = direct_width(3, m, panel, token);
  if (bits == 4) sum = direct_width(4, m, panel, token);
  if (bits == 8) sum = direct_width(8, m, panel, token);
  _mm512_store_si512(sums, sum);
  return 1;
}

/* ---------------------------------------------------------------- many tokens */

ELQ_INLINE __m512i line_at(const uint8_t* lines, uint32_t v) {
  return _mm512_load_si512((const void*)(lines + ELQ_LINE_BYTES * v));
}

/* GCC 12's unoptimized intrinsic is a macro that takes int, the optimized one takes unsigned. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"

ELQ_INLINE __m512i shifted(__m512i codes, int shift, int mask) {
  return _mm512_and_si512(_mm512_srli_epi16(codes, (unsigned)shift), _mm512_set1_epi8((char)mask));
}

#pragma GCC diagnostic pop

/* Cell p (columns 4p..4p+3) of a unit, as elq_ref.c's unpack_unit. */
ELQ_INLINE __m512i unpack_cell(uint32_t bits, const uint8_t* lines, uint32_t p) {
  switch (bits) {
    case 1:
      return shifted(line_at(lines, 0), (int)p, 1);
    case 2:
      return shifted(line_at(lines, p / 4u), 2 * (int)(p % 4u), 3);
    case 3:
      return _mm512_or_si512(shifted(line_at(lines, p / 4u), 2 * (int)(p % 4u), 3),
                             _mm512_slli_epi16(shifted(line_at(lines, 2), (int)p, 1), 2));
    case 4:
      return shifted(line_at(lines, p / 2u), 4 * (int)(p % 2u), 15);
    default:
      return _mm512_xor_si512(line_at(lines, p), _mm512_set1_epi8((char)0x80));
  }
}

ELQ_INLINE void unpack_width(uint32_t bits, const elq_matrix* m, const uint8_t* panel,
                             uint32_t first_unit, uint32_t n_units, uint8_t* cells) {
  for (uint32_t u = 0; u < n_units; ++u) {
    const uint8_t* lines = panel + elq_unit_offset(m, first_unit + u);
#pragma GCC unroll 8
    for (uint32_t p = 0; p < 8; ++p, cells += ELQ_LINE_BYTES) {
      _mm512_store_si512((void*)cells, unpack_cell(bits, lines, p));
    }
  }
}

ELQ_VEC static void unpack(const elq_matrix* m, const uint8_t* panel, uint32_t first_unit,
                           uint32_t n_units, uint8_t* cells) {
  const uint32_t bits = m->bits; /* a constant in each inlined copy */
  if (bits == 1) unpack_width(1, m, panel, first_unit, n_units, cells);
  if (bits == 2) unpack_width(2, m, panel, first_unit, n_units, cells);
  if (bits == 3) unpack_width(3, m, panel, first_unit, n_units, cells);
  if (bits == 4) unpack_width(4, m, panel, first_unit, n_units, cells);
  if (bits == 8) unpack_width(8, m, panel, first_unit, n_units, cells);
}

/*
 * D = 2 P - z2 A by one 16-bit dot product per lane: |A| <= 127 * 256 and z2 <= 256 fit, their
 * upper halves are a sign and a zero. narrow: |D| < 2^15, so u8 * D is one more of them, not a slow
 * multiply.
 */
ELQ_INLINE void tile_n(uint32_t mode, int narrow, const elq_block* block,
                       const elq_activations* tokens, elq_sums* sums, const int n) {
  const elq_matrix* m = block->m;
  const __m512i minus_z2 = _mm512_set1_epi32((uint16_t)-m->z2);
  const int8_t* a[ELQ_TILE_TOKENS];
  __m512i total[ELQ_TILE_TOKENS];
#pragma GCC unroll 8
  for (int t = 0; t < n; ++t) {
    a[t] = tokens[t].values + block->first_col;
    total[t] = _mm512_load_si512(sums + t);
  }
  uint32_t col = 0;
  for (uint32_t g = 0; col < block->n_cols; ++g) {
    const uint32_t end =
        mode == ELQ_SCALE_ROW ? block->n_cols : elq_min_u32(block->n_cols, col + m->group);
    __m512i p[ELQ_TILE_TOKENS];
#pragma GCC unroll 8
    for (int t = 0; t < n; ++t) p[t] = _mm512_setzero_si512();
    for (; col < end; col += ELQ_CELL_COLS) {
      const __m512i cell = _mm512_load_si512(block->cells + (size_t)col * ELQ_PANEL_ROWS);
#pragma GCC unroll 8
      for (int t = 0; t < n; ++t) p[t] = _mm512_dpbusd_epi32(p[t], cell, spread(a[t] + col));
    }
#pragma GCC unroll 8
    for (int t = 0; t < n; ++t) {
      if (mode == ELQ_SCALE_ROW) {
        total[t] = _mm512_add_epi32(total[t], p[t]);
        continue;
      }
      const __m512i sum = _mm512_set1_epi32(tokens[t].sums[block->first_group + g]);
      const __m512i d = _mm512_dpwssd_epi32(_mm512_slli_epi32(p[t], 1), sum, minus_z2);
      if (narrow) {
        total[t] = _mm512_dpwssd_epi32(total[t], load_u8_scales(block->scales[g]), d);
      } else {
        total[t] = add_scaled(mode, total[t], d, block->scales[g]);
      }
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < n; ++t) _mm512_store_si512(sums + t, total[t]);
}

ELQ_INLINE void tile_mode(uint32_t mode, int narrow, const elq_block* block,
                          const elq_activations* tokens, uint32_t n, elq_sums* sums) {
  uint32_t t = 0;
  for (; t + 8 <= n; t += 8) tile_n(mode, narrow, block, tokens + t, sums + t, 8);
  for (; t + 4 <= n; t += 4) tile_n(mode, narrow, block, tokens + t, sums + t, 4);
  for (; t < n; ++t) tile_n(mode, narrow, block, tokens + t, sums + t, 1);
}

/* Mode ROW here means "only add up codes": what a part of a single group needs in every mode. */
ELQ_VEC static void tile(const elq_block* block, const elq_activations* tokens, uint32_t n,
                         elq_sums* sums) {
  const elq_matrix* m = block->m;
  const uint32_t top = 2u * ((1u << m->bits) - 1u);
  const uint32_t level = top - m->z2 > m->z2 ? top - m->z2 : m->z2;
  if (block->n_groups == 0) {
    tile_mode(ELQ_SCALE_ROW, 0, block, tokens, n, sums);
  } else if (m->scale_mode == ELQ_SCALE_F16) {
    tile_mode(ELQ_SCALE_F16, 0, block, tokens, n, sums);
  } else if (level * 127u * m->group < 32768u) {
    tile_mode(ELQ_SCALE_U8, 1, block, tokens, n, sums);
  } else {
    tile_mode(ELQ_SCALE_U8, 0, block, tokens, n, sums);
  }
}

ELQ_VEC static void finish(const elq_matrix* m, uint32_t panel, const elq_activations* token,
                           const elq_sums* sums, float* y) {
  const uint8_t* bytes = elq_panel(m, panel);
  __m512i total = _mm512_load_si512(sums);
  if (m->n_groups == 1) {
    total = level_sum(total, m->z2, token->sums[0]);
    if (m->scale_mode != ELQ_SCALE_ROW) {
      total =
          add_scaled(m->scale_mode, _mm512_setzero_si512(), total, bytes + elq_scale_offset(m, 0));
    }
  }
  __m512 out;
  const __m512 act_scale = _mm512_set1_ps(token->scale);
  if (m->scale_mode == ELQ_SCALE_F16) {
    out = _mm512_mul_ps(_mm512_castsi512_ps(total), act_scale);
  } else {
    const __m512 scale = _mm512_mul_ps(_mm512_loadu_ps(bytes), act_scale);
    out = _mm512_mul_ps(_mm512_cvtepi32_ps(total), scale);
  }
  const size_t row = (size_t)panel * ELQ_PANEL_ROWS;
  for (uint32_t k = 0; k < m->n_kept; ++k) {
    const int8_t* kept = m->kept_value + (size_t)k * m->padded_rows + row;
    const __m128i bytes16 = _mm_loadu_si128((const __m128i*)(const void*)kept);
    const __m512 value = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes16));
    const __m512 weight = _mm512_mul_ps(_mm512_set1_ps(m->kept_scale[k]), value);
    out = _mm512_add_ps(out, _mm512_mul_ps(_mm512_set1_ps(token->kept[k]), weight));
  }
  _mm512_storeu_ps(y, out);
}

ELQ_VEC static void matmul(const elq_matrix* m, const elq_activations* tokens, uint32_t n_tokens,
                           uint32_t first_panel, uint32_t last_panel, float* y, size_t y_stride) {
  static const elq_panel_ops ops = {unpack, tile, direct, finish};
  elq_matmul_walk(&ops, m, tokens, n_tokens, first_panel, last_panel, y, y_stride);
}

static int supported(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}

const elq_impl elq_impl_avx512vnni = {"avx512vnni", supported,    matmul,
                                      vec_dot_f32,  vec_axpy_f32, &vec_floats};
#endif /* __x86_64__ */

typedef int elq_avx512vnni_not_empty; /* ISO C wants a declaration in every file */
