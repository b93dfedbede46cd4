/* elq_vec.h for 256-bit x86, and the inline attribute of its kernels. */
#ifndef ELQ_VEC_256_H
#define ELQ_VEC_256_H

#define ELQ_VEC_BYTES 32
#define ELQ_VEC_HALF(p) ((elq_vn)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(const void*)(p))))
#include "kernels/elq_vec.h"

#define ELQ_INLINE ELQ_VEC __attribute__((always_inline)) static inline

#endif /* ELQ_VEC_256_H */
