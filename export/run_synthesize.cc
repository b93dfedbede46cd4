#include "export/run_synthesize.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <deque>

#include "core/rng.h"
#include "core/thread_pool.h"
#include "export/pack_model.h"

namespace elastiq {
namespace {

struct Row {
  const char* name;
  std::int64_t hidden, layers, heads, kv_heads, head_dim, ffn, vocab;
};

constexpr std::array kShapes = {Row{"135m", 576, 30, 9, 3, 64, 1536, 49152},
                                Row{"0.6b", 1024, 28, 16, 8, 128, 3072, 151936},
                                Row{"1.8b", 2048, 32, 16, 4, 128, 6144, 120818}};

constexpr std::int64_t kPositions = 4096;

ModelConfig config_of(const SyntheticShape& s) {
  ModelConfig c;
  c.architecture = "LlamaForCausalLM";
  c.hidden = s.hidden;
  c.layers = s.layers;
  c.heads = s.heads;
  c.kv_heads = s.kv_heads;
  c.head_dim = s.head_dim;
  c.ffn = s.ffn;
  c.vocab = s.vocab;
  c.max_positions = kPositions;
  c.tied = ModelConfig::Tied::kYes;
  return c;
}

Result<Scheme> scheme_of(int bits, int kept) {
  Scheme scheme;
  scheme.grid = bits < 4 ? Grid::kSeq : Grid::kSymmetric;
  scheme.bits = bits;
  scheme.kept_columns = kept;
  ELQ_CHECK(check_scheme(scheme));
  return scheme;
}

/// n random bytes below 2^bits.
std::vector<std::uint8_t> random_codes(Rng& rng, std::size_t n, int bits) {
  constexpr std::uint64_t kEveryByte = 0x0101010101010101u;
  const std::uint64_t mask = kEveryByte * ((1u << bits) - 1);
  std::vector<std::uint8_t> codes(n);
  for (std::size_t i = 0; i < n; i += sizeof mask) {
    const std::uint64_t word = rng.next() & mask;
    std::memcpy(codes.data() + i, &word, std::min(sizeof word, n - i));
  }
  return codes;
}

/// Weights of standard deviation about 1 / sqrt(cols), so that activations keep their size.
QuantizedMatrix random_matrix(const Scheme& scheme, std::int64_t rows, std::int64_t cols,
                              std::uint64_t seed) {
  Rng rng(seed);
  QuantizedMatrix m;
  m.scheme = scheme;
  m.rows = rows;
  m.cols = cols;
  const auto n = static_cast<std::size_t>(rows);
  m.codes = random_codes(rng, n * static_cast<std::size_t>(cols), scheme.bits);
  const int highest = std::min(255, max_u8_scale(scheme, cols));
  const double spread = static_cast<double>(1 << scheme.bits) * 0.6 * highest;
  m.row_scales.assign(n, static_cast<float>(1.0 / (spread * std::sqrt(static_cast<double>(cols)))));
  m.u8_scales.resize(n * static_cast<std::size_t>(m.groups()));
  for (std::uint8_t& scale : m.u8_scales) {
    scale = static_cast<std::uint8_t>(highest - static_cast<int>(rng.below(highest / 2 + 1)));
  }
  for (int k = 0; k < scheme.kept_columns; ++k) {
    const std::int64_t column = cols * k / scheme.kept_columns;
    m.kept_index.push_back(static_cast<std::uint16_t>(column));
    m.kept_scales.push_back(0.0005f);
    for (std::int64_t row = 0; row < rows; ++row) {
      m.codes[static_cast<std::size_t>(row * cols + column)] = 0;
      m.kept_values.push_back(static_cast<std::int8_t>(static_cast<int>(rng.below(255)) - 127));
    }
  }
  return m;
}

/// Builds the tensors; matrices are made in parallel once all are listed.
class Builder {
 public:
  Builder(const SyntheticShape& shape, const Scheme& body, const Scheme& embed, std::uint64_t seed)
      : shape_(shape), body_(body), embed_(embed), seed_(seed) {}

  ExportSource run(ThreadPool& pool) {
    matrix(ELQ_ROLE_EMBED, -1, shape_.vocab, shape_.hidden, embed_);
    for (std::int64_t layer = 0; layer < shape_.layers; ++layer) block(layer);
    norm(ELQ_ROLE_FINAL_NORM, -1);
    pool.run(matrices_.size(), [&](std::size_t i) {
      const QuantizedMatrix& m = matrices_[i];
      matrices_[i] = random_matrix(m.scheme, m.rows, m.cols, seed_ * 1000003 + i);
    });
    ExportSource source;
    source.config = config_of(shape_);
    source.tied = true;
    source.tensors = tensors_;
    return source;
  }

