/* Sessions: memory, one step of the decoder, and the cut of a prompt into steps. */
#include <math.h>
#include <stdlib.h>

#include "kernels/elq_session.h"

/* ---------------------------------------------------------------- memory */

/* Hands out aligned pieces; with base NULL it only counts. */
typedef struct elq_arena {
  uint8_t* base;
  uint64_t used;
  int overflow;
} elq_arena;

static void* take(elq_arena* arena, uint64_t count, uint64_t size) {
  const uint64_t most = SIZE_MAX / 4;
  if (size != 0 && count > most / size) arena->overflow = 1;
  if (arena->overflow) return NULL;
  const uint64_t bytes = (count * size + ELQ_TAKEN_BYTES - 1) / ELQ_TAKEN_BYTES * ELQ_TAKEN_BYTES;
  const uint64_t at = arena->used;
  if (bytes > most - at) {
    arena->overflow = 1;
    return NULL;
  }
  arena->used = at + bytes;
  return arena->base == NULL ? NULL : arena->base + at;
}

static void take_all(elq_session* s, elq_arena* arena) {
  const elq_config* c = &s->model->config;
  const uint64_t batch = s->max_batch;
  const uint64_t planes = (uint64_t)c->layers * c->kv_heads * s->cache_tokens;
  s->x = (float*)take(arena, batch * c->hidden, sizeof(float));
  s->normed = (float*)take(arena, batch * c->hidden, sizeof(float));
  s->delta = (float*)take(arena, batch * c->hidden, sizeof(float));
  s->q = (float*)take(arena, batch * s->q_width, sizeof(float));
  s->k = (float*)take(arena, batch * s->kv_width, sizeof(float));
  s->v = (float*)take(arena, batch * s->kv_width, sizeof(float));
  s->attended = (float*)take(arena, batch * s->q_width, sizeof(float));
  s->gate = (float*)take(arena, batch * c->ffn, sizeof(float));
  s->up = (float*)take(arena, batch * c->ffn, sizeof(float));
  for (uint32_t i = 0; i < ELQ_ACT_SETS; ++i) {
    elq_act_set* set = s->acts + i;
    set->values = (int8_t*)take(arena, batch * s->act_cols, 1);
    set->sums = (int32_t*)take(arena, batch * s->act_groups, sizeof(int32_t));
    set->kept = (float*)take(arena, batch * ELQ_MAX_KEPT_COLUMNS, sizeof(float));
    set->tokens = (elq_activations*)take(arena, batch, sizeof(elq_activations));
  }
  s->keys = (float*)take(arena, planes, c->head_dim * sizeof(float));
  s->values = (float*)take(arena, planes, s->value_width * sizeof(float));
  s->rope_cos = (float*)take(arena, (uint64_t)s->max_tokens * (c->head_dim / 2), sizeof(float));
  s->rope_sin = (float*)take(arena, (uint64_t)s->max_tokens * (c->head_dim / 2), sizeof(float));
  const uint64_t rows = ELQ_ATTEND_SLOTS * ELQ_ATTEND_QUERIES;
  s->scores = (float*)take(arena, rows * s->cache_tokens, sizeof(float));
  s->mixed = (float*)take(arena, rows * s->value_width, sizeof(float));
}

