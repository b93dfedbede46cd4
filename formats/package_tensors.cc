#include <algorithm>
#include <cstring>

#include "formats/package_internal.h"

namespace elastiq::package {
namespace {

/// What a check of one record needs.
struct Record {
  const elq_tensor_record& r;
  const std::string& name;
  std::uint64_t at;  ///< In the file.
  const std::string& subject;

  Error refuse(ErrorCode code, const std::string& detail) const {
    return package::refuse(code, subject, at, "tensor " + name + ": " + detail);
  }
};

bool role_is_known(std::uint32_t role) {
  if (role >= ELQ_ROLE_BIAS) {
    return role >= ELQ_ROLE_BIAS + ELQ_ROLE_Q && role <= ELQ_ROLE_BIAS + ELQ_ROLE_DOWN;
  }
  return role >= ELQ_ROLE_EMBED && role <= ELQ_ROLE_DOWN;
}

bool is_vector(std::uint32_t role) {
  return role > ELQ_ROLE_BIAS || (role >= ELQ_ROLE_FINAL_NORM && role <= ELQ_ROLE_MLP_NORM);
}

Status check_float(const Record& t) {
  const elq_tensor_record& r = t.r;
  if (r.bits != 0 || r.scale_mode != 0 || r.z2 != 0 || r.group != 0 || r.n_kept != 0 ||
      r.kept_offset != 0 || r.smax != 0 || r.padded_rows != r.rows || r.padded_cols != r.cols) {
    return t.refuse(ErrorCode::kInconsistent, "fields of packed tensors must be zero");
  }
  if (r.rows == 0 || r.cols == 0 || r.rows > ELQ_MAX_DIM || r.cols > ELQ_MAX_DIM ||
      std::uint64_t{r.rows} * r.cols > ELQ_MAX_ELEMENTS) {
    return t.refuse(ErrorCode::kLimitExceeded,
                    "shape " + std::to_string(r.rows) + " x " + std::to_string(r.cols) +
                        ", each 1 to ELQ_MAX_DIM, ELQ_MAX_ELEMENTS in all");
  }
  const std::uint64_t expected =
      std::uint64_t{r.rows} * r.cols * (r.layout == ELQ_LAYOUT_F32 ? 4 : 2);
  if (r.bytes == expected) return ok_status();
  return t.refuse(ErrorCode::kInconsistent, "has " + std::to_string(r.bytes) +
                                                " bytes, must have " + std::to_string(expected));
}

Status check_smax(const Record& t, const PackedLayout& layout) {
  if (t.r.scale_mode != ELQ_SCALE_U8) {
    if (t.r.smax == 0) return ok_status();
    return t.refuse(ErrorCode::kInconsistent, "smax must be 0 without u8 scales");
  }
  const std::uint64_t sum = t.r.smax * largest_level(t.r) * 127 * layout.padded_cols;
  if (t.r.smax >= 1 && t.r.smax <= 255 && sum <= ELQ_MAX_ROW_SUM) return ok_status();
  return t.refuse(ErrorCode::kLimitExceeded,
                  "smax " + std::to_string(t.r.smax) +
                      " with these levels and columns is outside 1 to 255 or the int32 row sum "
                      "(ELQ_MAX_ROW_SUM)");
}

Status check_packed(const Record& t) {
  const elq_tensor_record& r = t.r;
  if (is_vector(r.role)) return t.refuse(ErrorCode::kUnsupportedType, "a vector is not packed");
  const auto layout = packed_layout(r);
  if (!layout) {
    return t.refuse(ErrorCode::kLimitExceeded,
                    "bits, z2, scale mode, group, kept columns or shape outside the closed lists");
  }
  if (r.padded_rows != layout->padded_rows || r.padded_cols != layout->padded_cols) {
    return t.refuse(ErrorCode::kInconsistent, "padded shape must be " +
                                                  std::to_string(layout->padded_rows) + " x " +
                                                  std::to_string(layout->padded_cols));
  }
  if (r.bytes != layout->total_bytes) {
    return t.refuse(ErrorCode::kInconsistent, "has " + std::to_string(r.bytes) +
                                                  " bytes, must have " +
                                                  std::to_string(layout->total_bytes));
  }
  const std::uint64_t kept_offset = r.n_kept == 0 ? 0 : layout->panels_bytes;
  if (r.kept_offset != kept_offset) {
    return t.refuse(ErrorCode::kInconsistent, "kept_offset must be " + std::to_string(kept_offset));
  }
  // Sums of one group must be exact in int32 whatever the scales are.
  const std::uint64_t cols = r.scale_mode == ELQ_SCALE_F16 ? r.group : layout->padded_cols;
  if (largest_level(r) * 127 * cols > ELQ_MAX_ROW_SUM) {
    return t.refuse(ErrorCode::kLimitExceeded, "row sums would pass ELQ_MAX_ROW_SUM");
  }
  return check_smax(t, *layout);
}

Status check_record(const Record& t, const Container& c) {
  const elq_tensor_record& r = t.r;
  if (!role_is_known(r.role)) {
    return t.refuse(ErrorCode::kUnsupportedType, "unknown role " + std::to_string(r.role));
  }
  const bool in_block = r.role >= ELQ_ROLE_ATTN_NORM;
  if (r.layer >= (in_block ? ELQ_MAX_LAYERS : 1)) {
    return t.refuse(ErrorCode::kLimitExceeded, "layer " + std::to_string(r.layer));
  }
  if (r.reserved0 != 0 || !all_zero(std::as_bytes(std::span(r.reserved)))) {
    return t.refuse(ErrorCode::kInconsistent, "reserved bytes must be zero");
  }
  if (r.layout < ELQ_LAYOUT_F32 || r.layout > ELQ_LAYOUT_PACKED) {
    return t.refuse(ErrorCode::kUnsupportedType, "unknown layout " + std::to_string(r.layout));
  }
  if (is_vector(r.role) && r.rows != 1) {
    return t.refuse(ErrorCode::kInconsistent, "a vector has one row");
  }
  if (r.section >= c.toc.size() || c.toc[r.section].type != ELQ_SECTION_WGT) {
    return t.refuse(ErrorCode::kInconsistent,
                    "section " + std::to_string(r.section) + " is not a WGT section");
  }
  const std::uint64_t available = c.toc[r.section].raw_bytes;
  if (r.offset % ELQ_TENSOR_ALIGN != 0) {
    return t.refuse(ErrorCode::kInconsistent, "offset must be a multiple of 64");
  }
  if (r.offset > available || r.bytes > available - r.offset) {
    return t.refuse(ErrorCode::kTruncated, "needs " + std::to_string(r.bytes) + " bytes at " +
                                               std::to_string(r.offset) + ", the section has " +
                                               std::to_string(available));
  }
  return r.layout == ELQ_LAYOUT_PACKED ? check_packed(t) : check_float(t);
}

Result<std::vector<PackageTensor>> read_names(std::span<const std::byte> records,
                                              std::span<const std::byte> names, std::uint64_t at,
                                              const std::string& subject) {
  std::vector<PackageTensor> tensors(records.size() / sizeof(elq_tensor_record));
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    PackageTensor& t = tensors[i];
    const std::uint64_t record_at = at + i * sizeof(elq_tensor_record);
    std::memcpy(&t.record, records.data() + i * sizeof(elq_tensor_record), sizeof t.record);
    auto bad = [&](ErrorCode code, const std::string& detail) {
      return refuse(code, subject, record_at, "tensor " + std::to_string(i) + ": " + detail);
    };
    if (t.record.name_bytes == 0 || t.record.name_bytes > ELQ_MAX_STRING_BYTES) {
      return bad(ErrorCode::kLimitExceeded, "name_bytes is " + std::to_string(t.record.name_bytes) +
                                                ", 1 to ELQ_MAX_STRING_BYTES = 255");
    }
    if (t.record.name_offset != end || t.record.name_bytes > names.size() - end) {
      return bad(ErrorCode::kInconsistent,
                 "its name must follow the one before, at " + std::to_string(end) + " of STRT");
    }
    t.name.assign(reinterpret_cast<const char*>(names.data()) + end, t.record.name_bytes);
    end += t.record.name_bytes;
    if (find_unclean(t.name) != std::string::npos) {
      return bad(ErrorCode::kBadEncoding, "its name is not UTF-8 without control characters");
    }
    if (i > 0 && t.name <= tensors[i - 1].name) {
      return bad(t.name == tensors[i - 1].name ? ErrorCode::kDuplicate : ErrorCode::kInconsistent,
                 t.name + " is not above the name before it");
    }
  }
  if (end == names.size()) return tensors;
  return refuse(ErrorCode::kInconsistent, subject, at, "STRT has bytes that belong to no name");
}

Status check_alias(const std::vector<PackageTensor>& tensors, const Record& t) {
  if (t.r.alias_of == 0) return ok_status();
  if (t.r.alias_of > tensors.size()) {
    return t.refuse(ErrorCode::kInconsistent,
                    "alias_of " + std::to_string(t.r.alias_of) + " is outside the table");
  }
  const elq_tensor_record& target = tensors[t.r.alias_of - 1].record;
  constexpr std::size_t kFirst = offsetof(elq_tensor_record, layout);
  constexpr std::size_t kLast = offsetof(elq_tensor_record, alias_of);
  const auto* mine = reinterpret_cast<const std::byte*>(&t.r) + kFirst;
  const auto* theirs = reinterpret_cast<const std::byte*>(&target) + kFirst;
  if (target.alias_of == 0 && std::memcmp(mine, theirs, kLast - kFirst) == 0) return ok_status();
  return t.refuse(ErrorCode::kInconsistent,
                  "an alias has the fields of a tensor that is no alias itself");
}

/// Tensors fill their sections in order: no overlap, no hole, no section without a tensor.
Status check_coverage(const Container& c, const std::vector<PackageTensor>& tensors,
                      const std::string& subject) {
  std::vector<const PackageTensor*> owners;
  for (const PackageTensor& t : tensors) {
    if (t.record.alias_of == 0) owners.push_back(&t);
  }
  std::sort(owners.begin(), owners.end(), [](const PackageTensor* a, const PackageTensor* b) {
    return std::pair(a->record.section, a->record.offset) <
           std::pair(b->record.section, b->record.offset);
  });
  auto next = owners.begin();
  for (std::size_t i = 0; i < c.toc.size(); ++i) {
    if (c.toc[i].type != ELQ_SECTION_WGT) continue;
    std::uint64_t end = 0;
    std::size_t n = 0;
    for (; next != owners.end() && (*next)->record.section == i; ++next, ++n) {
      const elq_tensor_record& r = (*next)->record;
      if (r.offset != (end + ELQ_TENSOR_ALIGN - 1) / ELQ_TENSOR_ALIGN * ELQ_TENSOR_ALIGN) {
        return refuse(ErrorCode::kInconsistent, subject, c.toc[i].offset,
                      "tensor " + (*next)->name + " overlaps another or leaves a hole");
      }
      end = r.offset + r.bytes;
    }
    if (end != c.toc[i].raw_bytes || n == 0) {
      return refuse(ErrorCode::kInconsistent, subject, c.toc[i].offset,
                    "section " + std::to_string(i) + " (WGT) has bytes that belong to no tensor");
    }
    if (n > 1 && c.toc[i].raw_bytes > ELQ_MAX_WEIGHT_SECTION_BYTES) {
      return refuse(ErrorCode::kLimitExceeded, subject, c.toc[i].offset,
                    "section " + std::to_string(i) + " (WGT) has " + std::to_string(n) +
                        " tensors and more than ELQ_MAX_WEIGHT_SECTION_BYTES");
    }
  }
  return ok_status();
}

}  // namespace

