/*
 * Strict reader of the package container: header, table of contents, META, TENS, STRT. Every byte
 * is untrusted; nothing is copied or allocated, the result points into the image.
 */
#ifndef ELQ_PACKAGE_H
#define ELQ_PACKAGE_H

#include "kernels/elq_layout.h"
#include "kernels/elq_runtime.h"

typedef struct elq_package {
  const uint8_t* image;
  uint64_t image_bytes;
  const elq_header* header;
  const elq_toc_entry* toc;
  const elq_meta_entry* meta;
  uint32_t n_meta;
  const elq_tensor_record* tensors;
  uint32_t n_tensors;
  const uint8_t* names;
  uint64_t names_bytes;
  const elq_toc_entry* meta_section;
  const elq_toc_entry* tensor_section;
  const elq_toc_entry* name_section;
  const elq_toc_entry* kat_section; /* NULL when there is none */
} elq_package;

/* Writes field and offset to info (may be NULL) and returns status. */
elq_status elq_refuse(elq_error_info* info, elq_status status, const char* field, uint64_t offset);

/* Container, checksums, META and TENS tables. The SHA-256 fields are not checked: there is no SHA
 * in this folder, and a signature is verified before the image comes here. */
elq_status elq_package_open(const void* image, uint64_t image_bytes, elq_package* out,
                            elq_error_info* info);
/* The tables inside the sections; called by elq_package_open. */
elq_status elq_package_check_meta(elq_package* p, elq_error_info* info);
elq_status elq_package_check_tensors(elq_package* p, elq_error_info* info);

/* Typed access to META; NULL when the key is missing or has another type. */
const elq_meta_entry* elq_package_meta(const elq_package* p, const char* key, uint32_t type);
/* First byte of a section, and of a tensor. */
const uint8_t* elq_package_section(const elq_package* p, const elq_toc_entry* section);
const uint8_t* elq_package_tensor(const elq_package* p, const elq_tensor_record* tensor);
/* Sizes of a packed record as a matrix, bound to its bytes; -1 when outside the closed lists. */
int elq_package_matrix(const elq_package* p, const elq_tensor_record* tensor, elq_matrix* out);

#endif /* ELQ_PACKAGE_H */
