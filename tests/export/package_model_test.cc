// Packages in the C runtime through PackageModel, and what pack_model and read_back do with models
// that no export would make.

#include "model/package_model.h"

#include <cstdlib>
#include <set>
#include <sstream>

#include "export/pack_model.h"
#include "export/read_back.h"
#include "export/strip.h"
#include "kernels/elq_kernels.h"
#include "tests/support/export_case.h"

namespace elastiq::testing {
namespace {

std::string seq2(const std::string& name) {
  return name.find("layers.") != std::string::npos ? "seq2-g64-u8-k8" : "";
}

class ExportedT2 : public ::testing::Test {
 protected:
  ExportedT2() : case_("runtime_t2", hf_t2(), seq2) {
    const auto manifest = run_export(case_.options());
    EXPECT_TRUE(manifest.ok()) << to_string(manifest.error());
  }

  std::vector<float> logits(const PackageModel::Options& options, std::size_t n) const {
    const auto tokens = hf_prompt(512, n);
    std::vector<float> out(n * 512);
    auto runtime = PackageModel::open(case_.package(), options);
    EXPECT_TRUE(runtime.ok()) << to_string(runtime.error());
    if (!runtime.ok()) return out;
    EXPECT_TRUE(runtime.value().eval(tokens, static_cast<std::uint32_t>(n), out).ok());
    return out;
  }