 private:
  void block(std::int64_t layer) {
    const std::int64_t q = shape_.heads * shape_.head_dim;
    const std::int64_t kv = shape_.kv_heads * shape_.head_dim;
    norm(ELQ_ROLE_ATTN_NORM, layer);
    matrix(ELQ_ROLE_Q, layer, q, shape_.hidden, body_);
    matrix(ELQ_ROLE_K, layer, kv, shape_.hidden, body_);
    matrix(ELQ_ROLE_V, layer, kv, shape_.hidden, body_);
    matrix(ELQ_ROLE_O, layer, shape_.hidden, q, body_);
    norm(ELQ_ROLE_MLP_NORM, layer);
    matrix(ELQ_ROLE_GATE, layer, shape_.ffn, shape_.hidden, body_);
    matrix(ELQ_ROLE_UP, layer, shape_.ffn, shape_.hidden, body_);
    matrix(ELQ_ROLE_DOWN, layer, shape_.hidden, shape_.ffn, body_);
  }

  ExportTensor tensor(std::uint32_t role, std::int64_t layer, std::int64_t rows,
                      std::int64_t cols) {
    ExportTensor t;
    t.name = tensor_name(role, layer);
    t.role = role;
    t.layer = layer;
    t.rows = static_cast<std::uint64_t>(rows);
    t.cols = static_cast<std::uint64_t>(cols);
    return t;
  }

  void matrix(std::uint32_t role, std::int64_t layer, std::int64_t rows, std::int64_t cols,
              const Scheme& scheme) {
    QuantizedMatrix& m = matrices_.emplace_back();
    m.scheme = scheme;
    m.rows = rows;
    m.cols = cols;
    tensors_.push_back(tensor(role, layer, rows, cols));
    tensors_.back().matrix = &m;
  }

  void norm(std::uint32_t role, std::int64_t layer) {
    std::vector<float>& ones = norms_.emplace_back(shape_.hidden, 1.0f);
    tensors_.push_back(tensor(role, layer, 1, shape_.hidden));
    tensors_.back().bytes = std::as_bytes(std::span(ones));
  }

  SyntheticShape shape_;
  Scheme body_;
  Scheme embed_;
  std::uint64_t seed_;
  std::deque<QuantizedMatrix> matrices_;  // deque: tensors point at its elements
  std::deque<std::vector<float>> norms_;
  std::vector<ExportTensor> tensors_;
};

}  // namespace

std::vector<std::string> synthetic_shapes() {
  std::vector<std::string> names;
  for (const Row& row : kShapes) names.emplace_back(row.name);
  return names;
}

Result<SyntheticShape> synthetic_shape(const std::string& name) {
  for (const Row& r : kShapes) {
    if (name != r.name) continue;
    return SyntheticShape{r.name,     r.hidden,   r.layers, r.heads,
                          r.kv_heads, r.head_dim, r.ffn,    r.vocab};
  }
  return Error{ErrorCode::kInvalidArgument, "--shape",
               fmt::format("found {}, allowed {}", name, fmt::join(synthetic_shapes(), ", "))};
}

Result<Json> synthesize_package(const SyntheticShape& shape, const SynthesizeOptions& options) {
  ELQ_TRY(body, scheme_of(options.bits, options.kept));
  ELQ_TRY(embed, scheme_of(options.embed_bits, 0));
  ThreadPool pool(options.threads);
  Builder builder(shape, body, embed, options.seed);
  const ExportSource source = builder.run(pool);
  ELQ_TRY(model, pack_model(source, TokenFacts{}, "synthetic-" + shape.name, pool));
  ELQ_CHECK(write_package(options.out, model.sections(SectionToWrite::Compression::kNone), 0, 0));
  std::error_code ignored;
  return Json{{"format", "elastiq.synthesize/1"},
              {"package", options.out.string()},
              {"package_bytes", std::filesystem::file_size(options.out, ignored)}};
}

Result<Json> run_synthesize(const SynthesizeOptions& options) {
  ELQ_TRY(shape, synthetic_shape(options.shape));
  return synthesize_package(shape, options);
}

}  // namespace elastiq
