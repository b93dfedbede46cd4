#include "export/read_back.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "core/float_bits.h"
#include "formats/package.h"
#include "kernels/elq_kernels.h"
#include "model/package_model.h"

namespace elastiq {
namespace {

Error differs(const std::string& name, std::string detail) {
  return Error{ErrorCode::kVerification, "read-back of tensor " + name, std::move(detail), 0};
}

std::string place(std::uint32_t row, std::size_t column) {
  return "row " + std::to_string(row) + ", column " + std::to_string(column);
}

// ---------------------------------------------------------------- one tensor

/// The package's tensor as the kernels see it; sizes come from the record, not from the source.
Result<elq_matrix> bind(const PackageTensor& t, std::span<const std::byte> bytes) {
  const elq_tensor_record& r = t.record;
  elq_matrix m;
  if (elq_matrix_init(&m, r.rows, r.cols, r.bits, r.scale_mode, r.z2, r.group, r.n_kept) != 0 ||
      elq_matrix_bytes(&m) != bytes.size()) {
    return differs(t.name, "its record is not one of a packed matrix");
  }
  elq_matrix_bind(&m, reinterpret_cast<const std::uint8_t*>(bytes.data()));
  return m;
}

Status compare_scheme(const PackageTensor& t, const Scheme& scheme) {
  const elq_tensor_record& r = t.record;
  const bool same = r.layout == ELQ_LAYOUT_PACKED && r.bits == scheme.bits &&
                    r.z2 == scheme_z2(scheme) && r.group == scheme.group &&
                    r.scale_mode == static_cast<std::uint8_t>(scheme.scale) &&
                    r.n_kept <= static_cast<std::uint32_t>(scheme.kept_columns);
  if (same) return ok_status();
  return differs(t.name, "the record is not one of the planned " + scheme_name(scheme));
}

Status compare_kept(const std::string& name, const elq_matrix& m, const QuantizedMatrix& q) {
  if (m.n_kept != q.kept_index.size()) {
    return differs(name, "keeps " + std::to_string(m.n_kept) + " columns, expected " +
                             std::to_string(q.kept_index.size()));
  }
  for (std::uint32_t k = 0; k < m.n_kept; ++k) {
    const std::int8_t* values = m.kept_value + std::size_t{k} * m.padded_rows;
    const std::int8_t* expected = q.kept_values.data() + std::size_t{k} * m.rows;
    if (m.kept_index[k] != q.kept_index[k] ||
        std::memcmp(&m.kept_scale[k], &q.kept_scales[k], sizeof(float)) != 0 ||
        !std::equal(values, values + m.rows, expected)) {
      return differs(name, "kept column " + std::to_string(q.kept_index[k]) + " differs");
    }
  }
  return ok_status();
}

Status compare_matrix(const PackageTensor& t, std::span<const std::byte> bytes,
                      const QuantizedMatrix& q) {
  ELQ_CHECK(compare_scheme(t, q.scheme));
  ELQ_TRY(m, bind(t, bytes));
  if (m.rows != q.rows || m.cols != q.cols) return differs(t.name, "its shape differs");
  ELQ_CHECK(compare_kept(t.name, m, q));
  std::vector<std::uint8_t> codes(m.cols);
  std::vector<float> weights(m.cols);
  std::vector<float> expected(m.cols);
  for (std::uint32_t row = 0; row < m.rows; ++row) {
    elq_unpack_codes(&m, row, codes.data());
    const auto* wanted = q.codes.data() + std::size_t{row} * m.cols;
    const auto at = std::mismatch(codes.begin(), codes.end(), wanted).first;
    if (at != codes.end()) {
      return differs(t.name, "code at " + place(row, static_cast<std::size_t>(at - codes.begin())));
    }
    elq_dequantize_row(&m, row, weights.data());
    dequantize_row(q, row, expected);
    if (std::memcmp(weights.data(), expected.data(), weights.size() * sizeof(float)) == 0) continue;
    std::size_t column = 0;
    while (std::memcmp(&weights[column], &expected[column], sizeof(float)) == 0) ++column;
    return differs(t.name, "weight at " + place(row, column));
  }
  return ok_status();
}

Status compare_float(const PackageTensor& t, std::span<const std::byte> bytes,
                     const ExportTensor& source) {
  if (!source.is_vector()) {
    const bool same = bytes.size() == source.bytes.size() &&
                      std::memcmp(bytes.data(), source.bytes.data(), bytes.size()) == 0;
    return same ? ok_status() : differs(t.name, "its bytes are not those of the source");
  }
  std::vector<float> expected(source.elements());
  ELQ_CHECK(widen_to_f32(source.dtype, source.bytes, expected));
  const bool same = bytes.size() == expected.size() * sizeof(float) &&
                    std::memcmp(bytes.data(), expected.data(), bytes.size()) == 0;
  return same ? ok_status() : differs(t.name, "its values are not those of the source");
}

Status compare_tensor(const PackageTensor& t, std::span<const std::byte> section,
                      const ExportTensor& source) {
  const auto bytes = section.subspan(t.record.offset, t.record.bytes);
  return source.matrix != nullptr ? compare_matrix(t, bytes, *source.matrix)
                                  : compare_float(t, bytes, source);
}

// ---------------------------------------------------------------- the plan

using ByName = std::map<std::string, const PackageTensor*>;

Status compare_plan_entry(const Json& entry, const ByName& tensors) {
  const auto text = [&](const char* key) {
    const bool there = entry.is_object() && entry.contains(key) && entry.at(key).is_string();
    return there ? entry.at(key).get<std::string>() : std::string();
  };
  const std::string name = text("name");
  const std::string scheme = text("scheme");
  const auto found = tensors.find(name);
  if (found == tensors.end()) return differs(name, "planned, but not in the package");
  if (scheme == "keep") {
    if (found->second->record.layout != ELQ_LAYOUT_PACKED) return ok_status();
    return differs(name, "planned to be kept at its source type, but packed");
  }
  auto parsed = parse_scheme(scheme);
  if (!parsed.ok()) return differs(name, "the plan has no scheme: " + to_string(parsed.error()));
  return compare_scheme(*found->second, parsed.value());
}

Status compare_plan(const ExportSource& source, const ByName& tensors) {
  if (!source.info.is_object() || !source.info.contains("plan")) return ok_status();
  std::map<std::string, bool> planned;
  for (const Json& entry : source.info.at("plan")) {
    ELQ_CHECK(compare_plan_entry(entry, tensors));
    planned[entry.at("name").get<std::string>()] = true;
  }
  for (const ExportTensor& t : source.tensors) {
    if (t.matrix == nullptr || planned.contains(t.name)) continue;
    return differs(t.name, "quantized, but not in the plan of quantization.json");
  }
  return ok_status();
}

// ---------------------------------------------------------------- the whole package

struct SectionBytes {
  std::vector<std::byte> inflated;
  std::span<const std::byte> bytes;
};

Result<SectionBytes> section_bytes(const Package& package, std::size_t index) {
  const elq_toc_entry& s = package.toc()[index];
  SectionBytes out;
  if (s.flags == 0) {
    out.bytes = package.image().subspan(s.offset, s.stored_bytes);
    return out;
  }
  ELQ_TRY(raw, package.section_at(index));
  out.inflated = std::move(raw);
  out.bytes = out.inflated;
  return out;
}

Status compare_tensors(const Package& package, const PackedModel& model, ThreadPool& pool) {
  std::map<std::string, const ExportTensor*> sources;
  for (const PackedTensor& t : model.tensors) sources[t.name] = t.source;
  std::size_t compared = 0;
  for (std::size_t i = 0; i < package.toc().size(); ++i) {
    if (package.toc()[i].type != ELQ_SECTION_WGT) continue;
    ELQ_TRY(section, section_bytes(package, i));
    std::vector<const PackageTensor*> here;
    for (const PackageTensor& t : package.tensors()) {
      if (t.record.section == i) here.push_back(&t);
    }
    std::vector<std::optional<Error>> errors(here.size());
    pool.run(here.size(), [&](std::size_t k) {
      const auto source = sources.find(here[k]->name);
      const Status status = source == sources.end()
                                ? Status(differs(here[k]->name, "not a tensor of the source"))
                                : compare_tensor(*here[k], section.bytes, *source->second);
      if (!status.ok()) errors[k] = status.error();
    });
    for (const auto& error : errors) {
      if (error) return *error;
    }
    compared += here.size();
  }
  if (compared == sources.size()) return ok_status();
  return differs(std::to_string(sources.size()) + " of the source",
                 "only " + std::to_string(compared) + " are in the package");
}

Status run_selftests(const std::filesystem::path& path) {
  std::size_t n = 0;
  const elq_impl* const* impls = elq_impls(&n);
  for (std::size_t i = 0; i < n; ++i) {
    if (impls[i]->supported() == 0) continue;
    PackageModel::Options options;
    options.isa = impls[i]->name;
    options.max_tokens = 1;  // The self-test has a session of its own.
    ELQ_TRY(runtime, PackageModel::open(path, options));
    ELQ_CHECK(runtime.selftest());
  }
  return ok_status();
}

}  // namespace

Status read_back(const std::filesystem::path& path, const ExportSource& source,
                 const PackedModel& model, ThreadPool& pool) {
  ELQ_TRY(package, Package::open(path));
  ELQ_CHECK(package.verify());
  ByName tensors;
  for (const PackageTensor& t : package.tensors()) tensors[t.name] = &t;
  ELQ_CHECK(compare_plan(source, tensors));
  ELQ_CHECK(compare_tensors(package, model, pool));
  return run_selftests(path);
}

}  // namespace elastiq
