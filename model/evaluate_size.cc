// Bytes, bits per weight and speed of what is evaluated.
#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "core/quantized_matrix.h"
#include "model/evaluate.h"

namespace elastiq {
namespace {

// Slices as manifest.json of an export has them: codes and float weights under their role's group,
// scales and kept columns of all matrices on their own.
struct Sizes {
  std::map<std::string, std::uint64_t> by_role;  // Ordered: reaches a file.
  std::uint64_t elements = 0;

  void add(std::string_view role, std::uint64_t bytes) {
    by_role[std::string(role.substr(0, role.find('.')))] += bytes;
  }

  void add_packed(std::string_view role, const MatrixBytes& packed) {
    add(role, packed.codes);
    add("scales", packed.scales);
    add("kept", packed.kept);
  }

  std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const auto& [role, bytes] : by_role) sum += bytes;
    return sum;
  }
};

double bits(std::uint64_t bytes, std::uint64_t elements) {
  const std::uint64_t n = std::max<std::uint64_t>(elements, 1);
  return 8.0 * static_cast<double>(bytes) / static_cast<double>(n);
}

// A folder has no container; its tensors count as the runtime would hold them.
SizeFigures folder_figures(const Sizes& sizes) {
  SizeFigures out;
  out.bytes = {{"package", nullptr}, {"by_role", sizes.by_role}};
  out.bits_per_weight = {
      {"file", nullptr},
      {"ram", bits(sizes.total(), sizes.elements)},
      {"basis", "parameters: elements of all tensors, a tied head counted once"}};
  return out;
}

// Bytes depend on the sizes of the format, not on the values of its levels.
Scheme scheme_of(const elq_tensor_record& record) {
  Scheme scheme;
  scheme.bits = record.bits;
  scheme.group = record.group;
  scheme.scale = static_cast<ScaleMode>(record.scale_mode);
  return scheme;
}

// Roles of a quantized checkpoint come from its names.
std::map<std::string, const char*> roles_by_name(const ModelConfig& config) {
  std::map<std::string, const char*> roles;
  const auto add = [&](std::uint32_t role, std::int64_t layer) {
    roles[tensor_name(role, layer)] = role_name(role);
    roles[tensor_name(role | ELQ_ROLE_BIAS, layer)] = role_name(role | ELQ_ROLE_BIAS);
  };
  for (const std::uint32_t role : {ELQ_ROLE_EMBED, ELQ_ROLE_HEAD, ELQ_ROLE_FINAL_NORM}) {
    add(role, -1);
  }
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    for (std::uint32_t role = ELQ_ROLE_ATTN_NORM; role <= ELQ_ROLE_DOWN; ++role) add(role, layer);
  }
  return roles;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::array<double, 3> values) {
  std::sort(values.begin(), values.end());
  return values[1];
}

}  // namespace

SizeFigures package_sizes(const Package& package) {
  Sizes sizes;
  for (const PackageTensor& tensor : package.tensors()) {
    const elq_tensor_record& record = tensor.record;
    if (record.alias_of != 0) continue;
    sizes.elements += std::uint64_t{record.rows} * record.cols;
    if (record.layout == ELQ_LAYOUT_PACKED) {
      sizes.add_packed(role_name(record.role),
                       packed_bytes(scheme_of(record), record.rows, record.cols, record.n_kept));
    } else {
      sizes.add(role_name(record.role), record.bytes);
    }
  }
  std::uint64_t raw = 0;
  std::uint64_t stored = 0;
  for (const elq_toc_entry& section : package.toc()) {
    const bool text = section.type == ELQ_SECTION_TOKZ || section.type == ELQ_SECTION_TMPL;
    if (text) sizes.add("tokenizer", section.stored_bytes);
    if (section.type != ELQ_SECTION_WGT) continue;
    raw += section.raw_bytes;
    stored += section.stored_bytes;
  }
  const std::uint64_t file = package.image().size();
  sizes.add("metadata", file + (raw - stored) - sizes.total());
  SizeFigures out;
  out.bytes = {{"package", file}, {"by_role", sizes.by_role}};
  out.bits_per_weight = {{"file", bits(file, sizes.elements)},
                         {"ram", bits(raw, sizes.elements)},
                         {"basis",
                          "parameters: elements of all tensors, a tied head counted once; file: "
                          "every byte of the package; ram: weight sections as the runtime maps "
                          "them (scales, kept columns and padding included)"}};
  return out;
}

SizeFigures folder_sizes(const ModelTensors& tensors) {
  Sizes sizes;
  for (const ModelTensor& tensor : tensors.tensors) {
    sizes.add(role_name(tensor.role), tensor.view->bytes.size());
    sizes.elements += tensor.view->elements();
  }
  return folder_figures(sizes);
}

SizeFigures folder_sizes(const QuantizedCheckpoint& checkpoint, const ModelConfig& config) {
  const std::map<std::string, const char*> roles = roles_by_name(config);
  const auto role_of = [&](const std::string& name) {
    const auto found = roles.find(name);
    return found == roles.end() ? "other" : found->second;
  };
  Sizes sizes;
  for (const auto& [name, matrix] : checkpoint.matrices) {
    const auto kept = static_cast<std::int64_t>(matrix.kept_index.size());
    sizes.add_packed(role_of(name), packed_bytes(matrix.scheme, matrix.rows, matrix.cols, kept));
    sizes.elements += static_cast<std::uint64_t>(matrix.rows * matrix.cols);
  }
  for (const auto& [name, plain] : checkpoint.plain) {
    sizes.add(role_of(name), plain.bytes.size());
    sizes.elements += plain.bytes.size() / dtype_bytes(plain.dtype);
  }
  return folder_figures(sizes);
}

Result<Json> measure_speed(const LogitSource& source, PackageModel& model,
                           std::span<const std::uint32_t> tokens) {
  constexpr std::size_t kPrompt = 128;
  constexpr std::size_t kGenerated = 32;
  const std::size_t room = std::min<std::size_t>(
      tokens.size(), static_cast<std::size_t>(std::max<std::int64_t>(source.max_tokens, 0)));
  Json speed = Json::object();
  speed["prefill_tps"] = nullptr;
  speed["decode_tps"] = nullptr;
  if (room < 16) return speed;
  const std::size_t generated = std::min(kGenerated, room / 4);
  const std::size_t prompt = std::min(kPrompt, room - generated);
  std::vector<float> logits(static_cast<std::size_t>(source.vocab));
  std::array<double, 3> prefill{};
  std::array<double, 3> decode{};
  for (std::size_t run = 0; run < prefill.size(); ++run) {
    auto start = std::chrono::steady_clock::now();
    ELQ_CHECK(last_logits(source, tokens.first(prompt), logits));
    prefill[run] = static_cast<double>(prompt) / seconds_since(start);
    start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < generated; ++i) {
      ELQ_CHECK(model.eval(tokens.subspan(prompt + i, 1), 1, logits));
    }
    decode[run] = static_cast<double>(generated) / seconds_since(start);
  }
  speed["prefill_tps"] = median(prefill);
  speed["decode_tps"] = median(decode);
  return speed;
}

}  // namespace elastiq
