/* A session's memory and the steps elq_eval is made of. Shared by the runtime's own files only. */
#ifndef ELQ_SESSION_H
#define ELQ_SESSION_H

#include "kernels/elq_internal.h"
#include "kernels/elq_model.h"
#include "kernels/elq_runtime.h"

enum {
  ELQ_ACT_SETS = 3,      /* q, k, v may keep different columns */
  ELQ_ATTEND_TOKENS = 8, /* tokens of one attention work item */
  ELQ_ATTEND_SLOTS = 16, /* most work items at once, each with its own scores */
  ELQ_TOKEN_JOB = 8,     /* tokens of one element-wise work item */
  ELQ_TAKEN_BYTES = 64   /* alignment of every buffer */
};

/* Quantized activations of a step, one set per group of matrices that agree on group size and kept
 * columns. */
typedef struct elq_act_set {
  int8_t* values; /* max_batch x act_cols */
  int32_t* sums;  /* max_batch x act_groups */
  float* kept;    /* max_batch x ELQ_MAX_KEPT_COLUMNS */
  elq_activations* tokens;
} elq_act_set;

struct elq_session {
  const elq_model* model;
  const elq_impl* impl;
  elq_parallel parallel;
  uint32_t max_tokens;
  uint32_t max_batch;
  uint32_t n_tokens;
  uint64_t bytes;

  /* Sizes the buffers were made with. */
  uint32_t q_width;      /* heads x head_dim */
  uint32_t kv_width;     /* kv_heads x head_dim */
  uint32_t value_width;  /* head_dim, padded to 16 */
  uint32_t cache_tokens; /* max_tokens, padded to ELQ_KEY_BLOCK */
  uint32_t act_cols;
  uint32_t act_groups;

  float* x;      /* residual stream, max_batch x hidden */
  float* normed; /* max_batch x hidden */
  float* delta;  /* what a block half adds to x */
  float* q;
  float* k;
  float* v;
  float* attended; /* max_batch x q_width */
  float* gate;     /* max_batch x ffn */
  float* up;
  elq_act_set acts[ELQ_ACT_SETS];
  float* keys;     /* [layer][kv_head][block of 16 tokens][head_dim][16] */
  float* values;   /* [layer][kv_head][token][value_width] */
  float* rope_cos; /* [position][head_dim / 2] */
  float* rope_sin;
  float* scores; /* per slot: ELQ_ATTEND_QUERIES x cache_tokens */
  float* mixed;  /* per slot: ELQ_ATTEND_QUERIES x value_width */
};

void elq_run(const elq_session* s, uint32_t n, void (*fn)(void* arg, uint32_t i), void* arg);

/* One matrix applied to a step: y[t] = W x[t] + bias. */
typedef struct elq_product {
  const elq_weight* w;
  const float* bias;
  float* y;
  size_t y_stride;
  uint32_t set;        /* which act set holds its quantized input */
  uint32_t chunk_rows; /* rows per work item */
  uint32_t n_chunks;
} elq_product;

typedef struct elq_linear_step {
  elq_session* s;
  const float* x; /* n_tokens x w->cols, float */
  size_t x_stride;
  uint32_t n_tokens;
  uint32_t n_products;
  elq_product products[ELQ_ACT_SETS];
} elq_linear_step;

/* Adds a product of `w` to the step and decides whose act set it shares. */
void elq_linear_add(elq_linear_step* step, const elq_weight* w, const float* bias, float* y,
                    size_t y_stride);
/* Quantizes the inputs of token t for every distinct act set. */
void elq_linear_quantize(const elq_linear_step* step, uint32_t t);
/* Runs all products, in parallel over chunks of rows. */
void elq_linear_run(elq_linear_step* step);

/* Rotates q and k of token t of the step (at position s->n_tokens + t) and stores k and v in the
 * caches. */
void elq_attention_store(elq_session* s, uint32_t layer, uint32_t t);
/* attended[t] for n tokens whose keys and values are stored. */
void elq_attention_run(elq_session* s, uint32_t layer, uint32_t n);
/* Fills the tables of cosines and sines. */
void elq_rope_tables(elq_session* s);

#endif /* ELQ_SESSION_H */
