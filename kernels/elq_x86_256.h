/*
 * The kernels in 256-bit registers, 8 rows (half a line) each: one text for AVX2 and AVX-VNNI,
 * which differ in the multiply-add alone.
 *
 * The including file defines ELQ_VEC and ELQ_INLINE, and before the include
 *   enum { ELQ_MARK_8 }    byte mask that turns stored 8-bit codes into what mul_add_8 takes
 *   mul_add(sum, codes, a) codes 0..15 times 4 activations, added to partial sums
 *   mul_add_8              the same for 8-bit codes
 *   join(total, sum)       partial sums added to int32 sums, which mul_add_8 makes too
 *   partial_units(bits)    units (32 columns) that partial sums hold
 */
#ifndef ELQ_X86_256_H
#define ELQ_X86_256_H

enum { ELQ_PREFETCH_BYTES = 8192, ELQ_256_TOKENS = 4 };

/* Codes reach mul_add_8 as code - 128 when the mark is 0: the sums are then short of 128 * A, which
 * the offset of D = 2 P - z2 A takes back. */
static inline uint32_t offset_256(const elq_matrix* m) {
  return m->bits == 8 && ELQ_MARK_8 == 0 ? m->z2 - 256u : m->z2;
}

ELQ_INLINE __m256i load_half(const uint8_t* p) {
  return _mm256_load_si256((const __m256i*)(const void*)p);
}

ELQ_INLINE __m256i shifted(__m256i codes, int shift, int mask) {
  return _mm256_and_si256(_mm256_srli_epi16(codes, shift), _mm256_set1_epi8((char)mask));
}

/* Half of cell p (columns 4p..4p+3) of a unit, as elq_ref.c's unpack_unit; 8 bits: see offset_256.
 */
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
      return _mm256_xor_si256(load_half(lines + 64 * p), _mm256_set1_epi8((char)ELQ_MARK_8));
  }
}

ELQ_INLINE __m256i add_cell(uint32_t bits, __m256i sum, __m256i codes, const int8_t* a) {
  const __m256i four = _mm256_set1_epi32(elq_load_i32(a));
  return bits == 8 ? mul_add_8(sum, codes, four) : mul_add(sum, codes, four);
}

ELQ_INLINE __m256i join_width(uint32_t bits, __m256i total, __m256i sum) {
  return bits == 8 ? _mm256_add_epi32(total, sum) : join(total, sum);
}

/* ---------------------------------------------------------------- scales */

