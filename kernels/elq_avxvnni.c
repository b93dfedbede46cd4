/*
 * AVX-VNNI: vpdpbusd in 256-bit registers, for CPUs that have it without AVX-512.
 */
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#include "kernels/elq_internal.h"

#define ELQ_VEC __attribute__((target("avx2,f16c,avxvnni")))
#include "kernels/elq_vec_256.h"

enum { ELQ_MARK_8 = 0x80 };

ELQ_INLINE __m256i join(__m256i total, __m256i sum) {
  return _mm256_add_epi32(total, sum);
}

ELQ_INLINE __m256i mul_add(__m256i sum, __m256i codes, __m256i a) {
  return _mm256_dpbusd_avx_epi32(sum, codes, a);
}

ELQ_INLINE __m256i mul_add_8(__m256i sum, __m256i codes, __m256i a) {
  return _mm256_dpbusd_avx_epi32(sum, codes, a);
}

/* int32 sums hold any row: 255 * 127 * 2^16 columns is below 2^31. */
static inline uint32_t partial_units(uint32_t bits) {
  (void)bits;
  return UINT32_MAX / 32u;
}

#include "kernels/elq_x86_256.h"

/* Leaf 7, subleaf 1, bit 4 of eax: not the AVX-512 bit, and CPUs have either without the other. */
static int supported(void) {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (!has_avx2_f16c() || !__get_cpuid_count(7, 1, &a, &b, &c, &d)) return 0;
  return (int)(a >> 4 & 1u);
}

const elq_impl elq_impl_avxvnni = {"avxvnni",   supported,    matmul,
                                   vec_dot_f32, vec_axpy_f32, &vec_floats};
#endif /* __x86_64__ */

typedef int elq_avxvnni_not_empty; /* ISO C wants a declaration in every file */
