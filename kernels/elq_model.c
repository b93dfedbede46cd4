/*
 * From checked tables to a usable model: hyperparameters, then every tensor to its place, its shape
 * compared with the hyperparameters, then nothing may be missing. Loop bounds come from the tensors
 * present.
 */
#include "kernels/elq_model.h"

#include <stdlib.h>

#include "kernels/elq_internal.h"

/* ---------------------------------------------------------------- hyperparameters */

static elq_status read_u32(const elq_package* p, const char* key, uint64_t low, uint64_t high,
                           uint32_t* out, elq_error_info* info) {
  const elq_meta_entry* e = elq_package_meta(p, key, ELQ_META_U64);
  if (e == NULL) return elq_refuse(info, ELQ_ERR_INCONSISTENT, key, p->meta_section->offset);
  if (e->value < low || e->value > high) {
    const uint64_t at = (uint64_t)((const uint8_t*)e - p->image);
    return elq_refuse(info, ELQ_ERR_LIMIT, key, at);
  }
  *out = (uint32_t)e->value;
  return ELQ_OK;
}

/* A token id below vocab, or UINT64_MAX for none. */
static elq_status read_token(const elq_package* p, const char* key, uint32_t vocab, uint32_t* out,
                             elq_error_info* info) {
  const elq_meta_entry* e = elq_package_meta(p, key, ELQ_META_U64);
  if (e != NULL && e->value == UINT64_MAX) {
    *out = UINT32_MAX;
    return ELQ_OK;
  }
  return read_u32(p, key, 0, vocab - 1u, out, info);
}

static elq_status read_f64(const elq_package* p, const char* key, double low, double high,
                           double* out, elq_error_info* info) {
  const elq_meta_entry* e = elq_package_meta(p, key, ELQ_META_F64);
  if (e == NULL) return elq_refuse(info, ELQ_ERR_INCONSISTENT, key, p->meta_section->offset);
  memcpy(out, &e->value, sizeof *out);
  if (!(*out >= low && *out <= high)) {
    const uint64_t at = (uint64_t)((const uint8_t*)e - p->image);
    return elq_refuse(info, ELQ_ERR_LIMIT, key, at);
  }
  return ELQ_OK;
}

static elq_status read_architecture(const elq_package* p, elq_error_info* info) {
  static const char llama[] = "llama";
  const elq_meta_entry* e = elq_package_meta(p, "model.architecture", ELQ_META_TEXT);
  const uint64_t at = p->meta_section->offset;
  if (e == NULL) return elq_refuse(info, ELQ_ERR_INCONSISTENT, "model.architecture", at);
  const uint8_t* text = elq_package_section(p, p->meta_section) + e->value;
  if (e->count != sizeof llama - 1 || memcmp(text, llama, sizeof llama - 1) != 0) {
    return elq_refuse(info, ELQ_ERR_UNSUPPORTED, "model.architecture", at);
  }
  return ELQ_OK;
}

#define TRY(expression)                          \
  do {                                           \
    const elq_status try_status = (expression);  \
    if (try_status != ELQ_OK) return try_status; \
  } while (0)

static elq_status read_config(const elq_package* p, elq_config* c, elq_error_info* info) {
  double eps = 0.0;
  TRY(read_architecture(p, info));
  TRY(read_u32(p, "model.hidden", 1, ELQ_MAX_DIM, &c->hidden, info));
  TRY(read_u32(p, "model.layers", 1, ELQ_MAX_LAYERS, &c->layers, info));
  TRY(read_u32(p, "model.heads", 1, 65536, &c->heads, info));
  TRY(read_u32(p, "model.kv_heads", 1, c->heads, &c->kv_heads, info));
  TRY(read_u32(p, "model.head_dim", 2, 4096, &c->head_dim, info));
  TRY(read_u32(p, "model.ffn", 1, ELQ_MAX_DIM, &c->ffn, info));
  TRY(read_u32(p, "model.vocab", 1, ELQ_MAX_DIM, &c->vocab, info));
  TRY(read_u32(p, "model.max_positions", 1, ELQ_MAX_DIM, &c->max_positions, info));
  TRY(read_token(p, "tokenizer.bos", c->vocab, &c->bos, info));
  TRY(read_token(p, "tokenizer.eos", c->vocab, &c->eos, info));
  TRY(read_u32(p, "tokenizer.add_bos", 0, 1, &c->add_bos, info));
  TRY(read_f64(p, "model.rms_eps", 0.0, 1.0, &eps, info));
  TRY(read_f64(p, "model.rope_theta", 1.0, 1e12, &c->rope_theta, info));
  c->rms_eps = (float)eps;
  const uint64_t at = p->meta_section->offset;
  if (c->heads % c->kv_heads != 0) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "model.kv_heads", at);
  }
  if (c->head_dim % 2 != 0) return elq_refuse(info, ELQ_ERR_INCONSISTENT, "model.head_dim", at);
  if (c->add_bos && c->bos == UINT32_MAX) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "tokenizer.add_bos", at);
  }
  return ELQ_OK;
}

