/*
 * The loop over panels, column blocks and tokens that every implementation shares.
 *
 * Few tokens: the panel is read once per token, straight from its packed lines. Many tokens: a
 * block of columns is unpacked to one byte per code and used for all tokens of a chunk.
 */
#include "kernels/elq_internal.h"

static void write_rows(const elq_panel_ops* ops, const elq_matrix* m, uint32_t panel,
                       const elq_activations* token, const elq_sums* sums, float* y) {
  const uint32_t row = panel * ELQ_PANEL_ROWS;
  const uint32_t n = elq_min_u32(ELQ_PANEL_ROWS, m->rows - row);
  if (n == ELQ_PANEL_ROWS) {
    ops->finish(m, panel, token, sums, y + row);
    return;
  }
  float out[ELQ_PANEL_ROWS];
  ops->finish(m, panel, token, sums, out);
  memcpy(y + row, out, n * sizeof(float));
}

static void set_block(elq_block* block, const uint8_t* panel, uint32_t first_col) {
  const elq_matrix* m = block->m;
  block->first_col = first_col;
  block->n_cols = elq_min_u32(ELQ_BLOCK_COLS, m->padded_cols - first_col);
  block->n_groups = 0;
  if (m->n_groups == 1) return;
  /* More than one: then a group has at most 256 columns, and a block is whole groups. */
  block->first_group = first_col / m->group;
  block->n_groups = (block->n_cols + m->group - 1) / m->group;
  for (uint32_t g = 0; g < block->n_groups; ++g) {
    block->scales[g] = panel + elq_scale_offset(m, block->first_group + g);
  }
}

static void walk_chunk(const elq_panel_ops* ops, const elq_matrix* m, uint32_t panel,
                       const elq_activations* tokens, uint32_t n, float* y, size_t y_stride) {
  _Alignas(64) uint8_t cells[ELQ_BLOCK_COLS * ELQ_PANEL_ROWS];
  elq_sums sums[ELQ_TOKEN_CHUNK];
  const uint8_t* bytes = elq_panel(m, panel);
  elq_block block;
  block.m = m;
  block.cells = cells;
  block.first_group = 0;
  memset(sums, 0, n * sizeof sums[0]);
  for (uint32_t col = 0; col < m->padded_cols; col += ELQ_BLOCK_COLS) {
    set_block(&block, bytes, col);
    ops->unpack(m, bytes, col / 32u, block.n_cols / 32u, cells);
    for (uint32_t t = 0; t < n; t += ELQ_TILE_TOKENS) {
      ops->tile(&block, tokens + t, elq_min_u32(ELQ_TILE_TOKENS, n - t), sums + t);
    }
  }
  for (uint32_t t = 0; t < n; ++t) {
    write_rows(ops, m, panel, tokens + t, sums + t, y + (size_t)t * y_stride);
  }
}

static int walk_direct(const elq_panel_ops* ops, const elq_matrix* m, uint32_t panel,
                       const elq_activations* tokens, uint32_t n, float* y, size_t y_stride) {
  for (uint32_t t = 0; t < n; ++t) {
    elq_sums sums;
    if (!ops->direct(m, elq_panel(m, panel), tokens + t, &sums)) return 0;
    write_rows(ops, m, panel, tokens + t, &sums, y + (size_t)t * y_stride);
  }
  return 1;
}

void elq_matmul_walk(const elq_panel_ops* ops, const elq_matrix* m, const elq_activations* tokens,
                     uint32_t n_tokens, uint32_t first_panel, uint32_t last_panel, float* y,
                     size_t y_stride) {
  const int direct = ops->direct != NULL && n_tokens <= ELQ_DIRECT_TOKENS;
  for (uint32_t start = 0; start < n_tokens; start += ELQ_TOKEN_CHUNK) {
    const uint32_t n = elq_min_u32(ELQ_TOKEN_CHUNK, n_tokens - start);
    float* out = y + (size_t)start * y_stride;
    for (uint32_t panel = first_panel; panel < last_panel; ++panel) {
      if (direct && walk_direct(ops, m, panel, tokens, n, out, y_stride)) continue;
      walk_chunk(ops, m, panel, tokens + start, n, out, y_stride);
    }
  }
}
