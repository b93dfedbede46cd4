/*
 * Rotary positions and causal attention with grouped heads.
 *
 * For one query at position i:
 *   s_j = (sum over d ascending of q_d * k_jd) * head_dim^-0.5   for j in [0, i]
 *   e_j = exp(s_j - max s), z = sum of e_j in 16 lanes (as dot_f32)
 *   out_d = (sum over j ascending of e_j * v_jd) * (1 / z)
 * The orders name no batch, so a token's result does not depend on its neighbours in a step.
 */
#include <math.h>

#include "kernels/elq_math.h"
#include "kernels/elq_session.h"

/* angle = position * theta^(-2i / head_dim), in double; libm's pow differs between machines, ours
 * does not. */
void elq_rope_tables(elq_session* s) {
  const uint32_t half = s->model->config.head_dim / 2;
  const double log_theta = elq_log(s->model->config.rope_theta);
  for (uint32_t i = 0; i < half; ++i) {
    const double frequency = elq_exp(-(double)i / (double)half * log_theta);
    for (uint32_t position = 0; position < s->max_tokens; ++position) {
      double sine = 0.0;
      double cosine = 0.0;
      elq_sin_cos((double)position * frequency, &sine, &cosine);
      s->rope_sin[(size_t)position * half + i] = (float)sine;
      s->rope_cos[(size_t)position * half + i] = (float)cosine;
    }
  }
}

/* Halves, not neighbours, are a pair (the layout of Hugging Face checkpoints). */
static void rotate(float* x, const float* cosine, const float* sine, uint32_t half) {
  for (uint32_t i = 0; i < half; ++i) {
    const float a = x[i];
    const float b = x[i + half];
    const float ac = a * cosine[i];
    const float bs = b * sine[i];
    const float bc = b * cosine[i];
    const float as = a * sine[i];
    x[i] = ac - bs;
    x[i + half] = bc + as;
  }
}

static float* cached_keys(const elq_session* s, uint32_t layer, uint32_t head) {
  const size_t plane = (size_t)layer * s->model->config.kv_heads + head;
  return s->keys + plane * s->cache_tokens * s->model->config.head_dim;
}

static float* cached_values(const elq_session* s, uint32_t layer, uint32_t head) {
  const size_t plane = (size_t)layer * s->model->config.kv_heads + head;
  return s->values + plane * s->cache_tokens * s->value_width;
}

void elq_attention_store(elq_session* s, uint32_t layer, uint32_t t) {
  const elq_config* c = &s->model->config;
  const uint32_t half = c->head_dim / 2;
  const uint32_t position = s->n_tokens + t;
  const float* cosine = s->rope_cos + (size_t)position * half;
  const float* sine = s->rope_sin + (size_t)position * half;
  float* q = s->q + (size_t)t * s->q_width;
  float* k = s->k + (size_t)t * s->kv_width;
  const float* v = s->v + (size_t)t * s->kv_width;
  for (uint32_t h = 0; h < c->heads; ++h) rotate(q + h * c->head_dim, cosine, sine, half);
  for (uint32_t h = 0; h < c->kv_heads; ++h) {
    float* head = k + h * c->head_dim;
    rotate(head, cosine, sine, half);
    float* keys = cached_keys(s, layer, h) +
                  (size_t)(position / ELQ_KEY_BLOCK) * c->head_dim * ELQ_KEY_BLOCK +
                  position % ELQ_KEY_BLOCK;
    for (uint32_t d = 0; d < c->head_dim; ++d) keys[(size_t)d * ELQ_KEY_BLOCK] = head[d];
    memcpy(cached_values(s, layer, h) + (size_t)position * s->value_width, v + h * c->head_dim,
           c->head_dim * sizeof(float));
  }
}

typedef struct elq_attend_job {
  elq_session* s;
  uint32_t layer;
  uint32_t n_tokens;
  uint32_t n_slots;
  uint32_t n_blocks; /* of tokens */
} elq_attend_job;

