/*
 * elq_selftest PACKAGE: checks the package's golden vectors with every implementation this CPU has.
 * One line each; exit code 0, or 7 when the package does not open or a vector differs, 2 for wrong
 * usage.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/elq_runtime.h"

enum { EXIT_USAGE = 2, EXIT_VERIFY = 7, IMAGE_ALIGN = 64 };

/* The whole file, aligned; NULL when it cannot be read. */
static void* read_file(const char* path, uint64_t* bytes) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) return NULL;
  void* image = NULL;
  if (fseek(file, 0, SEEK_END) == 0) {
    const long end = ftell(file);
    rewind(file);
    if (end >= 0) {
      const size_t size = (size_t)end;
      image = aligned_alloc(IMAGE_ALIGN, (size + IMAGE_ALIGN) / IMAGE_ALIGN * IMAGE_ALIGN);
      if (image != NULL && fread(image, 1, size, file) != size) {
        free(image);
        image = NULL;
      }
      *bytes = size;
    }
  }
  fclose(file);
  return image;
}

static double seconds(void) {
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int check_all(const elq_model* model) {
  size_t n = 0;
  const elq_impl* const* impls = elq_impls(&n);
  int failed = 0;
  for (size_t i = 0; i < n; ++i) {
    if (!impls[i]->supported()) continue;
    elq_error_info info = {"", 0};
    const double start = seconds();
    const elq_status status = elq_selftest(model, impls[i], &info);
    const double took = seconds() - start;
    if (status == ELQ_OK) {
      printf("%-12s ok      %.3f s\n", impls[i]->name, took);
    } else {
      printf("%-12s failed  %.3f s  %s: %s at byte %" PRIu64 "\n", impls[i]->name, took,
             elq_status_text(status), info.field, info.offset);
      failed = 1;
    }
  }
  return failed;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: elq_selftest PACKAGE\n");
    return EXIT_USAGE;
  }
  uint64_t bytes = 0;
  void* image = read_file(argv[1], &bytes);
  if (image == NULL) {
    fprintf(stderr, "%s: cannot read\n", argv[1]);
    return EXIT_VERIFY;
  }
  elq_model* model = NULL;
  elq_error_info info = {"", 0};
  const elq_status status = elq_model_open(image, bytes, &model, &info);
  int failed = 1;
  if (status == ELQ_OK) {
    failed = check_all(model);
  } else {
    fprintf(stderr, "%s: %s: %s at byte %" PRIu64 "\n", argv[1], elq_status_text(status),
            info.field, info.offset);
  }
  elq_model_close(model);
  free(image);
  return failed ? EXIT_VERIFY : 0;
}