  ExportCase case_;
};

TEST_F(ExportedT2, EveryImplementationAndThreadCountGivesTheSameBits) {
  const auto expected = logits({0, "scalar", 1}, 20);
  std::size_t n = 0;
  const elq_impl* const* impls = elq_impls(&n);
  for (std::size_t i = 0; i < n; ++i) {
    if (impls[i]->supported() == 0) continue;
    EXPECT_EQ(logits({0, impls[i]->name, 1}, 20), expected) << impls[i]->name;
    EXPECT_EQ(logits({0, impls[i]->name, 3}, 20), expected) << impls[i]->name;
  }
}

TEST_F(ExportedT2, UnknownImplementationsAreRefused) {
  const auto refused = PackageModel::open(case_.package(), {0, "avx3", 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().detail.find("avx3"), std::string::npos);
  EXPECT_NE(refused.error().detail.find("scalar"), std::string::npos);
}

TEST_F(ExportedT2, TheEnvironmentChoosesUnlessAskedOtherwise) {
  ::setenv("ELQ_ISA", "scalar", 1);
  auto chosen = PackageModel::open(case_.package(), {});
  ASSERT_TRUE(chosen.ok());
  EXPECT_STREQ(chosen.value().isa(), "scalar");
  ::setenv("ELQ_ISA", "nonsense", 1);
  const auto refused = PackageModel::open(case_.package(), {});
  const auto asked = PackageModel::open(case_.package(), {0, "scalar", 1});
  ::unsetenv("ELQ_ISA");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().subject, "ELQ_ISA");
  EXPECT_TRUE(asked.ok());
  EXPECT_STREQ(PackageModel::open(case_.package(), {}).value().isa(), elq_impl_best()->name);
}

TEST_F(ExportedT2, SessionsHaveLimits) {
  EXPECT_FALSE(PackageModel::open(case_.package(), {129, "", 1}).ok());
  EXPECT_FALSE(PackageModel::open(case_.package(), {0, "", 0}).ok());
  auto runtime = PackageModel::open(case_.package(), {4, "", 1});
  ASSERT_TRUE(runtime.ok());
  PackageModel model = std::move(runtime).value();
  std::vector<float> row(512);
  const std::vector<std::uint32_t> tokens = {1, 2, 3};
  ASSERT_TRUE(model.eval(tokens, 1, row).ok());
  const Status full = model.eval(tokens, 1, row);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code, ErrorCode::kLimitExceeded);
  EXPECT_FALSE(model.rewind(4).ok());
  const std::vector<float> first = row;
  ASSERT_TRUE(model.rewind(0).ok());
  ASSERT_TRUE(model.eval(tokens, 1, row).ok());
  EXPECT_EQ(row, first);
  EXPECT_FALSE(model.eval(tokens, 2, row).ok());  // One row of room for two.
  const std::vector<std::uint32_t> outside = {512};
  EXPECT_EQ(model.eval(outside, 1, row).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(model.selftest().ok());
}

TEST_F(ExportedT2, MetaHasTheKeysOfTheSpecification) {
  std::set<std::string> keys;
  std::istringstream spec(
      file_text(std::filesystem::path(__FILE__).parent_path() / "../../formats/SPEC-package.md"));
  std::string line;
  while (std::getline(spec, line) && line != "### Keys of a Llama-family model") {
  }
  while (std::getline(spec, line) && line.rfind("###", 0) != 0 && line.rfind("## ", 0) != 0) {
    if (line.rfind("| model.", 0) == 0 || line.rfind("| tokenizer.", 0) == 0) {
      keys.insert(line.substr(2, line.find(' ', 2) - 2));
    }
  }
  std::set<std::string> written;
  const auto package = Package::open(case_.package());
  for (const auto& [key, value] : package.value().meta()) written.insert(key);
  EXPECT_EQ(written, keys);
}

// A package of other weights is not taken for this one.
TEST_F(ExportedT2, ReadBackNamesTheTensorThatDiffers) {
  QuantizedCheckpoint other = case_.quantized;
  QuantizedMatrix& matrix = other.matrices.at("model.layers.1.mlp.down_proj.weight");
  std::size_t at = 7 * 172;  // The first column of row 7 that is not kept.
  while (std::binary_search(matrix.kept_index.begin(), matrix.kept_index.end(), at % 172)) ++at;
  matrix.codes[at] ^= 1;
  ASSERT_TRUE(write_quantized_checkpoint(case_.root / "ptq", other, case_.root / "hf").ok());
  const auto source = read_export_source(case_.root / "ptq");
  ASSERT_TRUE(source.ok());
  ThreadPool pool(2);
  const auto model = pack_model(source.value(), {}, "model", pool);
  ASSERT_TRUE(model.ok());
  const Status status = read_back(case_.package(), source.value(), model.value(), pool);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kVerification);
  EXPECT_NE(to_string(status.error()).find("model.layers.1.mlp.down_proj.weight"),
            std::string::npos);
  EXPECT_NE(status.error().detail.find("row 7"), std::string::npos);
}

// ---------------------------------------------------------------- pack_model by itself

// Case 31: every code of every width, ties and zero included, as the C kernels see it.
TEST(PackModel, EveryLevelOfEveryGridComesBackExactly) {
  const struct {
    const char* scheme;
    std::vector<float> levels;  // In half steps.
  } grids[] = {{"seq1-row", {-1, 1}},
               {"seq2-row", {-3, -1, 1, 3}},
               {"ternary-row", {-2, 0, 2}},
               {"seq3-row", {-7, -5, -3, -1, 1, 3, 5, 7}},
               {"sym3-row", {-8, -6, -4, -2, 0, 2, 4, 6}},
               {"seq4-row", {-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15}}};

  ThreadPool pool(1);
  for (const auto& grid : grids) {
    QuantizedMatrix q;
    q.scheme = parse_scheme(grid.scheme).value();
    q.rows = 1;
    q.cols = static_cast<std::int64_t>(grid.levels.size());
    for (std::size_t c = 0; c < grid.levels.size(); ++c) {
      q.codes.push_back(static_cast<std::uint8_t>(c));
    }
    q.row_scales = {0.375f};
    ExportSource source;
    ExportTensor tensor;
    tensor.name = "m";
    tensor.role = ELQ_ROLE_Q;
    tensor.rows = 1;
    tensor.cols = grid.levels.size();
    tensor.matrix = &q;
    source.tensors = {tensor};
    const auto packed = pack_model(source, {}, "m", pool);
    ASSERT_TRUE(packed.ok()) << to_string(packed.error());
    const elq_tensor_record& r = packed.value().tensors[0].record;
    elq_matrix m;
    ASSERT_EQ(elq_matrix_init(&m, 1, r.cols, r.bits, r.scale_mode, r.z2, 0, 0), 0);
    elq_matrix_bind(&m,
                    reinterpret_cast<const std::uint8_t*>(packed.value().tensors[0].bytes.data()));
    std::vector<float> weights(r.cols);
    elq_dequantize_row(&m, 0, weights.data());
    for (std::size_t c = 0; c < weights.size(); ++c) {
      EXPECT_EQ(weights[c], 0.375f * grid.levels[c]) << grid.scheme;
    }
  }
}

// Blocks of 30, 30 and 30 MiB, a block of 100 MiB in tensors of 70 and 30, and a last one of 1 MiB:
// two blocks share a section, the third begins one, 70 is alone, 30 follows, the last begins anew.
TEST(PackModel, SectionsEndAtLayersAndHoldAtMostTheirLimit) {
  constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
  std::vector<std::byte> noise(72 * kMib);
  Rng rng(5);
  for (std::size_t i = 0; i + 8 <= noise.size(); i += 8) {
    const std::uint64_t value = rng.next();
    std::memcpy(noise.data() + i, &value, 8);
  }

  const struct {
    std::int64_t layer;
    std::uint64_t mib;
  } tensors[] = {{0, 10}, {0, 20}, {1, 30}, {2, 30}, {3, 70}, {3, 30}, {4, 1}};

  ExportSource source;
  for (const auto& t : tensors) {
    ExportTensor tensor;
    tensor.name = "t" + std::to_string(source.tensors.size());
    tensor.role = ELQ_ROLE_Q;
    tensor.layer = t.layer;
    tensor.rows = t.mib;
    tensor.cols = kMib / 2;
    tensor.dtype = DType::kBf16;
    // Windows of one buffer at different places: no two have the same bytes.
    tensor.bytes =
        std::span<const std::byte>(noise).subspan(64 * source.tensors.size(), t.mib * kMib);
    source.tensors.push_back(tensor);
  }
  ThreadPool pool(2);
  const auto packed = pack_model(source, {}, "m", pool);
  ASSERT_TRUE(packed.ok()) << to_string(packed.error());
  std::vector<std::vector<std::size_t>> sections;
  for (const PackedSection& section : packed.value().weights) sections.push_back(section.tensors);
  const std::vector<std::vector<std::size_t>> expected = {{0, 1, 2}, {3}, {4}, {5}, {6}};
  EXPECT_EQ(sections, expected);
  EXPECT_EQ(packed.value().weights[2].bytes, 70 * kMib);
  EXPECT_EQ(packed.value().tensors[5].record.section, 6u);  // Three tables come before weights.
  // The strict reader agrees.
  const auto path = hf_test_folder("pack_sections") / "p.elq";
  ASSERT_TRUE(
      write_package(path, packed.value().sections(SectionToWrite::Compression::kNone), 0, 0).ok());
  const auto package = Package::open(path);
  ASSERT_TRUE(package.ok()) << to_string(package.error());
}

// Case 18: rows of the embedding beyond the tokenizer are fine, ids beyond the embedding are not.
TEST(Export, EmbeddingMayHaveMoreRowsThanTheTokenizer) {
  HfShape shape = hf_t2();
  shape.vocab = 520;
  const auto root = hf_test_folder("export_vocab");
  write_hf_model(hf_model(shape, HfType::kBf16, 7), root / "hf");
  ExportOptions options;
  options.model = root / "hf";
  options.out = root / "out";
  hf_write_text(root / "hf" / "tokenizer.json", hf_tokenizer_json(512));
  const auto padded = run_export(options);
  EXPECT_TRUE(padded.ok()) << to_string(padded.error());
  hf_write_text(root / "hf" / "tokenizer.json", hf_tokenizer_json(521));
  const auto refused = run_export(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInconsistent);
  EXPECT_NE(refused.error().detail.find("520"), std::string::npos);
}

}  // namespace
}  // namespace elastiq::testing
