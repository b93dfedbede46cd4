/*
 * Packed-weight kernels: pack, unpack, matrix times int8 activations, and their registry.
 *
 * Layouts and formulas: elq_layout.h. The scalar implementation (elq_ref.c) is the definition;
 * every other implementation returns the same bits. No function here allocates, prints or keeps
 * state.
 */
#ifndef ELQ_KERNELS_H
#define ELQ_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/elq_layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A packed matrix in memory; panels is 64-byte aligned. Not owned. */
typedef struct elq_matrix {
  uint32_t rows;
  uint32_t cols;
  uint32_t padded_rows;
  uint32_t padded_cols;
  uint8_t bits;
  uint8_t scale_mode; /* elq_scale_mode */
  uint16_t z2;
  uint32_t group; /* columns per group; padded_cols when one group per row */
  uint32_t n_groups;
  uint32_t n_kept;
  uint64_t panel_bytes; /* of one panel */
  const uint8_t* panels;
  const uint16_t* kept_index; /* n_kept */
  const float* kept_scale;    /* n_kept */
  const int8_t* kept_value;   /* n_kept x padded_rows, column by column */
} elq_matrix;

/* Fills every size field from rows, cols, bits, scale_mode, z2, group (0 = row) and n_kept;
 * pointers become NULL. Returns 0, or -1 when a value is outside the closed lists of elq_layout.h.
 */
int elq_matrix_init(elq_matrix* m, uint32_t rows, uint32_t cols, uint32_t bits, uint32_t scale_mode,
                    uint32_t z2, uint32_t group, uint32_t n_kept);

/* Bytes of all panels, the offset of the kept columns, and both together (the record's `bytes`). */
uint64_t elq_matrix_panel_bytes(const elq_matrix* m);
uint64_t elq_matrix_kept_offset(const elq_matrix* m);
uint64_t elq_matrix_bytes(const elq_matrix* m);

/* Points the matrix at elq_matrix_bytes() bytes, 64-byte aligned. */
void elq_matrix_bind(elq_matrix* m, const uint8_t* bytes);

/* What goes into a packed matrix; row-major, unpadded. Unused arrays are NULL. */
typedef struct elq_pack_source {
  const uint8_t* codes;     /* rows x cols, one code per byte; codes of kept columns are ignored */
  const float* row_scales;  /* rows (ROW, U8): half scales */
  const uint8_t* u8_scales; /* rows x n_groups (U8) */
  const uint16_t* f16_scales; /* rows x n_groups (F16): half scales */
  const uint16_t* kept_index;
  const float* kept_scale;
  const int8_t* kept_value; /* n_kept x rows, column by column */
} elq_pack_source;

/* Writes elq_matrix_bytes(m) bytes. The inverse is elq_unpack_codes / elq_dequantize_row. */
void elq_pack(const elq_matrix* m, const elq_pack_source* source, uint8_t* out);

/* Codes of one row, cols bytes. */
void elq_unpack_codes(const elq_matrix* m, uint32_t row, uint8_t* codes);

/* The float weights of one row, kept columns included, cols floats. */
void elq_dequantize_row(const elq_matrix* m, uint32_t row, float* out);

/* One token's activations as the kernels take them. */
typedef struct elq_activations {
  const int8_t* values; /* padded_cols; 0 at pad and kept columns */
  const int32_t* sums;  /* n_groups: sum of the group's values */
  float scale;
  const float* kept; /* n_kept: the float activations of the kept columns */
} elq_activations;

/*
 * Quantizes one token for matrix m: kept columns leave the vector, amax over the rest (0 when
 * empty), inv = 127 / amax (IEEE division; 0 when amax is 0), value = round-half-even(x * inv)
 * clamped to +-127, scale = amax / 127. An amax so small that 127 / amax overflows counts as 0.
 * Shapes   x: cols. values: padded_cols. sums: n_groups. kept: n_kept.
 * Range    x finite; non-finite input gives scale NaN and values 0 (the caller's logits become NaN,
 * visibly).
 */
void elq_quantize_activations(const elq_matrix* m, const float* x, int8_t* values, int32_t* sums,
                              float* kept, float* scale);

/*
 * y[t][row] for the rows of panels [first, last) and n tokens:
 *   ROW, U8: y = (float)I * (row_scale * act_scale),  I = sum_g u8[g] * D_g  (ROW: I = D)
 *   F16:     y = (sum over g ascending, from 0, of half_scale_g * (float)D_g) * act_scale
 *   D_g = 2 * sum(code * a) - z2 * sum(a), exact in int32
 * then for each kept column k ascending: y += x_k * (kept_scale[k] * (float)kept_value[k][row]),
 * multiplications and additions rounded separately.
 * y_stride is in floats; only rows < m->rows are written.
 */
typedef void elq_matmul_fn(const elq_matrix* m, const elq_activations* tokens, uint32_t n_tokens,
                           uint32_t first_panel, uint32_t last_panel, float* y, size_t y_stride);

/* Float helpers with a fixed order of summation, the same bits on every implementation:
 * 16 lanes, lane l starts at 0 and sums elements l, l+16, ... ascending (multiply, then add), then
 * the tree (l, l+8), (l, l+4), (l, l+2), (l, l+1). Elements past the last multiple of 16 go to
 * lanes 0, 1, ... */
typedef float elq_dot_f32_fn(const float* a, const float* b, size_t n);
/* y[i] += s * x[i], multiply then add. */
typedef void elq_axpy_f32_fn(float s, const float* x, float* y, size_t n);

typedef struct elq_impl {
  const char* name;       /* "scalar", "avx2", "avx512vnni" */
  int (*supported)(void); /* does this CPU have it */
  elq_matmul_fn* matmul;
  elq_dot_f32_fn* dot_f32;
  elq_axpy_f32_fn* axpy_f32;
  const struct elq_float_ops* floats; /* the runtime's own float work, elq_internal.h */
} elq_impl;

/* All compiled implementations, slowest first; scalar is always there. */
const elq_impl* const* elq_impls(size_t* count);
/* By name; NULL when unknown or not supported by this CPU. */
const elq_impl* elq_impl_by_name(const char* name);
/* The fastest supported one. */
const elq_impl* elq_impl_best(void);

/* CRC-32C (Castagnoli), as the package uses it; start with crc 0. */
uint32_t elq_crc32c(uint32_t crc, const void* data, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* ELQ_KERNELS_H */
