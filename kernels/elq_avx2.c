/*
 * AVX2 with F16C.
 *
 * vpmaddubsw adds pairs of products into int16 and saturates. Codes are therefore shifted down to
 * bit 0 first, and partial sums are widened before they can pass 32767: a column pair adds at most
 * 2 * code * 127, every 4 columns. 8-bit codes stay signed; |w| <= 128 times a with w's sign makes
 * 2 * 128 * 127 = 32512, widened at once.
 */
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#include "kernels/elq_internal.h"

#define ELQ_VEC __attribute__((target("avx2,f16c")))
#include "kernels/elq_vec_256.h"

enum { ELQ_MARK_8 = 0 };

ELQ_INLINE __m256i join(__m256i total, __m256i sum) {
  return _mm256_add_epi32(total, _mm256_madd_epi16(sum, _mm256_set1_epi16(1)));
}

ELQ_INLINE __m256i mul_add(__m256i sum, __m256i codes, __m256i a) {
  return _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, a));
}

ELQ_INLINE __m256i mul_add_8(__m256i sum, __m256i codes, __m256i a) {
  return join(sum, _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(a, codes)));
}

/* 8 pair sums a unit: 8 * n * 2 * (2^bits - 1) * 127 <= 32767. */
static inline uint32_t partial_units(uint32_t bits) {
  switch (bits) {
    case 1:
      return 16;
    case 2:
      return 5;
    case 3:
      return 2;
    case 4:
      return 1;
    default:
      return 32; /* int32 already */
  }
}

#include "kernels/elq_x86_256.h"

const elq_impl elq_impl_avx2 = {"avx2",      has_avx2_f16c, matmul,
                                vec_dot_f32, vec_axpy_f32,  &vec_floats};
#endif /* __x86_64__ */

typedef int elq_avx2_not_empty; /* ISO C wants a declaration in every file */
