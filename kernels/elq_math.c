#include "kernels/elq_math.h"

#include "kernels/elq_internal.h"

float elq_expf(float x) {
  x = ELQ_EXP_LOWEST > x ? ELQ_EXP_LOWEST : x;
  x = ELQ_EXP_HIGHEST < x ? ELQ_EXP_HIGHEST : x;
  const float shifted = x * ELQ_EXP_LOG2E + ELQ_EXP_ROUND;
  const float n = shifted - ELQ_EXP_ROUND;
  float r = x - n * ELQ_EXP_LN2_HI;
  r = r - n * ELQ_EXP_LN2_LO;
  float p = ELQ_EXP_P0;
  p = p * r + ELQ_EXP_P1;
  p = p * r + ELQ_EXP_P2;
  p = p * r + ELQ_EXP_P3;
  p = p * r + ELQ_EXP_P4;
  p = p * r + ELQ_EXP_P5;
  p = p * (r * r);
  p = p + r;
  p = p + 1.0f;
  /* Unsigned, so that a NaN's meaningless n wraps instead of overflowing. */
  const uint32_t exponent = elq_bits_of_float(shifted) - ELQ_EXP_ROUND_BITS + 127u;
  return p * elq_float_of_bits(exponent << 23);
}

static uint64_t bits_of_double(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static double double_of_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Nearest integer for |x| < 2^51. */
static double round_double(double x) {
  const double magic = 6755399441055744.0; /* 1.5 * 2^52 */
  const double shifted = x + magic;
  return shifted - magic;
}

/* fdlibm's split of ln 2: the high part has 32 bits, so n * high is exact. */
static const double kLn2High = 6.93147180369123816490e-01;
static const double kLn2Low = 1.90821492927058770002e-10;

double elq_exp(double x) {
  const double n = round_double(x * 1.44269504088896338700);
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double sum = 1.0;
  for (int k = 14; k >= 1; --k) sum = 1.0 + sum * r / k; /* Taylor: the rest is below 1e-18 */
  return sum * double_of_bits((uint64_t)((int64_t)n + 1023) << 52);
}

double elq_log(double x) {
  const uint64_t bits = bits_of_double(x);
  int64_t exponent = (int64_t)(bits >> 52) - 1023;
  double m = double_of_bits((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);
  if (m > 1.41421356237309504880) {
    m = m * 0.5;
    exponent += 1;
  }
  /* log m = 2 artanh(s): s^2 < 0.0295, the term after s^23 is below 1e-18. */
  const double s = (m - 1.0) / (m + 1.0);
  const double square = s * s;
  double sum = 0.0;
  for (int k = 23; k >= 3; k -= 2) sum = (sum + 1.0 / k) * square;
  return (double)exponent * kLn2High + ((double)exponent * kLn2Low + 2.0 * (s + s * sum));
}

void elq_sin_cos(double x, double* sine, double* cosine) {
  /* Three parts of pi / 2 with 33 bits each (fdlibm): n * part is exact for n < 2^20. */
  const double n = round_double(x * 6.36619772367581382433e-01);
  double r = x - n * 1.57079632673412561417e+00;
  r = r - n * 6.07710050630396597660e-11;
  r = r - n * 2.02226624871116645580e-21;
  const double square = r * r;
  double s = 0.0;
  double c = 0.0;
  for (int k = 19; k >= 3; k -= 2) s = -(1.0 + s) * square / (double)(k * (k - 1));
  for (int k = 20; k >= 2; k -= 2) c = -(1.0 + c) * square / (double)(k * (k - 1));
  s = r + r * s;
  c = 1.0 + c;
  const uint64_t quadrant = (uint64_t)(int64_t)n & 3u;
  *sine = quadrant == 0 ? s : quadrant == 1 ? c : quadrant == 2 ? -s : -c;
  *cosine = quadrant == 0 ? c : quadrant == 1 ? -s : quadrant == 2 ? -c : s;
}
