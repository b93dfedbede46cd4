/* An opened package as the runtime uses it: roles resolved to matrices, vectors as float32. */
#ifndef ELQ_MODEL_H
#define ELQ_MODEL_H

#include "kernels/elq_package.h"
#include "kernels/elq_runtime.h"

typedef struct elq_weight {
  uint32_t layout;
  uint32_t rows;
  uint32_t cols;
  const uint8_t* bytes;
  elq_matrix packed; /* when layout is ELQ_LAYOUT_PACKED */
} elq_weight;

enum { ELQ_LINEARS = ELQ_ROLE_DOWN - ELQ_ROLE_Q + 1 };

/* One block. Linears are indexed by role - ELQ_ROLE_Q; a bias is NULL when there is none. */
typedef struct elq_layer {
  const elq_weight* linear[ELQ_LINEARS];
  const float* bias[ELQ_LINEARS];
  const float* attn_norm;
  const float* mlp_norm;
} elq_layer;

struct elq_model {
  elq_package package;
  elq_config config;
  elq_weight* weights; /* by TENS index */
  elq_layer* layers;
  float* vectors; /* norms and biases, converted */
  const elq_weight* embed;
  const elq_weight* head;
  const float* final_norm;
};

#endif /* ELQ_MODEL_H */
