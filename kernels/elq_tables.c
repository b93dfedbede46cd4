/* The META and TENS tables of a package: every entry, before anything uses one. */
#include "kernels/elq_internal.h"
#include "kernels/elq_package.h"

static int all_zero(const void* p, size_t bytes) {
  const uint8_t* byte = (const uint8_t*)p;
  uint8_t any = 0;
  for (size_t i = 0; i < bytes; ++i) any |= byte[i];
  return any == 0;
}

/* ---------------------------------------------------------------- META */

static int key_is_clean(const char* key) {
  size_t n = 0;
  while (n < 40 && key[n] > 0x20 && key[n] < 0x7f) ++n;
  return n > 0 && n < 40 && all_zero(key + n, 40 - n);
}

static elq_status check_meta_value(const elq_meta_entry* e, uint64_t table_end, uint64_t bytes,
                                   uint64_t at, elq_error_info* info) {
  if (e->type == ELQ_META_U64 || e->type == ELQ_META_F64) {
    if (e->count == 1) return ELQ_OK;
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "meta.count", at);
  }
  if (e->type > ELQ_META_TEXT || e->type == 0) {
    return elq_refuse(info, ELQ_ERR_UNSUPPORTED, "meta.type", at);
  }
  if (e->count > ELQ_MAX_META_ARRAY) return elq_refuse(info, ELQ_ERR_LIMIT, "meta.count", at);
  const uint64_t value_bytes = (uint64_t)e->count * (e->type == ELQ_META_TEXT ? 1 : 4);
  if (e->value % 8 != 0 || e->value < table_end) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "meta.value", at);
  }
  if (e->value > bytes || value_bytes > bytes - e->value) {
    return elq_refuse(info, ELQ_ERR_TRUNCATED, "meta.value", at);
  }
  return ELQ_OK;
}

elq_status elq_package_check_meta(elq_package* p, elq_error_info* info) {
  const uint8_t* start = elq_package_section(p, p->meta_section);
  const uint64_t bytes = p->meta_section->stored_bytes;
  const uint64_t at = p->meta_section->offset;
  if (bytes > ELQ_MAX_META_BYTES) return elq_refuse(info, ELQ_ERR_LIMIT, "meta", at);
  if (bytes < 8) return elq_refuse(info, ELQ_ERR_TRUNCATED, "meta", at);
  p->n_meta = (uint32_t)elq_load_i32(start);
  p->meta = (const elq_meta_entry*)(const void*)(start + 8);
  if (elq_load_i32(start + 4) != 0) return elq_refuse(info, ELQ_ERR_INCONSISTENT, "meta", at + 4);
  if (p->n_meta > ELQ_MAX_META_KEYS) return elq_refuse(info, ELQ_ERR_LIMIT, "meta.n", at);
  const uint64_t table_end = 8 + (uint64_t)p->n_meta * sizeof(elq_meta_entry);
  if (table_end > bytes) return elq_refuse(info, ELQ_ERR_TRUNCATED, "meta.n", at);
  for (uint32_t i = 0; i < p->n_meta; ++i) {
    const elq_meta_entry* e = p->meta + i;
    const uint64_t entry_at = at + 8 + (uint64_t)i * sizeof *e;
    if (!key_is_clean(e->key) || e->reserved != 0) {
      return elq_refuse(info, ELQ_ERR_INCONSISTENT, "meta.key", entry_at);
    }
    if (i > 0 && memcmp(p->meta[i - 1].key, e->key, sizeof e->key) >= 0) {
      return elq_refuse(info, ELQ_ERR_INCONSISTENT, "meta.key order", entry_at);
    }
    const elq_status status = check_meta_value(e, table_end, bytes, entry_at, info);
    if (status != ELQ_OK) return status;
  }
  return ELQ_OK;
}

const elq_meta_entry* elq_package_meta(const elq_package* p, const char* key, uint32_t type) {
  for (uint32_t i = 0; i < p->n_meta; ++i) {
    if (strcmp(p->meta[i].key, key) == 0) return p->meta[i].type == type ? p->meta + i : NULL;
  }
  return NULL;
}

/* ---------------------------------------------------------------- TENS */

/* Length of the UTF-8 sequence at p, 0 when malformed or a control character. */
static size_t utf8_length(const uint8_t* p, size_t left) {
  if (p[0] < 0x80) return p[0] >= 0x20 && p[0] != 0x7f;
  const size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
  if (p[0] < 0xc2 || p[0] > 0xf4 || n > left) return 0;
  for (size_t i = 1; i < n; ++i) {
    if ((p[i] & 0xc0) != 0x80) return 0;
  }
  const int overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
  const int outside = (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf4 && p[1] > 0x8f);
  const int c1_control = p[0] == 0xc2 && p[1] < 0xa0;
  return overlong || outside || c1_control ? 0 : n;
}

