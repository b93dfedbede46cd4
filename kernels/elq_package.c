/* Header, table of contents, section bounds and checksums. */
#include "kernels/elq_package.h"

#include "kernels/elq_internal.h"

elq_status elq_refuse(elq_error_info* info, elq_status status, const char* field, uint64_t offset) {
  if (info != NULL) {
    info->field = field;
    info->offset = offset;
  }
  return status;
}

static int all_zero(const uint8_t* p, uint64_t bytes) {
  uint8_t any = 0;
  for (uint64_t i = 0; i < bytes; ++i) any |= p[i];
  return any == 0;
}

#define FIELD(name) offsetof(elq_header, name)

/* In the order a reader meets doubt: is it ours, is it this version, is it whole, is it possible.
 */
static elq_status check_header(const elq_package* p, elq_error_info* info) {
  const elq_header* h = p->header;
  if (memcmp(h->magic, ELQ_MAGIC, ELQ_MAGIC_BYTES) != 0) {
    return elq_refuse(info, ELQ_ERR_MAGIC, "header.magic", 0);
  }
  if (h->major != ELQ_FORMAT_MAJOR) {
    return elq_refuse(info, ELQ_ERR_VERSION, "header.major", FIELD(major));
  }
  if (elq_crc32c(0, p->image, FIELD(crc32c)) != h->crc32c) {
    return elq_refuse(info, ELQ_ERR_CHECKSUM, "header.crc32c", FIELD(crc32c));
  }
  if (h->header_bytes != sizeof(elq_header) || h->toc_offset != sizeof(elq_header)) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "header.header_bytes", FIELD(header_bytes));
  }
  if (h->file_bytes > ELQ_MAX_FILE_BYTES) {
    return elq_refuse(info, ELQ_ERR_LIMIT, "header.file_bytes", FIELD(file_bytes));
  }
  if (h->file_bytes != p->image_bytes) {
    const elq_status status =
        p->image_bytes < h->file_bytes ? ELQ_ERR_TRUNCATED : ELQ_ERR_INCONSISTENT;
    return elq_refuse(info, status, "header.file_bytes", FIELD(file_bytes));
  }
  if (h->required_features != 0) {
    return elq_refuse(info, ELQ_ERR_UNSUPPORTED, "header.required_features",
                      FIELD(required_features));
  }
  if (!all_zero(h->reserved, sizeof h->reserved)) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "header.reserved", FIELD(reserved));
  }
  if (h->toc_entry_bytes != sizeof(elq_toc_entry)) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "header.toc_entry_bytes", FIELD(toc_entry_bytes));
  }
  if (h->toc_count == 0 || h->toc_count > ELQ_MAX_SECTIONS) {
    return elq_refuse(info, ELQ_ERR_LIMIT, "header.toc_count", FIELD(toc_count));
  }
  if ((uint64_t)h->toc_count * sizeof(elq_toc_entry) > p->image_bytes - sizeof(elq_header)) {
    return elq_refuse(info, ELQ_ERR_TRUNCATED, "header.toc_count", FIELD(toc_count));
  }
  return ELQ_OK;
}

static elq_status check_section_sizes(const elq_toc_entry* s, uint64_t at, elq_error_info* info) {
  if (s->type < ELQ_SECTION_META || s->type > ELQ_SECTION_PROV) {
    return elq_refuse(info, ELQ_ERR_UNSUPPORTED, "toc.type", at);
  }
  if ((s->flags & ~ELQ_SECTION_FLAG_ZSTD) != 0 || s->base_section_id != 0) {
    return elq_refuse(info, ELQ_ERR_UNSUPPORTED, "toc.flags", at);
  }
  if (!all_zero(s->reserved, sizeof s->reserved)) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "toc.reserved", at);
  }
  if (s->align_log2 != 6 && s->align_log2 != 12 && s->align_log2 != 14 && s->align_log2 != 16) {
    return elq_refuse(info, ELQ_ERR_LIMIT, "toc.align_log2", at);
  }
  if (s->flags == 0 && s->raw_bytes != s->stored_bytes) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "toc.raw_bytes", at);
  }
  if (s->raw_bytes / ELQ_MAX_RAW_RATIO > s->stored_bytes) {
    return elq_refuse(info, ELQ_ERR_LIMIT, "toc.raw_bytes", at);
  }
  const int runtime_reads_it = s->type <= ELQ_SECTION_WGT || s->type == ELQ_SECTION_KAT;
  if (s->flags != 0 && runtime_reads_it) {
    return elq_refuse(info, ELQ_ERR_UNSUPPORTED, "toc.flags", at);
  }
  if (s->type == ELQ_SECTION_WGT && s->align_log2 != ELQ_WEIGHT_ALIGN_LOG2) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "toc.align_log2", at);
  }
  return ELQ_OK;
}

/* Where a section must begin: the end of what is before it, rounded up to its alignment. */
static uint64_t next_offset(uint64_t end, const elq_toc_entry* s) {
  const uint64_t mask = (UINT64_C(1) << s->align_log2) - 1;
  return (end + mask) & ~mask;
}

/* One content has one encoding: sections follow each other without gaps or overlap but for their
 * alignment, what lies between is zero, and the file ends with the last of them. */