static uint32_t max_u32(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

static void set_sizes(elq_session* s) {
  const elq_model* m = s->model;
  s->q_width = m->config.heads * m->config.head_dim;
  s->kv_width = m->config.kv_heads * m->config.head_dim;
  s->value_width = (m->config.head_dim + 15u) / 16u * 16u;
  s->cache_tokens = (s->max_tokens + ELQ_KEY_BLOCK - 1u) / ELQ_KEY_BLOCK * ELQ_KEY_BLOCK;
  for (uint32_t i = 0; i < m->package.n_tensors; ++i) {
    if (m->weights[i].layout != ELQ_LAYOUT_PACKED) continue;
    s->act_cols = max_u32(s->act_cols, m->weights[i].packed.padded_cols);
    s->act_groups = max_u32(s->act_groups, m->weights[i].packed.n_groups);
  }
}

elq_status elq_session_new(const elq_model* model, const elq_session_options* options,
                           elq_session** out) {
  if (model == NULL || options == NULL || out == NULL) return ELQ_ERR_ARGUMENT;
  *out = NULL;
  if (options->max_tokens == 0 || options->max_tokens > model->config.max_positions ||
      options->max_batch == 0) {
    return ELQ_ERR_ARGUMENT;
  }
  elq_session s;
  memset(&s, 0, sizeof s);
  s.model = model;
  s.impl = options->impl != NULL ? options->impl : elq_impl_best();
  s.parallel = options->parallel;
  s.max_tokens = options->max_tokens;
  s.max_batch = elq_min_u32(options->max_batch, options->max_tokens);
  set_sizes(&s);
  elq_arena arena = {NULL, 0, 0};
  take(&arena, 1, sizeof s);
  take_all(&s, &arena);
  if (arena.overflow) return ELQ_ERR_MEMORY;
  s.bytes = arena.used + ELQ_TAKEN_BYTES;
  /* calloc: the kernels read whole blocks of keys, also those not written yet. */
  uint8_t* memory = (uint8_t*)calloc(1, (size_t)s.bytes);
  if (memory == NULL) return ELQ_ERR_MEMORY;
  const size_t skip = ELQ_TAKEN_BYTES - (uintptr_t)memory % ELQ_TAKEN_BYTES;
  memory[skip - 1] = (uint8_t)skip; /* so that free finds the start */
  arena.base = memory + skip;
  arena.used = 0;
  elq_session* session = (elq_session*)take(&arena, 1, sizeof s);
  take_all(&s, &arena);
  *session = s;
  elq_rope_tables(session);
  *out = session;
  return ELQ_OK;
}

void elq_session_free(elq_session* session) {
  if (session == NULL) return;
  uint8_t* base = (uint8_t*)session;
  free(base - base[-1]);
}

uint64_t elq_session_bytes(const elq_session* session) {
  return session->bytes;
}

uint32_t elq_session_tokens(const elq_session* session) {
  return session->n_tokens;
}

elq_status elq_session_rewind(elq_session* session, uint32_t n) {
  if (session == NULL || n > session->n_tokens) return ELQ_ERR_ARGUMENT;
  session->n_tokens = n;
  return ELQ_OK;
}

void elq_run(const elq_session* s, uint32_t n, void (*fn)(void* arg, uint32_t i), void* arg) {
  if (s->parallel.run != NULL && n > 1) {
    s->parallel.run(s->parallel.pool, n, fn, arg);
    return;
  }
  for (uint32_t i = 0; i < n; ++i) fn(arg, i);
}

/* ---------------------------------------------------------------- element-wise work, token by
 * token */

/* y = x / sqrt(mean(x^2) + eps) * weight. */
static void rms_norm(const elq_session* s, const float* x, const float* weight, float* y) {
  const uint32_t n = s->model->config.hidden;
  const float mean = s->impl->dot_f32(x, x, n) / (float)n;
  const float inverse = 1.0f / sqrtf(mean + s->model->config.rms_eps);
  for (uint32_t i = 0; i < n; ++i) y[i] = x[i] * inverse * weight[i];
}

typedef struct elq_token_job {
  elq_session* s;
  const elq_linear_step* next; /* whose inputs to quantize, or NULL */
  const float* norm;           /* weight of the norm before them, or NULL */
  uint32_t layer;
  uint32_t first;
  uint32_t n;
  int add_delta;
} elq_token_job;

static void run_tokens(elq_token_job* job, void (*fn)(void* arg, uint32_t i)) {
  elq_run(job->s, (job->n + ELQ_TOKEN_JOB - 1) / ELQ_TOKEN_JOB, fn, job);
}

/* x += delta, normed = norm(x), quantized for the next matrices. */
static void norm_item(void* arg, uint32_t item) {
  const elq_token_job* job = (const elq_token_job*)arg;
  const elq_session* s = job->s;
  const uint32_t hidden = s->model->config.hidden;
  const uint32_t end = elq_min_u32((item + 1) * ELQ_TOKEN_JOB, job->n);
  for (uint32_t t = job->first + item * ELQ_TOKEN_JOB; t < job->first + end; ++t) {
    float* x = s->x + (size_t)t * hidden;
    const float* delta = s->delta + (size_t)t * hidden;
    if (job->add_delta) {
      for (uint32_t i = 0; i < hidden; ++i) x[i] = x[i] + delta[i];
    }
    rms_norm(s, x, job->norm, s->normed + (size_t)t * hidden);
    elq_linear_quantize(job->next, t - job->first);
  }
}

static void store_item(void* arg, uint32_t item) {
  const elq_token_job* job = (const elq_token_job*)arg;
  const uint32_t end = elq_min_u32((item + 1) * ELQ_TOKEN_JOB, job->n);
  for (uint32_t t = item * ELQ_TOKEN_JOB; t < end; ++t) elq_attention_store(job->s, job->layer, t);
}

static void quantize_item(void* arg, uint32_t item) {
  const elq_token_job* job = (const elq_token_job*)arg;
  const uint32_t end = elq_min_u32((item + 1) * ELQ_TOKEN_JOB, job->n);
  for (uint32_t t = item * ELQ_TOKEN_JOB; t < end; ++t) elq_linear_quantize(job->next, t);
}

static void silu_item(void* arg, uint32_t item) {
  const elq_token_job* job = (const elq_token_job*)arg;
  const elq_session* s = job->s;
  const uint32_t ffn = s->model->config.ffn;
  const uint32_t end = elq_min_u32((item + 1) * ELQ_TOKEN_JOB, job->n);
  for (uint32_t t = item * ELQ_TOKEN_JOB; t < end; ++t) {
    s->impl->floats->silu_mul(s->gate + (size_t)t * ffn, s->up + (size_t)t * ffn, ffn);
    elq_linear_quantize(job->next, t);
  }
}

/* ---------------------------------------------------------------- one step */

static elq_linear_step new_step(elq_session* s, const float* x, size_t stride, uint32_t n) {
  elq_linear_step step;
  memset(&step, 0, sizeof step);
  step.s = s;
  step.x = x;
  step.x_stride = stride;
  step.n_tokens = n;
  return step;
}

static void add_role(elq_linear_step* step, const elq_layer* layer, uint32_t role, float* y,
                     size_t y_stride) {
  const uint32_t i = role - ELQ_ROLE_Q;
  elq_linear_add(step, layer->linear[i], layer->bias[i], y, y_stride);
}

static void attention_half(elq_session* s, uint32_t index, uint32_t n) {
  const elq_layer* layer = s->model->layers + index;
  const uint32_t hidden = s->model->config.hidden;
  elq_linear_step qkv = new_step(s, s->normed, hidden, n);
  add_role(&qkv, layer, ELQ_ROLE_Q, s->q, s->q_width);
  add_role(&qkv, layer, ELQ_ROLE_K, s->k, s->kv_width);
  add_role(&qkv, layer, ELQ_ROLE_V, s->v, s->kv_width);
  elq_token_job job = {s, &qkv, layer->attn_norm, index, 0, n, index > 0};
  run_tokens(&job, norm_item);
  elq_linear_run(&qkv);
  run_tokens(&job, store_item);
  elq_attention_run(s, index, n);
  elq_linear_step out = new_step(s, s->attended, s->q_width, n);
  add_role(&out, layer, ELQ_ROLE_O, s->delta, hidden);
  job.next = &out;
  run_tokens(&job, quantize_item);
  elq_linear_run(&out);
}

static void mlp_half(elq_session* s, uint32_t index, uint32_t n) {
  const elq_layer* layer = s->model->layers + index;
  const uint32_t hidden = s->model->config.hidden;
  const uint32_t ffn = s->model->config.ffn;
  elq_linear_step in = new_step(s, s->normed, hidden, n);
  add_role(&in, layer, ELQ_ROLE_GATE, s->gate, ffn);
  add_role(&in, layer, ELQ_ROLE_UP, s->up, ffn);
  elq_token_job job = {s, &in, layer->mlp_norm, index, 0, n, 1};
  run_tokens(&job, norm_item);
  elq_linear_run(&in);
  elq_linear_step down = new_step(s, s->gate, ffn, n);
  add_role(&down, layer, ELQ_ROLE_DOWN, s->delta, hidden);
  job.next = &down;
  run_tokens(&job, silu_item);
  elq_linear_run(&down);
}

static void write_logits(elq_session* s, uint32_t first, uint32_t n, float* logits) {
  const elq_config* c = &s->model->config;
  elq_linear_step head = new_step(s, s->normed + (size_t)first * c->hidden, c->hidden, n);
  elq_linear_add(&head, s->model->head, NULL, logits, c->vocab);
  elq_token_job job = {s, &head, s->model->final_norm, 0, first, n, 1};
  run_tokens(&job, norm_item);
  elq_linear_run(&head);
}

static void embed(const elq_session* s, uint32_t token, float* x) {
  const elq_weight* w = s->model->embed;
  if (w->layout == ELQ_LAYOUT_PACKED) {
    elq_dequantize_row(&w->packed, token, x);
    return;
  }
  for (uint32_t i = 0; i < w->cols; ++i) {
    const size_t at = (size_t)token * w->cols + i;
    if (w->layout == ELQ_LAYOUT_F32) {
      x[i] = elq_load_f32(w->bytes + 4 * at);
    } else {
      const uint16_t half = elq_load_u16(w->bytes + 2 * at);
      x[i] = w->layout == ELQ_LAYOUT_F16 ? elq_float_of_half(half) : elq_float_of_bf16(half);
    }
  }
}

static void eval_step(elq_session* s, const uint32_t* tokens, uint32_t n, uint32_t n_logits,
                      float* logits) {
  const elq_config* c = &s->model->config;
  for (uint32_t t = 0; t < n; ++t) embed(s, tokens[t], s->x + (size_t)t * c->hidden);
  for (uint32_t layer = 0; layer < c->layers; ++layer) {
    attention_half(s, layer, n);
    mlp_half(s, layer, n);
  }
  if (n_logits > 0) write_logits(s, n - n_logits, n_logits, logits);
  s->n_tokens += n;
}

elq_status elq_eval(elq_session* session, const uint32_t* tokens, uint32_t n, uint32_t n_logits,
                    float* logits) {
  if (session == NULL || tokens == NULL || n == 0 || n_logits > n) return ELQ_ERR_ARGUMENT;
  if (n_logits > 0 && logits == NULL) return ELQ_ERR_ARGUMENT;
  const uint32_t vocab = session->model->config.vocab;
  for (uint32_t i = 0; i < n; ++i) {
    if (tokens[i] >= vocab) return ELQ_ERR_ARGUMENT;
  }
  if (n > session->max_tokens - session->n_tokens) return ELQ_ERR_FULL;
  const uint32_t silent = n - n_logits; /* tokens before the first that wants logits */
  for (uint32_t start = 0; start < n; start += session->max_batch) {
    const uint32_t step = elq_min_u32(session->max_batch, n - start);
    uint32_t wanted = step;
    if (start < silent) wanted = start + step > silent ? start + step - silent : 0;
    eval_step(session, tokens + start, step, wanted, logits);
    if (wanted > 0) logits += (size_t)wanted * vocab;
  }
  return ELQ_OK;
}
