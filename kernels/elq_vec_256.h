/* elq_vec.h for 256-bit x86, and the inline attribute of its kernels. */
#ifndef ELQ_VEC_256_H
#define ELQ_VEC_256_H

#define ELQ_VEC_HALF(p, out)                                                                     \
  do {                                                                                           \
    const __m256 half0 = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(const void*)(p)));     \
    const __m256 half1 = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(const void*)(p) + 1)); \
    memcpy((out), &half0, 32);                                                                   \
    memcpy((char*)(out) + 32, &half1, 32);                                                       \
  } while (0)
#include "kernels/elq_vec.h"

#define ELQ_INLINE ELQ_VEC __attribute__((always_inline)) static inline

#endif /* ELQ_VEC_256_H */
