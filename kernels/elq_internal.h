/*
 * What the kernel files share and nobody else includes: block sizes, addresses inside a panel,
 * exact number conversions, and the small tables of functions that make up one implementation.
 */
#ifndef ELQ_INTERNAL_H
#define ELQ_INTERNAL_H

#include <stdint.h>
#include <string.h>

#include "kernels/elq_kernels.h"

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "packed weights are read in place, so the machine must be little-endian"
#endif

/* Every product and every sum is rounded on its own. GCC keeps to that under -std=c11; clang wants
 * the pragma. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif !defined(__STRICT_ANSI__) && !defined(ELQ_FP_CONTRACT_IS_OFF)
#error "compile with -std=c11, or with -ffp-contract=off -DELQ_FP_CONTRACT_IS_OFF"
#endif

enum {
  ELQ_CELL_COLS = 4,     /* columns of one 64-byte line of unpacked codes */
  ELQ_BLOCK_COLS = 1024, /* unpacked at once: 16 KiB of cells, a third of a 48 KiB L1 cache */
  ELQ_BLOCK_UNITS = ELQ_BLOCK_COLS / 32,
  ELQ_TOKEN_CHUNK = 128, /* tokens that share one unpacked block: 8 KiB of accumulators */
  ELQ_TILE_TOKENS = 8,   /* 8 accumulators hide the dot product's latency and 8 pointers fit */
  ELQ_DIRECT_TOKENS = 3  /* up to here unpacking costs more than it saves */
};

/* Running sums of 16 rows: codes times activations (one group), int32 (U8) or float (F16). */
typedef union elq_sums {
  _Alignas(64) int32_t i[ELQ_PANEL_ROWS];
  float f[ELQ_PANEL_ROWS];
} elq_sums;

/* A run of unpacked columns of one panel: cells[(column - first_col) / 4][row][column % 4]. */
typedef struct elq_block {
  const elq_matrix* m;
  const uint8_t* cells;
  uint32_t first_col;
  uint32_t n_cols;
  uint32_t first_group;
  uint32_t n_groups; /* 0: part of the only group, add up code * a and leave the scale to finish */
  const uint8_t* scales[ELQ_BLOCK_UNITS]; /* of each group, found once for all tiles */
} elq_block;

/* The pieces of one matmul; elq_walk.c puts them together. */
typedef struct elq_panel_ops {
  void (*unpack)(const elq_matrix* m, const uint8_t* panel, uint32_t first_unit, uint32_t n_units,
                 uint8_t* cells);
  /* Adds a block to the sums of n <= ELQ_TILE_TOKENS tokens. */
  void (*tile)(const elq_block* block, const elq_activations* tokens, uint32_t n, elq_sums* sums);
  /* The whole panel for one token without unpacking; returns 0 when it does not do this width. */
  int (*direct)(const elq_matrix* m, const uint8_t* panel, const elq_activations* token,
                elq_sums* sums);
  /* Scales, kept columns: 16 outputs. */
  void (*finish)(const elq_matrix* m, uint32_t panel, const elq_activations* token,
                 const elq_sums* sums, float* y);
} elq_panel_ops;

void elq_matmul_walk(const elq_panel_ops* ops, const elq_matrix* m, const elq_activations* tokens,
                     uint32_t n_tokens, uint32_t first_panel, uint32_t last_panel, float* y,
                     size_t y_stride);

/* Queries of up to ELQ_ATTEND_QUERIES (token, head) pairs that share one key-value head. */
enum { ELQ_ATTEND_QUERIES = 4, ELQ_KEY_BLOCK = 16 };

/* Float work of the runtime; each formula names its order of summation, so bits agree everywhere.
 */
typedef struct elq_float_ops {
  /* y[t][row] = dot_f32(row as float32, x[t]) for rows [first, last) of a row-major float matrix.
   */
  void (*matmul)(uint32_t layout, const uint8_t* rows, uint32_t cols, uint32_t first, uint32_t last,
                 const float* x, size_t x_stride, uint32_t n_tokens, float* y, size_t y_stride);
  /* out[i][16b + l] = scale * (sum over d ascending, from 0, of q[i][d] * keys[b][d][l]). */
  void (*scores)(const float* const* q, uint32_t n_queries, const float* keys, uint32_t n_blocks,
                 uint32_t head_dim, float scale, float* out, size_t out_stride);
  /* out[i][d] += p[i][j] * values[j][d] for j in [first, last) ascending; d < width, a multiple
   * of 16. */
  void (*mix)(const float* p, size_t p_stride, uint32_t n_queries, uint32_t first, uint32_t last,
              const float* values, uint32_t width, float* out);
  /* s[i] = exp(s[i] - max); returns their sum in the 16-lane order of dot_f32. */
  float (*exp_sum)(float* s, uint32_t n);
  /* gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i]. */
  void (*silu_mul)(float* gate, const float* up, uint32_t n);
} elq_float_ops;

