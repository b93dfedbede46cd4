/*
 * The reference runtime: opens a package in memory, runs prefill and decode with a KV cache.
 *
 * C11 and libm only. It never prints, never aborts, has no global state. It trusts no byte of the
 * package: every length, offset and enum is checked against elq_layout.h before use. Section CRCs
 * are checked at open; SHA-256 and signatures are the business of `elastiq verify`.
 */
#ifndef ELQ_RUNTIME_H
#define ELQ_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/elq_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum elq_status {
  ELQ_OK = 0,
  ELQ_ERR_ARGUMENT = 1, /* a null pointer, a token id >= vocab, a size of zero */
  ELQ_ERR_MEMORY = 2,
  ELQ_ERR_TRUNCATED = 3, /* fewer bytes than declared */
  ELQ_ERR_MAGIC = 4,
  ELQ_ERR_VERSION = 5,
  ELQ_ERR_CHECKSUM = 6,
  ELQ_ERR_LIMIT = 7,        /* a value above its limit in elq_layout.h */
  ELQ_ERR_INCONSISTENT = 8, /* fields that contradict each other, a missing tensor or key */
  ELQ_ERR_UNSUPPORTED = 9,  /* unknown feature, layout, or a compressed section the runtime needs */
  ELQ_ERR_FULL = 10,        /* the KV cache has no room for these tokens */
  ELQ_ERR_SELFTEST = 11     /* a golden vector differs */
} elq_status;

const char* elq_status_text(elq_status status);

/* Where an open failed: a field name and a byte offset in the image. Static text. */
typedef struct elq_error_info {
  const char* field;
  uint64_t offset;
} elq_error_info;

typedef struct elq_config {
  uint32_t hidden, layers, heads, kv_heads, head_dim, ffn, vocab, max_positions;
  uint32_t bos, eos; /* UINT32_MAX: none */
  uint32_t add_bos;
  float rms_eps;
  double rope_theta;
} elq_config;

typedef struct elq_model elq_model;
typedef struct elq_session elq_session;

/* Opens a package image. The image is 64-byte aligned, not copied, and outlives the model. info may
 * be NULL. */
elq_status elq_model_open(const void* image, uint64_t image_bytes, elq_model** out,
                          elq_error_info* info);
void elq_model_close(elq_model* model);
const elq_config* elq_model_config(const elq_model* model);
/* Packed matrices by TENS index, for self-tests and benchmarks; NULL when that tensor is not
 * packed. */
const elq_matrix* elq_model_matrix(const elq_model* model, uint32_t tensor);
uint32_t elq_model_tensor_count(const elq_model* model);

/* Runs fn(arg, i) for i in [0, n), in any order, on any threads, and returns when all are done. The
 * runtime's results do not depend on how. NULL runs them one after another on the caller's thread.
 */
typedef struct elq_parallel {
  void (*run)(void* pool, uint32_t n, void (*fn)(void* arg, uint32_t i), void* arg);
  void* pool;
} elq_parallel;

typedef struct elq_session_options {
  uint32_t max_tokens; /* KV cache length, 1..max_positions */
  uint32_t
      max_batch; /* most tokens per elq_eval step inside; longer prompts are cut into such steps */
  const elq_impl* impl; /* NULL: elq_impl_best() */
  elq_parallel parallel;
} elq_session_options;

/* Allocates everything a session will ever need; elq_eval allocates nothing. */
elq_status elq_session_new(const elq_model* model, const elq_session_options* options,
                           elq_session** out);
void elq_session_free(elq_session* session);
uint64_t elq_session_bytes(const elq_session* session);
/* Forgets all tokens from position n on (0: everything). */
elq_status elq_session_rewind(elq_session* session, uint32_t n);
uint32_t elq_session_tokens(const elq_session* session);

/*
 * Appends n tokens and writes the logits of the last n_logits of them.
 * Shapes  tokens: n. logits: n_logits x vocab, row-major; n_logits in [0, n], logits may be NULL
 * when 0. Errors  ELQ_ERR_ARGUMENT, ELQ_ERR_FULL; the session is unchanged then.
 */
elq_status elq_eval(elq_session* session, const uint32_t* tokens, uint32_t n, uint32_t n_logits,
                    float* logits);

/* Golden vectors. elq_kat_bytes / elq_kat_write make the section's bytes for the opened model;
 * elq_selftest checks a package against its own KAT section with the given implementation (NULL:
 * best). */
uint64_t elq_kat_bytes(const elq_model* model, uint32_t n_tokens);
elq_status elq_kat_write(const elq_model* model, const uint32_t* tokens, uint32_t n_tokens,
                         uint8_t* out);
elq_status elq_selftest(const elq_model* model, const elq_impl* impl, elq_error_info* info);

#ifdef __cplusplus
}
#endif

#endif /* ELQ_RUNTIME_H */
