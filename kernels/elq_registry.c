/* Which implementations were compiled in, and which this CPU has. */
#include "kernels/elq_internal.h"

static const elq_impl* const kImpls[] = {
    &elq_impl_scalar,
#if defined(__x86_64__)
    &elq_impl_avx2,
    &elq_impl_avxvnni,
    &elq_impl_avx512vnni,
#endif
};

const elq_impl* const* elq_impls(size_t* count) {
  *count = sizeof kImpls / sizeof kImpls[0];
  return kImpls;
}

const elq_impl* elq_impl_by_name(const char* name) {
  for (size_t i = 0; i < sizeof kImpls / sizeof kImpls[0]; ++i) {
    if (strcmp(kImpls[i]->name, name) == 0 && kImpls[i]->supported()) return kImpls[i];
  }
  return NULL;
}

const elq_impl* elq_impl_best(void) {
  size_t best = sizeof kImpls / sizeof kImpls[0] - 1;
  while (!kImpls[best]->supported()) --best; /* scalar, the first, always is */
  return kImpls[best];
}