/* Up to four queries; limit[i] keys are visible to query i, limits ascending. */
typedef struct elq_queries {
  uint32_t n;
  const float* q[ELQ_ATTEND_QUERIES];
  float* out[ELQ_ATTEND_QUERIES];
  uint32_t limit[ELQ_ATTEND_QUERIES];
} elq_queries;

static void attend(const elq_session* s, uint32_t layer, uint32_t kv_head, uint32_t slot,
                   const elq_queries* queries) {
  const elq_float_ops* ops = s->impl->floats;
  const uint32_t head_dim = s->model->config.head_dim;
  const uint32_t width = s->value_width;
  const size_t stride = s->cache_tokens;
  const float* values = cached_values(s, layer, kv_head);
  float* scores = s->scores + (size_t)slot * ELQ_ATTEND_QUERIES * stride;
  float* mixed = s->mixed + (size_t)slot * ELQ_ATTEND_QUERIES * width;
  const uint32_t common = queries->limit[0];
  const uint32_t longest = queries->limit[queries->n - 1];
  const float scale = 1.0f / sqrtf((float)head_dim);
  ops->scores(queries->q, queries->n, cached_keys(s, layer, kv_head),
              (longest + ELQ_KEY_BLOCK - 1) / ELQ_KEY_BLOCK, head_dim, scale, scores, stride);
  float inverse[ELQ_ATTEND_QUERIES];
  for (uint32_t i = 0; i < queries->n; ++i) {
    inverse[i] = 1.0f / ops->exp_sum(scores + i * stride, queries->limit[i]);
  }
  memset(mixed, 0, (size_t)queries->n * width * sizeof(float));
  ops->mix(scores, stride, queries->n, 0, common, values, width, mixed);
  for (uint32_t i = 0; i < queries->n; ++i) {
    if (queries->limit[i] > common) {
      ops->mix(scores + i * stride, stride, 1, common, queries->limit[i], values, width,
               mixed + (size_t)i * width);
    }
    for (uint32_t d = 0; d < head_dim; ++d) {
      queries->out[i][d] = mixed[(size_t)i * width + d] * inverse[i];
    }
  }
}

/* One key-value head, a few tokens, all query heads of the group: their keys are read together. */
static void attend_block(const elq_attend_job* job, uint32_t slot, uint32_t kv_head,
                         uint32_t block) {
  elq_session* s = job->s;
  const elq_config* c = &s->model->config;
  const uint32_t per_kv = c->heads / c->kv_heads;
  const uint32_t first = block * ELQ_ATTEND_TOKENS;
  const uint32_t last = elq_min_u32(first + ELQ_ATTEND_TOKENS, job->n_tokens);
  elq_queries queries;
  queries.n = 0;
  for (uint32_t t = first; t < last; ++t) {
    for (uint32_t h = kv_head * per_kv; h < (kv_head + 1) * per_kv; ++h) {
      const size_t at = (size_t)t * s->q_width + (size_t)h * c->head_dim;
      queries.q[queries.n] = s->q + at;
      queries.out[queries.n] = s->attended + at;
      queries.limit[queries.n] = s->n_tokens + t + 1;
      if (++queries.n == ELQ_ATTEND_QUERIES) {
        attend(s, job->layer, kv_head, slot, &queries);
        queries.n = 0;
      }
    }
  }
  if (queries.n > 0) attend(s, job->layer, kv_head, slot, &queries);
}

static void attend_slot(void* arg, uint32_t slot) {
  const elq_attend_job* job = (const elq_attend_job*)arg;
  const uint32_t n = job->n_blocks * job->s->model->config.kv_heads;
  for (uint32_t i = slot; i < n; i += job->n_slots) {
    attend_block(job, slot, i / job->n_blocks, i % job->n_blocks);
  }
}

void elq_attention_run(elq_session* s, uint32_t layer, uint32_t n) {
  elq_attend_job job = {s, layer, n, 0, (n + ELQ_ATTEND_TOKENS - 1) / ELQ_ATTEND_TOKENS};
  job.n_slots = elq_min_u32(ELQ_ATTEND_SLOTS, job.n_blocks * s->model->config.kv_heads);
  elq_run(s, job.n_slots, attend_slot, &job);
}