ELQ_INLINE __m256i level_sum(__m256i code_sum, uint32_t offset, int32_t activation_sum) {
  const __m256i shift = _mm256_set1_epi32((int32_t)(offset * (uint32_t)activation_sum));
  return _mm256_sub_epi32(_mm256_slli_epi32(code_sum, 1), shift);
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

ELQ_INLINE void finish_half(const elq_matrix* m, uint32_t panel, const elq_activations* token,
                            const elq_sums* sums, float* y, int h) {
  const uint8_t* bytes = elq_panel(m, panel);
  __m256i total = _mm256_load_si256((const __m256i*)(const void*)(sums->i + 8 * h));
  if (m->n_groups == 1) {
    total = level_sum(total, offset_256(m), token->sums[0]);
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

/* ---------------------------------------------------------------- one token, packed lines */

ELQ_INLINE void prefetch_unit(uint32_t bits, const uint8_t* line) {
  /* An address, not a pointer: past the end of the weights it is only a hint. */
#pragma GCC unroll 8
  for (uint32_t i = 0; i < bits; ++i) {
    _mm_prefetch((const char*)((uintptr_t)line + ELQ_PREFETCH_BYTES + 64u * i), _MM_HINT_T0);
  }
}

ELQ_INLINE void direct_sum(uint32_t bits, const uint8_t* line, const int8_t* a, uint32_t units,
                           __m256i p[2]) {
  while (units > 0) {
    const uint32_t n = elq_min_u32(units, partial_units(bits));
    __m256i sum[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (uint32_t u = 0; u < n; ++u, line += 64u * bits, a += 32) {
      prefetch_unit(bits, line);
#pragma GCC unroll 8
      for (int c = 0; c < 8; ++c) {
        sum[0] = add_cell(bits, sum[0], unpack_cell(bits, line, c), a + 4 * c);
        sum[1] = add_cell(bits, sum[1], unpack_cell(bits, line + 32, c), a + 4 * c);
      }
    }
    p[0] = join_width(bits, p[0], sum[0]);
    p[1] = join_width(bits, p[1], sum[1]);
    units -= n;
  }
}

ELQ_INLINE void direct_groups(uint32_t bits, const elq_matrix* m, const uint8_t* line,
                              const elq_activations* token, __m256i sum[2]) {
  const uint32_t per = elq_superblock_groups(m);
  const uint32_t scale_bytes = m->scale_mode == ELQ_SCALE_U8 ? 16u : 32u;
  const uint32_t offset = offset_256(m);
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
        const __m256i d = level_sum(p[h], offset, token->sums[g + i]);
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
  const uint32_t bits = m->bits; /* a constant in each inlined copy */
  if (bits == 1) direct_width(1, m, panel, token, sums);
  if (bits == 2) direct_width(2, m, panel, token, sums);
  if (bits == 3) direct_width(3, m, panel, token, sums);
  if (bits == 4) direct_width(4, m, panel, token, sums);
  if (bits == 8) direct_width(8, m, panel, token, sums);
  return 1;
}

/* ---------------------------------------------------------------- many tokens */

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
  const uint32_t bits = m->bits; /* a constant in each inlined copy */
  if (bits == 1) unpack_width(1, m, panel, first_unit, n_units, cells);
  if (bits == 2) unpack_width(2, m, panel, first_unit, n_units, cells);
  if (bits == 3) unpack_width(3, m, panel, first_unit, n_units, cells);
  if (bits == 4) unpack_width(4, m, panel, first_unit, n_units, cells);
  if (bits == 8) unpack_width(8, m, panel, first_unit, n_units, cells);
}

/* Partial sums of 16 rows for up to 4 tokens; arrays of their own so that they stay in registers.
 */
typedef struct elq_sums_256 {
  __m256i low[ELQ_256_TOKENS];
  __m256i high[ELQ_256_TOKENS];
} elq_sums_256;

ELQ_INLINE void clear_sums(elq_sums_256* s, const int n) {
#pragma GCC unroll 4
  for (int t = 0; t < n; ++t) s->low[t] = s->high[t] = _mm256_setzero_si256();
}

/* Adds columns [col, end) of 16 rows for n tokens: 2 n sums, two halves of a cell and one
 * broadcast.
 */
ELQ_INLINE void tile_columns(uint32_t bits, const uint8_t* cells, const int8_t* const* a,
                             uint32_t col, uint32_t end, const int n, elq_sums_256* s) {
  for (; col < end; col += ELQ_CELL_COLS) {
    const uint8_t* cell = cells + (size_t)col * ELQ_PANEL_ROWS;
    const __m256i low = load_half(cell);
    const __m256i high = load_half(cell + 32);
#pragma GCC unroll 4
    for (int t = 0; t < n; ++t) {
      s->low[t] = add_cell(bits, s->low[t], low, a[t] + col);
      s->high[t] = add_cell(bits, s->high[t], high, a[t] + col);
    }
  }
}

/* One group's share: u8 * D, half * D, or (whole rows) the bare sum of codes. */
ELQ_INLINE void add_group_256(const elq_block* block, uint32_t g, const elq_activations* token,
                              __m256i p, elq_sums* sums, int h) {
  const elq_matrix* m = block->m;
  __m256i* total = (__m256i*)(void*)(sums->i + 8 * h);
  if (block->n_groups == 0) {
    *total = _mm256_add_epi32(*total, p);
  } else {
    const __m256i d = level_sum(p, offset_256(m), token->sums[block->first_group + g]);
    *total = add_scaled(m->scale_mode, *total, d, block->scales[g], h);
  }
}

ELQ_INLINE void tile_n(uint32_t bits, const elq_block* block, const elq_activations* tokens,
                       elq_sums* sums, const int n) {
  const uint32_t most = ELQ_COLUMN_PAD * partial_units(bits);
  const int8_t* a[ELQ_256_TOKENS];
#pragma GCC unroll 4
  for (int t = 0; t < n; ++t) a[t] = tokens[t].values + block->first_col;
  uint32_t col = 0;
  for (uint32_t g = 0; col < block->n_cols; ++g) {
    const uint32_t end =
        block->n_groups == 0 ? block->n_cols : elq_min_u32(block->n_cols, col + block->m->group);
    elq_sums_256 p;
    clear_sums(&p, n);
    if (most >= ELQ_BLOCK_COLS) { /* known when compiled: partial sums are the sums */
      tile_columns(bits, block->cells, a, col, end, n, &p);
      col = end;
    }
    while (col < end) {
      const uint32_t stop = elq_min_u32(end, col + most);
      elq_sums_256 part;
      clear_sums(&part, n);
      tile_columns(bits, block->cells, a, col, stop, n, &part);
#pragma GCC unroll 4
      for (int t = 0; t < n; ++t) {
        p.low[t] = join_width(bits, p.low[t], part.low[t]);
        p.high[t] = join_width(bits, p.high[t], part.high[t]);
      }
      col = stop;
    }
#pragma GCC unroll 4
    for (int t = 0; t < n; ++t) {
      add_group_256(block, g, tokens + t, p.low[t], sums + t, 0);
      add_group_256(block, g, tokens + t, p.high[t], sums + t, 1);
    }
  }
}

ELQ_INLINE void tile_width(uint32_t bits, const elq_block* block, const elq_activations* tokens,
                           uint32_t n, elq_sums* sums) {
  uint32_t t = 0;
  for (; t + 4 <= n; t += 4) tile_n(bits, block, tokens + t, sums + t, 4);
  for (; t < n; ++t) tile_n(bits, block, tokens + t, sums + t, 1);
}

ELQ_VEC static void tile(const elq_block* block, const elq_activations* tokens, uint32_t n,
                         elq_sums* sums) {
  const uint32_t bits = block->m->bits; /* a constant in each inlined copy */
  if (bits == 1) tile_width(1, block, tokens, n, sums);
  if (bits == 2) tile_width(2, block, tokens, n, sums);
  if (bits == 3) tile_width(3, block, tokens, n, sums);
  if (bits == 4) tile_width(4, block, tokens, n, sums);
  if (bits == 8) tile_width(8, block, tokens, n, sums);
}

ELQ_VEC static void matmul(const elq_matrix* m, const elq_activations* tokens, uint32_t n_tokens,
                           uint32_t first_panel, uint32_t last_panel, float* y, size_t y_stride) {
  static const elq_panel_ops ops = {unpack, tile, direct, finish};
  elq_matmul_walk(&ops, m, tokens, n_tokens, first_panel, last_panel, y, y_stride);
}

/* Leaf 1 has f16c in bit 29 of ecx; __builtin_cpu_supports does not know it in every compiler. */
static int has_avx2_f16c(void) {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
  return __builtin_cpu_supports("avx2") && (c >> 29 & 1u);
}

#endif /* ELQ_X86_256_H */