/* ---------------------------------------------------------------- tensors to places */

static int is_vector(uint32_t role) {
  return role > ELQ_ROLE_BIAS || role == ELQ_ROLE_FINAL_NORM || role == ELQ_ROLE_ATTN_NORM ||
         role == ELQ_ROLE_MLP_NORM;
}

/* rows x cols the hyperparameters ask of a role; a vector is 1 x n. heads * head_dim < 2^29. */
static void expected_shape(const elq_config* c, uint32_t role, uint32_t* rows, uint32_t* cols) {
  const uint32_t base = role >= ELQ_ROLE_BIAS ? role - ELQ_ROLE_BIAS : role;
  *cols = c->hidden;
  switch (base) {
    case ELQ_ROLE_EMBED:
    case ELQ_ROLE_HEAD:
      *rows = c->vocab;
      break;
    case ELQ_ROLE_Q:
      *rows = c->heads * c->head_dim;
      break;
    case ELQ_ROLE_K:
    case ELQ_ROLE_V:
      *rows = c->kv_heads * c->head_dim;
      break;
    case ELQ_ROLE_O:
      *rows = c->hidden;
      *cols = c->heads * c->head_dim;
      break;
    case ELQ_ROLE_GATE:
    case ELQ_ROLE_UP:
      *rows = c->ffn;
      break;
    case ELQ_ROLE_DOWN:
      *rows = c->hidden;
      *cols = c->ffn;
      break;
    default:
      *rows = 1;
      break;
  }
  if (role >= ELQ_ROLE_BIAS) {
    *cols = *rows;
    *rows = 1;
  }
}

static elq_status check_place(const elq_model* m, const elq_tensor_record* t, uint64_t at,
                              elq_error_info* info) {
  const int in_block = t->role >= ELQ_ROLE_ATTN_NORM;
  uint32_t rows = 0;
  uint32_t cols = 0;
  if (t->layer >= (in_block ? m->config.layers : 1u)) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "tensor.layer", at);
  }
  expected_shape(&m->config, t->role, &rows, &cols);
  if (t->rows != rows || t->cols != cols) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "tensor.rows", at);
  }
  if (is_vector(t->role) && t->layout == ELQ_LAYOUT_PACKED) {
    return elq_refuse(info, ELQ_ERR_UNSUPPORTED, "tensor.layout", at);
  }
  return ELQ_OK;
}

static void convert(const elq_weight* w, float* out) {
  for (uint32_t i = 0; i < w->cols; ++i) {
    const uint16_t half = w->layout == ELQ_LAYOUT_F32 ? 0 : elq_load_u16(w->bytes + 2u * (size_t)i);
    if (w->layout == ELQ_LAYOUT_F32) out[i] = elq_load_f32(w->bytes + 4u * (size_t)i);
    if (w->layout == ELQ_LAYOUT_F16) out[i] = elq_float_of_half(half);
    if (w->layout == ELQ_LAYOUT_BF16) out[i] = elq_float_of_bf16(half);
  }
}

/* The slot of a vector, then of a matrix; roles and layers have been checked. */
static const float** vector_slot(elq_model* m, const elq_tensor_record* t) {
  if (t->role == ELQ_ROLE_FINAL_NORM) return &m->final_norm;
  elq_layer* layer = m->layers + t->layer;
  if (t->role == ELQ_ROLE_ATTN_NORM) return &layer->attn_norm;
  if (t->role == ELQ_ROLE_MLP_NORM) return &layer->mlp_norm;
  return &layer->bias[t->role - ELQ_ROLE_BIAS - ELQ_ROLE_Q];
}

static const elq_weight** matrix_slot(elq_model* m, const elq_tensor_record* t) {
  if (t->role == ELQ_ROLE_EMBED) return &m->embed;
  if (t->role == ELQ_ROLE_HEAD) return &m->head;
  return &m->layers[t->layer].linear[t->role - ELQ_ROLE_Q];
}

