/* The int8 quantizer of activations, the same plain C on every machine. */
#include "kernels/elq_internal.h"

/* Largest |x| as bits: unsigned order equals the order of magnitudes, and NaN and infinity sort
 * last. */
static uint32_t max_magnitude(const float* x, uint32_t first, uint32_t last, uint32_t start) {
  int32_t top = (int32_t)start;
  for (uint32_t i = first; i < last; ++i) {
    const int32_t bits = (int32_t)(elq_bits_of_float(x[i]) & 0x7fffffffu);
    top = bits > top ? bits : top;
  }
  return (uint32_t)top;
}

/* Adding 1.5 * 2^23 rounds to an integer, ties to even, and leaves it in the low bits. */
static int8_t round_to_int8(float x, float inverse) {
  float value = x * inverse;
  value = value < -127.0f ? -127.0f : value;
  value = value > 127.0f ? 127.0f : value;
  return (int8_t)(elq_bits_of_float(value + 12582912.0f) & 0xffu);
}

static void sum_groups(const elq_matrix* m, const int8_t* values, int32_t* sums) {
  for (uint32_t g = 0; g < m->n_groups; ++g) {
    const uint32_t first = g * m->group;
    const uint32_t last = elq_min_u32(m->group, m->padded_cols - first) + first;
    int32_t sum = 0;
    for (uint32_t i = first; i < last; ++i) sum += values[i];
    sums[g] = sum;
  }
}

void elq_quantize_activations(const elq_matrix* m, const float* x, int8_t* values, int32_t* sums,
                              float* kept, float* scale) {
  uint32_t top = 0;
  uint32_t start = 0;
  int finite = 1;
  for (uint32_t k = 0; k < m->n_kept; ++k) {
    const uint32_t col = m->kept_index[k];
    kept[k] = x[col];
    finite &= (elq_bits_of_float(x[col]) & 0x7fffffffu) < 0x7f800000u;
    top = max_magnitude(x, start, col, top);
    start = col + 1;
  }
  top = max_magnitude(x, start, m->cols, top);
  finite &= top < 0x7f800000u;

  const float amax = elq_float_of_bits(top);
  const float inverse = top == 0 ? 0.0f : 127.0f / amax;
  *scale = amax / 127.0f;
  if (!finite || inverse > 3.4028234e38f) { /* the second: amax below 2^-121, counted as zero */
    *scale = finite ? 0.0f : elq_float_of_bits(0x7fc00000u);
    memset(values, 0, m->padded_cols);
    memset(sums, 0, m->n_groups * sizeof *sums);
    return;
  }
  for (uint32_t i = 0; i < m->cols; ++i) values[i] = round_to_int8(x[i], inverse);
  memset(values + m->cols, 0, m->padded_cols - m->cols);
  for (uint32_t k = 0; k < m->n_kept; ++k) values[m->kept_index[k]] = 0;
  sum_groups(m, values, sums);
}