static elq_status check_sections(const elq_package* p, elq_error_info* info) {
  uint64_t end = sizeof(elq_header) + (uint64_t)p->header->toc_count * sizeof(elq_toc_entry);
  for (uint32_t i = 0; i < p->header->toc_count; ++i) {
    const elq_toc_entry* s = p->toc + i;
    const uint64_t at = sizeof(elq_header) + (uint64_t)i * sizeof(elq_toc_entry);
    const elq_status status = check_section_sizes(s, at, info);
    if (status != ELQ_OK) return status;
    if (s->offset != next_offset(end, s)) {
      return elq_refuse(info, ELQ_ERR_INCONSISTENT, "toc.offset", at);
    }
    if (s->offset > p->image_bytes || s->stored_bytes > p->image_bytes - s->offset) {
      return elq_refuse(info, ELQ_ERR_TRUNCATED, "toc.stored_bytes", at);
    }
    if (!all_zero(p->image + end, s->offset - end)) {
      return elq_refuse(info, ELQ_ERR_INCONSISTENT, "padding", end);
    }
    if (elq_crc32c(0, p->image + s->offset, (size_t)s->stored_bytes) != s->crc32c) {
      return elq_refuse(info, ELQ_ERR_CHECKSUM, "toc.crc32c", at);
    }
    end = s->offset + s->stored_bytes;
  }
  if (end != p->image_bytes) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "header.file_bytes", FIELD(file_bytes));
  }
  return ELQ_OK;
}

static elq_status find_once(const elq_package* p, uint32_t type, const elq_toc_entry** out,
                            elq_error_info* info) {
  *out = NULL;
  for (uint32_t i = 0; i < p->header->toc_count; ++i) {
    if (p->toc[i].type != type) continue;
    if (*out != NULL) {
      return elq_refuse(info, ELQ_ERR_INCONSISTENT, "toc.type",
                        sizeof(elq_header) + (uint64_t)i * sizeof(elq_toc_entry));
    }
    *out = p->toc + i;
  }
  return ELQ_OK;
}

/* All but WGT occur at most once; META, TENS and STRT must be there; SIGN is the last. */
static elq_status find_sections(elq_package* p, elq_error_info* info) {
  const elq_toc_entry* found[ELQ_SECTION_PROV + 1];
  for (uint32_t type = ELQ_SECTION_META; type <= ELQ_SECTION_PROV; ++type) {
    if (type == ELQ_SECTION_WGT) continue;
    const elq_status status = find_once(p, type, found + type, info);
    if (status != ELQ_OK) return status;
  }
  p->meta_section = found[ELQ_SECTION_META];
  p->tensor_section = found[ELQ_SECTION_TENS];
  p->name_section = found[ELQ_SECTION_STRT];
  p->kat_section = found[ELQ_SECTION_KAT];
  if (p->meta_section == NULL || p->tensor_section == NULL || p->name_section == NULL) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "toc: missing META, TENS or STRT", 0);
  }
  const elq_toc_entry* sign = found[ELQ_SECTION_SIGN];
  if (sign != NULL && sign != p->toc + p->header->toc_count - 1) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "toc: SIGN is not last",
                      (uint64_t)((const uint8_t*)sign - p->image));
  }
  return ELQ_OK;
}

elq_status elq_package_open(const void* image, uint64_t image_bytes, elq_package* out,
                            elq_error_info* info) {
  memset(out, 0, sizeof *out);
  if (image == NULL || (uintptr_t)image % ELQ_TENSOR_ALIGN != 0) {
    return elq_refuse(info, ELQ_ERR_ARGUMENT, "image", 0);
  }
  if (image_bytes < sizeof(elq_header)) {
    return elq_refuse(info, ELQ_ERR_TRUNCATED, "header", image_bytes);
  }
  if (image_bytes > SIZE_MAX) return elq_refuse(info, ELQ_ERR_LIMIT, "image", image_bytes);
  out->image = (const uint8_t*)image;
  out->image_bytes = image_bytes;
  out->header = (const elq_header*)image;
  out->toc = (const elq_toc_entry*)(const void*)(out->image + sizeof(elq_header));
  elq_status status = check_header(out, info);
  if (status == ELQ_OK) status = check_sections(out, info);
  if (status == ELQ_OK) status = find_sections(out, info);
  if (status == ELQ_OK) status = elq_package_check_meta(out, info);
  if (status == ELQ_OK) status = elq_package_check_tensors(out, info);
  return status;
}

const uint8_t* elq_package_section(const elq_package* p, const elq_toc_entry* section) {
  return p->image + section->offset;
}

const uint8_t* elq_package_tensor(const elq_package* p, const elq_tensor_record* tensor) {
  return elq_package_section(p, p->toc + tensor->section) + tensor->offset;
}

int elq_package_matrix(const elq_package* p, const elq_tensor_record* tensor, elq_matrix* out) {
  if (elq_matrix_init(out, tensor->rows, tensor->cols, tensor->bits, tensor->scale_mode, tensor->z2,
                      tensor->group, tensor->n_kept) != 0) {
    return -1;
  }
  elq_matrix_bind(out, elq_package_tensor(p, tensor));
  return 0;
}
