/*
 * Golden vectors: made once where the package is written, compared on every device and with every
 * implementation. A difference means that the device would compute another model.
 *
 * Activations of a vector: x_i = (float)(r_i - 2^23) * 2^-20 with r_i the top 24 bits of the i-th
 * output of splitmix64 (S. Vigna, public domain) started at the vector's seed; both steps are
 * exact.
 *
 * These functions allocate (a session, one row of logits), unlike the kernels: they run once per
 * install.
 */
#include <stdlib.h>

#include "kernels/elq_internal.h"
#include "kernels/elq_model.h"

static uint64_t splitmix64(uint64_t* state) {
  *state += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t z = *state;
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* ---------------------------------------------------------------- one matrix */

/* Room for one quantized vector of the matrix; a single block, freed by its owner. */
typedef struct kat_vector {
  float* x;
  int8_t* values;
  int32_t* sums;
  float kept[ELQ_MAX_KEPT_COLUMNS];
} kat_vector;

static int kat_vector_new(const elq_matrix* m, kat_vector* v) {
  const size_t words = (size_t)m->cols + m->n_groups + (m->padded_cols + 3u) / 4u;
  v->x = (float*)calloc(words, sizeof(float));
  if (v->x == NULL) return -1;
  v->sums = (int32_t*)(void*)(v->x + m->cols);
  v->values = (int8_t*)(void*)(v->sums + m->n_groups);
  return 0;
}

/* Panel by panel, so that outputs need 16 floats however tall the matrix is. */
static elq_status matrix_crc(const elq_matrix* m, uint32_t seed, const elq_impl* impl,
                             uint32_t* crc) {
  kat_vector v;
  if (kat_vector_new(m, &v) != 0) return ELQ_ERR_MEMORY;
  uint64_t state = seed;
  for (uint32_t i = 0; i < m->cols; ++i) {
    const int32_t r = (int32_t)(splitmix64(&state) >> 40);
    v.x[i] = (float)(r - (1 << 23)) * 0x1p-20f;
  }
  elq_activations token = {v.values, v.sums, 0.0f, v.kept};
  elq_quantize_activations(m, v.x, v.values, v.sums, v.kept, &token.scale);
  *crc = 0;
  for (uint32_t panel = 0; panel < m->padded_rows / ELQ_PANEL_ROWS; ++panel) {
    elq_matrix one = *m; /* this panel alone, so that y holds its rows from 0 */
    const uint32_t first = panel * ELQ_PANEL_ROWS;
    one.rows = elq_min_u32(ELQ_PANEL_ROWS, m->rows - first);
    one.panels = elq_panel(m, panel);
    if (m->n_kept > 0) one.kept_value = m->kept_value + first;
    float y[ELQ_PANEL_ROWS];
    impl->matmul(&one, &token, 1, 0, 1, y, ELQ_PANEL_ROWS);
    *crc = elq_crc32c(*crc, y, one.rows * sizeof(float));
  }
  free(v.x);
  return ELQ_OK;
}

/* Is record i the first packed one of its (bits, scale mode, z2, role)? */
static int is_class_leader(const elq_model* model, uint32_t i) {
  const elq_tensor_record* t = model->package.tensors + i;
  if (t->layout != ELQ_LAYOUT_PACKED) return 0;
  for (uint32_t j = 0; j < i; ++j) {
    const elq_tensor_record* other = model->package.tensors + j;
    if (other->layout == t->layout && other->bits == t->bits && other->z2 == t->z2 &&
        other->scale_mode == t->scale_mode && other->role == t->role) {
      return 0;
    }
  }
  return 1;
}

static uint32_t count_classes(const elq_model* model) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < model->package.n_tensors; ++i) n += (uint32_t)is_class_leader(model, i);
  return n;
}

/* ---------------------------------------------------------------- the whole model */

static elq_kat_step step_of(const float* logits, uint32_t vocab) {
  elq_kat_step step = {0, 0, 0.0f, 0};
  step.crc32c = elq_crc32c(0, logits, vocab * sizeof(float));
  for (uint32_t i = 1; i < vocab; ++i) {
    if (logits[i] > logits[step.best_token]) step.best_token = i;
  }
  step.best_logit = logits[step.best_token];
  return step;
}

/* One step at a time: the prompt's logits do not depend on the cut (elq_runtime.h). */
static elq_status run_steps(const elq_model* model, const elq_impl* impl, const uint32_t* tokens,
                            uint32_t n_tokens, elq_kat_step* steps) {
  const elq_session_options options = {n_tokens, 1, impl, {NULL, NULL}};
  const uint32_t vocab = model->config.vocab;
  elq_session* session = NULL;
  elq_status status = elq_session_new(model, &options, &session);
  float* logits = (float*)calloc(vocab, sizeof(float));
  if (logits == NULL) status = ELQ_ERR_MEMORY;
  for (uint32_t i = 0; i < n_tokens && status == ELQ_OK; ++i) {
    status = elq_eval(session, tokens + i, 1, 1, logits);
    steps[i] = step_of(logits, vocab);
  }
  free(logits);
  elq_session_free(session);
  return status;
}

uint64_t elq_kat_bytes(const elq_model* model, uint32_t n_tokens) {
  return sizeof(elq_kat_header) + (uint64_t)count_classes(model) * sizeof(elq_kat_matrix) +
         (uint64_t)n_tokens * (sizeof(uint32_t) + sizeof(elq_kat_step));
}