Result<std::vector<PackageTensor>> read_tensors(const Container& c, const std::string& subject) {
  const std::size_t index = c.find(ELQ_SECTION_TENS);
  const std::uint64_t at = c.toc[index].offset;
  ELQ_TRY(records, read_section(c, index, subject));
  const std::uint64_t bytes = records.bytes.size();
  if (bytes == 0 || bytes % sizeof(elq_tensor_record) != 0) {
    return refuse(ErrorCode::kInconsistent, subject, at,
                  "TENS has " + std::to_string(bytes) + " bytes, must be a multiple of 128");
  }
  if (bytes / sizeof(elq_tensor_record) > ELQ_MAX_TENSORS) {
    return refuse(ErrorCode::kLimitExceeded, subject, at,
                  std::to_string(bytes / sizeof(elq_tensor_record)) +
                      " tensors, at most ELQ_MAX_TENSORS = " + std::to_string(ELQ_MAX_TENSORS));
  }
  const std::size_t strt = c.find(ELQ_SECTION_STRT);
  if (c.toc[strt].raw_bytes > ELQ_MAX_STRING_TABLE_BYTES) {
    return refuse(ErrorCode::kLimitExceeded, subject, c.toc[strt].offset,
                  "STRT passes ELQ_MAX_STRING_TABLE_BYTES");
  }
  ELQ_TRY(names, read_section(c, strt, subject));
  ELQ_TRY(tensors, read_names(records.bytes, names.bytes, at, subject));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Record record{tensors[i].record, tensors[i].name, at + i * sizeof(elq_tensor_record),
                        subject};
    ELQ_CHECK(check_record(record, c));
    ELQ_CHECK(check_alias(tensors, record));
  }
  ELQ_CHECK(check_coverage(c, tensors, subject));
  return tensors;
}

}  // namespace elastiq::package