static int name_is_clean(const uint8_t* name, size_t bytes) {
  size_t i = 0;
  while (i < bytes) {
    const size_t n = utf8_length(name + i, bytes - i);
    if (n == 0) return 0;
    i += n;
  }
  return 1;
}

static elq_status check_name(const elq_package* p, uint32_t index, uint64_t at,
                             elq_error_info* info) {
  const elq_tensor_record* t = p->tensors + index;
  if (t->name_bytes == 0 || t->name_bytes > ELQ_MAX_STRING_BYTES) {
    return elq_refuse(info, ELQ_ERR_LIMIT, "tensor.name_bytes", at);
  }
  if (t->name_offset > p->names_bytes || t->name_bytes > p->names_bytes - t->name_offset) {
    return elq_refuse(info, ELQ_ERR_TRUNCATED, "tensor.name_offset", at);
  }
  const uint8_t* name = p->names + t->name_offset;
  if (!name_is_clean(name, t->name_bytes)) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "tensor.name", at);
  }
  if (index == 0) return ELQ_OK;
  const elq_tensor_record* last = t - 1;
  const int order =
      memcmp(p->names + last->name_offset, name, elq_min_u32(last->name_bytes, t->name_bytes));
  if (order > 0 || (order == 0 && last->name_bytes >= t->name_bytes)) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "tensor.name order", at);
  }
  return ELQ_OK;
}

static int role_is_known(uint32_t role) {
  const uint32_t base = role >= ELQ_ROLE_BIAS ? role - ELQ_ROLE_BIAS : role;
  if (role >= ELQ_ROLE_BIAS) return base >= ELQ_ROLE_Q && base <= ELQ_ROLE_DOWN;
  return base >= ELQ_ROLE_EMBED && base <= ELQ_ROLE_DOWN;
}

/* Where the bytes are, before anyone looks at them. */
static elq_status check_extent(const elq_package* p, const elq_tensor_record* t, uint64_t at,
                               elq_error_info* info) {
  if (t->section >= p->header->toc_count || p->toc[t->section].type != ELQ_SECTION_WGT) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "tensor.section", at);
  }
  const uint64_t available = p->toc[t->section].stored_bytes;
  if (t->offset % ELQ_TENSOR_ALIGN != 0) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "tensor.offset", at);
  }
  if (t->offset > available || t->bytes > available - t->offset) {
    return elq_refuse(info, ELQ_ERR_TRUNCATED, "tensor.bytes", at);
  }
  return ELQ_OK;
}

static elq_status check_float(const elq_tensor_record* t, uint64_t at, elq_error_info* info) {
  const uint64_t size = t->layout == ELQ_LAYOUT_F32 ? 4 : 2;
  const int packed_fields = t->bits || t->scale_mode || t->z2 || t->group || t->n_kept ||
                            t->kept_offset != 0 || t->smax || t->padded_rows != t->rows ||
                            t->padded_cols != t->cols;
  if (packed_fields) return elq_refuse(info, ELQ_ERR_INCONSISTENT, "tensor.layout", at);
  if (t->rows == 0 || t->cols == 0 || t->rows > ELQ_MAX_DIM || t->cols > ELQ_MAX_DIM ||
      (uint64_t)t->rows * t->cols > ELQ_MAX_ELEMENTS) {
    return elq_refuse(info, ELQ_ERR_LIMIT, "tensor.rows", at);
  }
  if (t->bytes != (uint64_t)t->rows * t->cols * size) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "tensor.bytes", at);
  }
  return ELQ_OK;
}

static elq_status check_kept(const elq_matrix* m, uint64_t at, elq_error_info* info) {
  for (uint32_t k = 0; k < m->n_kept; ++k) {
    if (m->kept_index[k] >= m->cols || (k > 0 && m->kept_index[k - 1] >= m->kept_index[k])) {
      return elq_refuse(info, ELQ_ERR_INCONSISTENT, "tensor.kept index", at);
    }
    if ((elq_bits_of_float(m->kept_scale[k]) & 0x7fffffffu) >= 0x7f800000u) {
      return elq_refuse(info, ELQ_ERR_INCONSISTENT, "tensor.kept scale", at);
    }
  }
  return ELQ_OK;
}