static elq_status place_tensors(elq_model* m, elq_error_info* info) {
  float* vector = m->vectors;
  for (uint32_t i = 0; i < m->package.n_tensors; ++i) {
    const elq_tensor_record* t = m->package.tensors + i;
    const uint64_t at = m->package.tensor_section->offset + (uint64_t)i * sizeof *t;
    elq_weight* w = m->weights + i;
    w->layout = t->layout;
    w->rows = t->rows;
    w->cols = t->cols;
    w->bytes = elq_package_tensor(&m->package, t);
    if (t->layout == ELQ_LAYOUT_PACKED && elq_package_matrix(&m->package, t, &w->packed) != 0) {
      return elq_refuse(info, ELQ_ERR_INCONSISTENT, "tensor.bits", at);
    }
    TRY(check_place(m, t, at, info));
    const int taken = is_vector(t->role) ? *vector_slot(m, t) != NULL : *matrix_slot(m, t) != NULL;
    if (taken) return elq_refuse(info, ELQ_ERR_INCONSISTENT, "tensor.role twice", at);
    if (!is_vector(t->role)) {
      *matrix_slot(m, t) = w;
      continue;
    }
    convert(w, vector);
    *vector_slot(m, t) = vector;
    vector += t->cols;
  }
  return ELQ_OK;
}

static elq_status check_complete(elq_model* m, elq_error_info* info) {
  if (m->embed == NULL || m->final_norm == NULL) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "missing embedding or final norm", 0);
  }
  for (uint32_t l = 0; l < m->config.layers; ++l) {
    const elq_layer* layer = m->layers + l;
    int complete = layer->attn_norm != NULL && layer->mlp_norm != NULL;
    for (int i = 0; i < ELQ_LINEARS; ++i) complete &= layer->linear[i] != NULL;
    if (!complete) return elq_refuse(info, ELQ_ERR_INCONSISTENT, "missing tensor of a layer", l);
  }
  if (m->head == NULL) m->head = m->embed;
  return ELQ_OK;
}

static elq_status build(elq_model* m, elq_error_info* info) {
  TRY(read_config(&m->package, &m->config, info));
  /* Before memory is taken for them: every layer has nine tensors, so there cannot be more layers.
   */
  if (m->config.layers > m->package.n_tensors / 9u) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "model.layers", 0);
  }
  size_t vector_values = 1;
  for (uint32_t i = 0; i < m->package.n_tensors; ++i) {
    const elq_tensor_record* t = m->package.tensors + i;
    const uint64_t at = m->package.tensor_section->offset + (uint64_t)i * sizeof *t;
    TRY(check_place(m, t, at, info)); /* so that vectors are as long as the bytes present */
    if (is_vector(t->role)) vector_values += t->cols;
  }
  m->weights = (elq_weight*)calloc(m->package.n_tensors, sizeof *m->weights);
  m->layers = (elq_layer*)calloc(m->config.layers, sizeof *m->layers);
  m->vectors = (float*)calloc(vector_values, sizeof *m->vectors);
  if (m->weights == NULL || m->layers == NULL || m->vectors == NULL) {
    return elq_refuse(info, ELQ_ERR_MEMORY, "model", 0);
  }
  TRY(place_tensors(m, info));
  return check_complete(m, info);
}

elq_status elq_model_open(const void* image, uint64_t image_bytes, elq_model** out,
                          elq_error_info* info) {
  if (out == NULL) return elq_refuse(info, ELQ_ERR_ARGUMENT, "out", 0);
  *out = NULL;
  elq_model* m = (elq_model*)calloc(1, sizeof *m);
  if (m == NULL) return elq_refuse(info, ELQ_ERR_MEMORY, "model", 0);
  elq_status status = elq_package_open(image, image_bytes, &m->package, info);
  if (status == ELQ_OK) status = build(m, info);
  if (status != ELQ_OK) {
    elq_model_close(m);
    return status;
  }
  *out = m;
  return ELQ_OK;
}

void elq_model_close(elq_model* model) {
  if (model == NULL) return;
  free(model->weights);
  free(model->layers);
  free(model->vectors);
  free(model);
}

const elq_config* elq_model_config(const elq_model* model) {
  return &model->config;
}

uint32_t elq_model_tensor_count(const elq_model* model) {
  return model->package.n_tensors;
}

const elq_matrix* elq_model_matrix(const elq_model* model, uint32_t tensor) {
  if (tensor >= model->package.n_tensors) return NULL;
  const elq_weight* w = model->weights + tensor;
  return w->layout == ELQ_LAYOUT_PACKED ? &w->packed : NULL;
}

const char* elq_status_text(elq_status status) {
  static const char* const text[] = {
      "ok",
      "bad argument",
      "out of memory",
      "truncated",
      "not an elastiq package",
      "unsupported format version",
      "checksum differs",
      "value above its limit",
      "inconsistent package",
      "unsupported feature",
      "no room in the KV cache",
      "golden vector differs",
  };
  return (size_t)status < sizeof text / sizeof text[0] ? text[status] : "unknown status";
}
