/*
 * The elementary functions whose results reach logits, written with + - * / alone so that every
 * machine and C library gives the same bits.
 */
#ifndef ELQ_MATH_H
#define ELQ_MATH_H

#ifdef __cplusplus
extern "C" {
#endif

/* exp(x), relative error below 2e-7. x is clamped to [-87.3, 88.3] (no subnormals, no infinity);
 * NaN stays NaN. */
float elq_expf(float x);

/* Error below 1e-15, relative for exp and log, absolute for sin and cos.
 * Range  exp: |x| < 700. log: x normal and positive. sin_cos: |x| < 2^20 (larger: still defined,
 * less exact). */
double elq_exp(double x);
double elq_log(double x);
void elq_sin_cos(double x, double* sine, double* cosine);

/* Constants of elq_expf, shared with its vector copy (elq_vec.h). ln 2 is split so that n * HI is
 * exact. The polynomial is Cephes expf (S. Moshier, public): e^r = 1 + r + r^2 * P(r) on |r| <= ln2
 * / 2. */
#define ELQ_EXP_LOWEST (-87.3f)
#define ELQ_EXP_HIGHEST 88.3f
#define ELQ_EXP_LOG2E 1.44269504088896341f
#define ELQ_EXP_LN2_HI 0.693359375f
#define ELQ_EXP_LN2_LO (-2.12194440e-4f)
#define ELQ_EXP_ROUND \
  12582912.0f /* 1.5 * 2^23: adding it rounds to an integer, kept in the low bits */
#define ELQ_EXP_ROUND_BITS 0x4b400000u
#define ELQ_EXP_P0 1.9875691500e-4f
#define ELQ_EXP_P1 1.3981999507e-3f
#define ELQ_EXP_P2 8.3334519073e-3f
#define ELQ_EXP_P3 4.1665795894e-2f
#define ELQ_EXP_P4 1.6666665459e-1f
#define ELQ_EXP_P5 5.0000001201e-1f

#ifdef __cplusplus
}
#endif

#endif /* ELQ_MATH_H */