elq_status elq_kat_write(const elq_model* model, const uint32_t* tokens, uint32_t n_tokens,
                         uint8_t* out) {
  if (model == NULL || out == NULL || (tokens == NULL && n_tokens > 0)) return ELQ_ERR_ARGUMENT;
  if (n_tokens > model->config.max_positions) return ELQ_ERR_ARGUMENT;
  const elq_kat_header header = {1, count_classes(model), n_tokens, 0};
  memcpy(out, &header, sizeof header);
  out += sizeof header;
  for (uint32_t i = 0; i < model->package.n_tensors; ++i) {
    if (!is_class_leader(model, i)) continue;
    elq_kat_matrix record = {i, i + 1, 0, 0};
    const elq_status status =
        matrix_crc(&model->weights[i].packed, record.seed, elq_impl_best(), &record.crc32c);
    if (status != ELQ_OK) return status;
    memcpy(out, &record, sizeof record);
    out += sizeof record;
  }
  if (n_tokens == 0) return ELQ_OK;
  memcpy(out, tokens, n_tokens * sizeof(uint32_t));
  out += n_tokens * sizeof(uint32_t);
  elq_kat_step* steps = (elq_kat_step*)calloc(n_tokens, sizeof *steps);
  if (steps == NULL) return ELQ_ERR_MEMORY;
  const elq_status status = run_steps(model, elq_impl_best(), tokens, n_tokens, steps);
  if (status == ELQ_OK) memcpy(out, steps, n_tokens * sizeof *steps);
  free(steps);
  return status;
}

/* ---------------------------------------------------------------- checking */

typedef struct kat_view {
  elq_kat_header header;
  const elq_kat_matrix* matrices;
  const uint32_t* tokens;
  const uint8_t* steps; /* 4-byte aligned records */
} kat_view;

static elq_status view_section(const elq_model* model, kat_view* view, elq_error_info* info) {
  const elq_toc_entry* section = model->package.kat_section;
  if (section == NULL) return elq_refuse(info, ELQ_ERR_INCONSISTENT, "kat: no section", 0);
  const uint8_t* bytes = elq_package_section(&model->package, section);
  if (section->stored_bytes < sizeof view->header) {
    return elq_refuse(info, ELQ_ERR_TRUNCATED, "kat.header", section->offset);
  }
  memcpy(&view->header, bytes, sizeof view->header);
  if (view->header.version != 1) {
    return elq_refuse(info, ELQ_ERR_UNSUPPORTED, "kat.version", section->offset);
  }
  const uint64_t matrices = (uint64_t)view->header.n_matrices * sizeof(elq_kat_matrix);
  const uint64_t tokens = (uint64_t)view->header.n_tokens * sizeof(uint32_t);
  const uint64_t steps = (uint64_t)view->header.n_tokens * sizeof(elq_kat_step);
  if (view->header.reserved != 0 ||
      section->stored_bytes != sizeof view->header + matrices + tokens + steps) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "kat.header", section->offset);
  }
  if (view->header.n_tokens > model->config.max_positions) {
    return elq_refuse(info, ELQ_ERR_LIMIT, "kat.n_tokens", section->offset);
  }
  bytes += sizeof view->header;
  view->matrices = (const elq_kat_matrix*)(const void*)bytes;
  view->tokens = (const uint32_t*)(const void*)(bytes + matrices);
  view->steps = bytes + matrices + tokens;
  return ELQ_OK;
}

static elq_status check_matrices(const elq_model* model, const kat_view* view, const elq_impl* impl,
                                 elq_error_info* info) {
  for (uint32_t i = 0; i < view->header.n_matrices; ++i) {
    const elq_kat_matrix* record = view->matrices + i;
    const uint64_t at = (uint64_t)((const uint8_t*)record - model->package.image);
    const elq_matrix* m = elq_model_matrix(model, record->tensor);
    uint32_t crc = 0;
    if (m == NULL) return elq_refuse(info, ELQ_ERR_INCONSISTENT, "kat.tensor", at);
    const elq_status status = matrix_crc(m, record->seed, impl, &crc);
    if (status != ELQ_OK) return elq_refuse(info, status, "kat.matrix", at);
    if (crc != record->crc32c) return elq_refuse(info, ELQ_ERR_SELFTEST, "kat.matrix", at);
  }
  return ELQ_OK;
}

elq_status elq_selftest(const elq_model* model, const elq_impl* impl, elq_error_info* info) {
  if (model == NULL) return elq_refuse(info, ELQ_ERR_ARGUMENT, "model", 0);
  if (impl == NULL) impl = elq_impl_best();
  kat_view view;
  memset(&view, 0, sizeof view);
  elq_status status = view_section(model, &view, info);
  if (status == ELQ_OK) status = check_matrices(model, &view, impl, info);
  if (status != ELQ_OK || view.header.n_tokens == 0) return status;
  elq_kat_step* steps = (elq_kat_step*)calloc(view.header.n_tokens, sizeof *steps);
  if (steps == NULL) return elq_refuse(info, ELQ_ERR_MEMORY, "kat.steps", 0);
  status = run_steps(model, impl, view.tokens, view.header.n_tokens, steps);
  if (status != ELQ_OK) elq_refuse(info, status, "kat.tokens", 0);
  for (uint32_t i = 0; i < view.header.n_tokens && status == ELQ_OK; ++i) {
    const uint8_t* golden = view.steps + i * sizeof *steps;
    if (memcmp(golden, steps + i, sizeof *steps) != 0) {
      const uint64_t at = (uint64_t)(golden - model->package.image);
      status = elq_refuse(info, ELQ_ERR_SELFTEST, "kat.step", at);
    }
  }
  free(steps);
  return status;
}