extern const elq_impl elq_impl_scalar;
#if defined(__x86_64__)
extern const elq_impl elq_impl_avx2;
extern const elq_impl elq_impl_avxvnni;
extern const elq_impl elq_impl_avx512vnni;
#endif

/* ---------------------------------------------------------------- addresses inside a panel */

/* Groups under one scale line. */
static inline uint32_t elq_superblock_groups(const elq_matrix* m) {
  return m->scale_mode == ELQ_SCALE_U8 ? 4u : 2u;
}

static inline uint64_t elq_head_bytes(const elq_matrix* m) {
  return m->scale_mode == ELQ_SCALE_F16 ? 0u : ELQ_LINE_BYTES;
}

static inline uint64_t elq_superblock_units(const elq_matrix* m) {
  return (uint64_t)elq_superblock_groups(m) * (m->group / 32u);
}

/* First code line of the 32 columns of `unit`, from the panel's start. */
static inline uint64_t elq_unit_offset(const elq_matrix* m, uint32_t unit) {
  const uint64_t lines = (uint64_t)unit * m->bits;
  if (m->scale_mode == ELQ_SCALE_ROW) return elq_head_bytes(m) + ELQ_LINE_BYTES * lines;
  return elq_head_bytes(m) + ELQ_LINE_BYTES * (lines + unit / elq_superblock_units(m));
}

/* The 16 scales of a group (U8: 16 bytes, F16: 32 bytes), from the panel's start. */
static inline uint64_t elq_scale_offset(const elq_matrix* m, uint32_t group) {
  const uint32_t per = elq_superblock_groups(m);
  const uint64_t superblock = group / per;
  const uint64_t units = m->padded_cols / 32u;
  uint64_t end = (superblock + 1) * elq_superblock_units(m);
  if (end > units) end = units;
  return elq_head_bytes(m) + ELQ_LINE_BYTES * (end * m->bits + superblock) +
         (uint64_t)(group % per) * (m->scale_mode == ELQ_SCALE_U8 ? 16u : 32u);
}

static inline const uint8_t* elq_panel(const elq_matrix* m, uint32_t panel) {
  return m->panels + (uint64_t)panel * m->panel_bytes;
}

/* Code of column c (0..31) of row r (0..15) in the code lines of one unit. */
static inline uint8_t elq_code_in_unit(const uint8_t* lines, uint32_t bits, uint32_t r,
                                       uint32_t c) {
  const uint8_t* cell = lines + 4u * r + c % 4u;
  const uint32_t low_shift = 2u * (c % 16u / 4u);
  switch (bits) {
    case 1:
      return (uint8_t)(cell[0] >> (c / 4u) & 1u);
    case 2:
      return (uint8_t)((uint32_t)cell[ELQ_LINE_BYTES * (c / 16u)] >> low_shift & 3u);
    case 3:
      return (uint8_t)(((uint32_t)cell[ELQ_LINE_BYTES * (c / 16u)] >> low_shift & 3u) |
                       ((uint32_t)cell[ELQ_LINE_BYTES * 2u] >> (c / 4u) & 1u) << 2);
    case 4:
      return (uint8_t)((uint32_t)cell[ELQ_LINE_BYTES * (c / 8u)] >> (4u * (c % 8u / 4u)) & 15u);
    default:
      return (uint8_t)(cell[ELQ_LINE_BYTES * (c / 4u)] ^ 0x80u);
  }
}

/* ---------------------------------------------------------------- exact conversions */

static inline float elq_float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint32_t elq_bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float elq_float_of_half(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u)
    return elq_float_of_bits(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude >= 0x400u) return elq_float_of_bits(sign | ((magnitude << 13) + (112u << 23)));
  const float subnormal = (float)magnitude * 0x1p-24f; /* exact */
  return sign ? -subnormal : subnormal;
}

static inline float elq_float_of_bf16(uint16_t value) {
  return elq_float_of_bits((uint32_t)value << 16);
}

/* Little-endian loads of packed bytes at any alignment. */
static inline int32_t elq_load_i32(const void* p) {
  int32_t value;
  memcpy(&value, p, sizeof value);
  return value;
}

static inline float elq_load_f32(const void* p) {
  float value;
  memcpy(&value, p, sizeof value);
  return value;
}

static inline uint16_t elq_load_u16(const void* p) {
  uint16_t value;
  memcpy(&value, p, sizeof value);
  return value;
}

static inline uint32_t elq_min_u32(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

/* D = 2 P - z2 A. Unsigned, because 2 P alone may pass 2^31 where D does not. */
static inline int32_t elq_level_sum(int32_t code_sum, uint32_t z2, int32_t activation_sum) {
  return (int32_t)(2u * (uint32_t)code_sum - z2 * (uint32_t)activation_sum);
}

#endif /* ELQ_INTERNAL_H */
