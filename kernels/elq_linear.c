/* Matrices of any layout times a step's activations. */
#include "kernels/elq_session.h"

static int same_activations(const elq_matrix* a, const elq_matrix* b) {
  if (a->cols != b->cols || a->group != b->group || a->n_kept != b->n_kept) return 0;
  return a->n_kept == 0 ||
         memcmp(a->kept_index, b->kept_index, a->n_kept * sizeof a->kept_index[0]) == 0;
}

void elq_linear_add(elq_linear_step* step, const elq_weight* w, const float* bias, float* y,
                    size_t y_stride) {
  const uint32_t index = step->n_products++;
  elq_product* p = step->products + index;
  p->w = w;
  p->bias = bias;
  p->y = y;
  p->y_stride = y_stride;
  p->set = index;
  for (uint32_t i = 0; i < index; ++i) {
    const elq_weight* other = step->products[i].w;
    if (w->layout == ELQ_LAYOUT_PACKED && other->layout == ELQ_LAYOUT_PACKED &&
        same_activations(&w->packed, &other->packed)) {
      p->set = step->products[i].set;
      break;
    }
  }
  /* Few tokens: claiming a chunk costs as much as a panel, so chunks are large. */
  const uint32_t panels = (w->rows + ELQ_PANEL_ROWS - 1) / ELQ_PANEL_ROWS;
  const uint32_t wanted = step->n_tokens <= ELQ_DIRECT_TOKENS ? 8 : 32;
  p->chunk_rows = (panels + wanted - 1) / wanted * ELQ_PANEL_ROWS;
  p->n_chunks = (w->rows + p->chunk_rows - 1) / p->chunk_rows;
}

void elq_linear_quantize(const elq_linear_step* step, uint32_t t) {
  const elq_session* s = step->s;
  for (uint32_t i = 0; i < step->n_products; ++i) {
    const elq_product* p = step->products + i;
    if (p->set != i || p->w->layout != ELQ_LAYOUT_PACKED) continue;
    const elq_act_set* set = s->acts + i;
    int8_t* values = set->values + (size_t)t * s->act_cols;
    int32_t* sums = set->sums + (size_t)t * s->act_groups;
    float* kept = set->kept + (size_t)t * ELQ_MAX_KEPT_COLUMNS;
    elq_activations* out = set->tokens + t;
    elq_quantize_activations(&p->w->packed, step->x + t * step->x_stride, values, sums, kept,
                             &out->scale);
    out->values = values;
    out->sums = sums;
    out->kept = kept;
  }
}

static void run_chunk(const elq_linear_step* step, const elq_product* p, uint32_t chunk) {
  const elq_session* s = step->s;
  const uint32_t first = chunk * p->chunk_rows;
  const uint32_t last = first + elq_min_u32(p->chunk_rows, p->w->rows - first);
  if (p->w->layout == ELQ_LAYOUT_PACKED) {
    const uint32_t last_panel = (last + ELQ_PANEL_ROWS - 1) / ELQ_PANEL_ROWS;
    s->impl->matmul(&p->w->packed, s->acts[p->set].tokens, step->n_tokens, first / ELQ_PANEL_ROWS,
                    last_panel, p->y, p->y_stride);
  } else {
    s->impl->floats->matmul(p->w->layout, p->w->bytes, p->w->cols, first, last, step->x,
                            step->x_stride, step->n_tokens, p->y, p->y_stride);
  }
  if (p->bias == NULL) return;
  for (uint32_t t = 0; t < step->n_tokens; ++t) {
    float* y = p->y + t * p->y_stride;
    for (uint32_t r = first; r < last; ++r) y[r] = y[r] + p->bias[r];
  }
}

static void run_item(void* arg, uint32_t i) {
  const elq_linear_step* step = (const elq_linear_step*)arg;
  for (uint32_t p = 0; p < step->n_products; ++p) {
    if (i < step->products[p].n_chunks) {
      run_chunk(step, step->products + p, i);
      return;
    }
    i -= step->products[p].n_chunks;
  }
}

void elq_linear_run(elq_linear_step* step) {
  uint32_t n = 0;
  for (uint32_t p = 0; p < step->n_products; ++p) n += step->products[p].n_chunks;
  elq_run(step->s, n, run_item, step);
}