/* Called after check_extent, so that t->bytes lie inside the image. */
static elq_status check_packed(const elq_package* p, const elq_tensor_record* t, uint64_t at,
                               elq_error_info* info) {
  elq_matrix m;
  if (elq_package_matrix(p, t, &m) != 0) {
    return elq_refuse(info, ELQ_ERR_LIMIT, "tensor.bits", at);
  }
  if (t->padded_rows != m.padded_rows || t->padded_cols != m.padded_cols) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "tensor.padded_rows", at);
  }
  if (t->bytes != elq_matrix_bytes(&m)) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "tensor.bytes", at);
  }
  if (t->kept_offset != elq_matrix_kept_offset(&m)) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "tensor.kept_offset", at);
  }
  if (t->scale_mode != ELQ_SCALE_U8) {
    if (t->smax != 0) return elq_refuse(info, ELQ_ERR_INCONSISTENT, "tensor.smax", at);
    return check_kept(&m, at, info);
  }
  const uint32_t top = 2u * ((1u << t->bits) - 1u);
  const uint64_t level = top - t->z2 > t->z2 ? top - t->z2 : t->z2;
  if (t->smax == 0 || t->smax > 255 ||
      t->smax * level * 127u * (uint64_t)t->padded_cols > ELQ_MAX_ROW_SUM) {
    return elq_refuse(info, ELQ_ERR_LIMIT, "tensor.smax", at);
  }
  return check_kept(&m, at, info);
}

static elq_status check_alias(const elq_package* p, const elq_tensor_record* t, uint64_t at,
                              elq_error_info* info) {
  if (t->alias_of == 0) return ELQ_OK;
  if (t->alias_of > p->n_tensors) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "tensor.alias_of", at);
  }
  const elq_tensor_record* target = p->tensors + (t->alias_of - 1);
  const size_t first = offsetof(elq_tensor_record, layout);
  const size_t last = offsetof(elq_tensor_record, alias_of);
  const int same = memcmp((const uint8_t*)t + first, (const uint8_t*)target + first, last - first);
  if (target->alias_of != 0 || target == t || same != 0) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "tensor.alias_of", at);
  }
  return ELQ_OK;
}

static elq_status check_tensor(const elq_package* p, uint32_t index, elq_error_info* info) {
  const elq_tensor_record* t = p->tensors + index;
  const uint64_t at = p->tensor_section->offset + (uint64_t)index * sizeof *t;
  elq_status status = check_name(p, index, at, info);
  if (status != ELQ_OK) return status;
  if (!role_is_known(t->role)) return elq_refuse(info, ELQ_ERR_UNSUPPORTED, "tensor.role", at);
  if (t->reserved0 != 0 || !all_zero(t->reserved, sizeof t->reserved)) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "tensor.reserved", at);
  }
  if (t->layout < ELQ_LAYOUT_F32 || t->layout > ELQ_LAYOUT_PACKED) {
    return elq_refuse(info, ELQ_ERR_UNSUPPORTED, "tensor.layout", at);
  }
  status = check_extent(p, t, at, info);
  if (status != ELQ_OK) return status;
  status = t->layout == ELQ_LAYOUT_PACKED ? check_packed(p, t, at, info) : check_float(t, at, info);
  if (status != ELQ_OK) return status;
  return check_alias(p, t, at, info);
}

elq_status elq_package_check_tensors(elq_package* p, elq_error_info* info) {
  const uint64_t bytes = p->tensor_section->stored_bytes;
  const uint64_t at = p->tensor_section->offset;
  if (bytes % sizeof(elq_tensor_record) != 0 || bytes == 0) {
    return elq_refuse(info, ELQ_ERR_INCONSISTENT, "tensors", at);
  }
  if (bytes / sizeof(elq_tensor_record) > ELQ_MAX_TENSORS) {
    return elq_refuse(info, ELQ_ERR_LIMIT, "tensors", at);
  }
  if (p->name_section->stored_bytes > ELQ_MAX_STRING_TABLE_BYTES) {
    return elq_refuse(info, ELQ_ERR_LIMIT, "names", p->name_section->offset);
  }
  p->tensors = (const elq_tensor_record*)(const void*)elq_package_section(p, p->tensor_section);
  p->n_tensors = (uint32_t)(bytes / sizeof(elq_tensor_record));
  p->names = elq_package_section(p, p->name_section);
  p->names_bytes = p->name_section->stored_bytes;
  for (uint32_t i = 0; i < p->n_tensors; ++i) {
    const elq_status status = check_tensor(p, i, info);
    if (status != ELQ_OK) return status;
  }
  return ELQ_OK;
}
