// What run_export leaves behind: bytes, tables, manifest, kernels, and nothing when it fails.

#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <set>

#include "core/digest.h"
#include "core/folder.h"
#include "core/json.h"
#include "model/tokenizer.h"
#include "tests/support/export_case.h"

namespace elastiq::testing {
namespace {

std::string seq2(const std::string& name) {
  return name.find("layers.") != std::string::npos ? "seq2-g64-u8-k8" : "";
}

Json exported(const ExportOptions& options) {
  auto manifest = run_export(options);
  EXPECT_TRUE(manifest.ok()) << to_string(manifest.error());
  return manifest.ok() ? manifest.value() : Json();
}

Package opened(const std::filesystem::path& path) {
  auto package = Package::open(path);
  EXPECT_TRUE(package.ok()) << to_string(package.error());
  EXPECT_TRUE(package.value().verify().ok());
  return std::move(package).value();
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(Export, SameInputsGiveTheSameBytes) {
  const ExportCase c("export_twice", hf_t2(), seq2);
  ExportOptions first = c.options();
  first.provenance = {{"recipe", "r1"}};
  ExportOptions second = first;
  second.out = c.root / "again";
  EXPECT_EQ(exported(first), exported(second));
  const std::string bytes = file_text(first.out / "model.elq");
  EXPECT_EQ(bytes, file_text(second.out / "model.elq"));
  EXPECT_EQ(file_text(first.out / "manifest.json"), file_text(second.out / "manifest.json"));
  // The build id is that of the recipe: another recipe is another package.
  second.provenance = {{"recipe", "r2"}};
  exported(second);
  EXPECT_NE(bytes, file_text(second.out / "model.elq"));
}

TEST(Export, CarriesTokenizerConfigAndProvenance) {
  const ExportCase c("export_texts", hf_t2(), seq2);
  ExportOptions options = c.options();
  options.provenance = {{"scheme", "seq2"}};
  exported(options);
  const Package package = opened(c.package());
  const auto tokenizer = package.section(ELQ_SECTION_TOKZ);
  const auto settings = package.section(ELQ_SECTION_TMPL);
  const auto provenance = package.section(ELQ_SECTION_PROV);
  ASSERT_TRUE(tokenizer.ok() && settings.ok() && provenance.ok());
  EXPECT_EQ(text_of(tokenizer.value()), hf_tokenizer_json(512));
  EXPECT_EQ(text_of(settings.value()), hf_tokenizer_config_json());
  const Json prov = Json::parse(text_of(provenance.value()));
  EXPECT_EQ(prov["recipe"]["scheme"], "seq2");
  EXPECT_EQ(prov["quantization"], c.quantized.info);
  // 8 kB of JSON shrink; the C runtime's own sections never do.
  for (const elq_toc_entry& s : package.toc()) {
    if (s.type == ELQ_SECTION_TOKZ) {
      EXPECT_LT(s.stored_bytes, s.raw_bytes / 2);
    }
    if (s.type <= ELQ_SECTION_WGT || s.type == ELQ_SECTION_KAT) {
      EXPECT_EQ(s.flags, 0u);
    }
  }
  EXPECT_EQ(std::get<std::uint64_t>(package.meta().at("tokenizer.bos")), 0u);
  EXPECT_EQ(std::get<std::uint64_t>(package.meta().at("tokenizer.eos")), 1u);
  EXPECT_EQ(std::get<std::uint64_t>(package.meta().at("tokenizer.add_bos")), 1u);
  EXPECT_EQ(std::get<std::uint64_t>(package.meta().at("model.head_dim")), 24u);
}

TEST(Export, CarriesAChatTemplateThatHasAFileOfItsOwn) {
  const ExportCase c("export_jinja", hf_t2(), seq2);
  Json settings = Json::parse(hf_tokenizer_config_json());
  settings.erase("chat_template");
  hf_write_text(c.root / "hf" / "tokenizer_config.json", settings.dump());
  hf_write_text(c.root / "hf" / "chat_template.jinja", "first\n");
  const auto folder = c.root / "ptq";
  ASSERT_TRUE(write_quantized_checkpoint(folder, c.quantized, c.root / "hf").ok());
  const Json first = exported(c.options());
  const auto stored = opened(c.package()).section(ELQ_SECTION_TMPL);
  ASSERT_TRUE(stored.ok());
  settings["chat_template"] = "first\n";
  EXPECT_EQ(Json::parse(text_of(stored.value())), settings);
  const auto tokenizer =
      Tokenizer::from_json(hf_tokenizer_json(512), text_of(stored.value()), "package");
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ(tokenizer.value().chat_template(), "first\n");
  // Another template is another model; one in tokenizer_config.json comes first.
  hf_write_text(folder / "chat_template.jinja", "second\n");
  EXPECT_NE(exported(c.options())["digests"]["model"], first["digests"]["model"]);
  hf_write_text(folder / "tokenizer_config.json", hf_tokenizer_config_json());
  exported(c.options());
  const auto own = opened(c.package()).section(ELQ_SECTION_TMPL);
  ASSERT_TRUE(own.ok());
  EXPECT_EQ(text_of(own.value()), hf_tokenizer_config_json());
}

// 2-bit q_proj of T2: 96 x 64, 8 kept columns. Codes 96*64/8*2 = 1536 bytes; 6 panels of a
// row-scale line and one scale line (one group, 4 fit): 768; kept 64 + 64 + 8*96 = 896.
TEST(Export, RecordsFollowTheClosedFormula) {
  const ExportCase c("export_record", hf_t2(), seq2);
  exported(c.options());
  const Package package = opened(c.package());
  for (const PackageTensor& t : package.tensors()) {
    if (t.name != "model.layers.0.self_attn.q_proj.weight") continue;
    EXPECT_EQ(t.record.bytes, 1536u + 768u + 896u);
    EXPECT_EQ(t.record.kept_offset, 1536u + 768u);
    EXPECT_EQ(t.record.n_kept, 8u);
    EXPECT_EQ(t.record.bits, 2);
    EXPECT_EQ(t.record.z2, 3);
    EXPECT_EQ(t.record.role, static_cast<std::uint32_t>(ELQ_ROLE_Q));
    return;
  }
  FAIL() << "no q_proj";
}

TEST(Export, ManifestAddsUpToTheFile) {
  const ExportCase c("export_manifest", hf_t2(), seq2);
  for (const auto weights : {ExportOptions::Weights::kRaw, ExportOptions::Weights::kZstd}) {
    ExportOptions options = c.options();
    options.weights = weights;
    const Json manifest = exported(options);
    EXPECT_EQ(manifest["format"], "elastiq.manifest/1");
    const auto file = std::filesystem::file_size(c.package());
    EXPECT_EQ(manifest["bytes"]["package"], file);
    std::uint64_t sum = 0;
    for (const auto& [role, bytes] : manifest["bytes"]["by_role"].items()) {
      sum += bytes.get<std::uint64_t>();
    }
    EXPECT_EQ(sum - manifest["bytes"]["zstd_saved"].get<std::uint64_t>(), file);
    // T2: embedding and head 512*64 each, per layer q 96*64, k and v 48*64, o 64*96, three of
    // 172*64, two norms of 64, and the final norm.
    const double n = 2 * 512 * 64 + 2 * (2 * 96 * 64 + 2 * 48 * 64 + 3 * 172 * 64 + 2 * 64) + 64;
    EXPECT_EQ(manifest["parameters"], n);
    EXPECT_DOUBLE_EQ(manifest["bits_per_weight"]["file"], 8.0 * static_cast<double>(file) / n);
    EXPECT_EQ(manifest["bytes"]["by_role"]["embed"], 512 * 64 * 2);
    EXPECT_EQ(manifest["bytes"]["by_role"]["norm"], 5 * 64 * 4);
    EXPECT_EQ(manifest["digests"]["package"], to_hex(sha256(file_text(c.package()))));
    EXPECT_LT(manifest["zstd"]["weights_zstd"], manifest["zstd"]["weights_raw"]);
    EXPECT_EQ(manifest["zstd"]["stored"], weights == ExportOptions::Weights::kRaw ? "raw" : "zstd");
  }
}

TEST(Export, CompressedWeightsRunTheSame) {
  const ExportCase c("export_zstd", hf_t2(), seq2);
  ExportOptions raw = c.options();
  ExportOptions zstd = raw;
  zstd.out = c.root / "zstd";
  zstd.weights = ExportOptions::Weights::kZstd;
  exported(raw);
  exported(zstd);
  EXPECT_LT(std::filesystem::file_size(zstd.out / "model.elq"),
            std::filesystem::file_size(c.package()));
  const auto tokens = hf_prompt(512, 6);
  EXPECT_EQ(runtime_logits(c.package(), tokens), runtime_logits(zstd.out / "model.elq", tokens));
  // The C runtime itself refuses what it cannot map; only PackageModel inflates.
  const Package package = opened(zstd.out / "model.elq");
  elq_model* model = nullptr;
  EXPECT_EQ(elq_model_open(package.image().data(), package.image().size(), &model, nullptr),
            ELQ_ERR_UNSUPPORTED);
}

TEST(Export, IdenticalTensorsAreStoredOnce) {
  HfModel model = hf_model(hf_t1(), HfType::kBf16, 7);
  model.tensors["model.layers.1.mlp.up_proj.weight"] =
      model.tensors["model.layers.0.mlp.up_proj.weight"];
  const auto root = hf_test_folder("export_alias");
  write_hf_model(model, root / "hf");
  ASSERT_TRUE(
      write_quantized_checkpoint(root / "ptq", hf_quantized(model, seq2), root / "hf").ok());
  ExportOptions options;
  options.model = root / "ptq";
  options.out = root / "out";
  const Json manifest = exported(options);
  std::set<std::string> aliased;
  for (const Json& entry : manifest["aliased"]) aliased.insert(entry["name"].get<std::string>());
  EXPECT_EQ(aliased,
            (std::set<std::string>{"lm_head.weight", "model.layers.1.mlp.up_proj.weight"}));
  const auto tokens = hf_prompt(67, 1);
  const auto expected = HfReference(model, hf_quantized(model, seq2)).run(tokens);
  EXPECT_LT(logit_error(runtime_logits(options.out / "model.elq", tokens), expected), 2e-5);
}

// Cases 3 and 30: legal oddities are stripped by name, the rest is refused by name.
TEST(Export, EveryTensorIsStoredStrippedOrRefused) {
  HfModel model = hf_model(hf_t1(), HfType::kBf16, 7);
  model.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {{8}, std::vector<float>(8, 1)};
  model.tensors["empty.a"] = {{0}, {}};
  model.tensors["empty.b"] = {{3, 0}, {}};
  const auto root = hf_test_folder("export_strip");
  write_hf_model(model, root / "hf");
  ExportOptions options;
  options.model = root / "hf";
  options.out = root / "out";
  const Json manifest = exported(options);
  std::set<std::string> stripped;
  for (const Json& entry : manifest["stripped"]) {
    stripped.insert(entry["name"].get<std::string>());
    EXPECT_FALSE(entry["reason"].get<std::string>().empty());
  }
  EXPECT_EQ(stripped, (std::set<std::string>{"model.layers.0.self_attn.rotary_emb.inv_freq",
                                             "empty.a", "empty.b"}));
  for (const char* extra : {"model.layers.0.self_attn.qkv_proj.weight", "base_model.lora_A.weight",
                            "model.layers.0.mlp.up_proj.scales"}) {
    HfModel bad = model;
    bad.tensors[extra] = {{2, 2}, std::vector<float>(4, 1)};
    write_hf_model(bad, root / "hf");
    const auto refused = run_export(options);
    ASSERT_FALSE(refused.ok()) << extra;
    EXPECT_NE(to_string(refused.error()).find(extra), std::string::npos);
    EXPECT_EQ(exit_status(refused.error()), 4);
  }
  // Without a tie and without a head: the error names the tensor and the flag (case 1).
  HfModel unstated = hf_model({48, 2, 3, 1, 16, 80, 67, HfTied::kUnstated}, HfType::kBf16, 7);
  write_hf_model(unstated, root / "unstated");
  options.model = root / "unstated";
  const auto refused = run_export(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(to_string(refused.error()).find("lm_head.weight"), std::string::npos);
  EXPECT_NE(to_string(refused.error()).find("tie_word_embeddings"), std::string::npos);
}

// Case 17: nothing at the final name, no temporary file, a documented exit code.
TEST(Export, AFailedExportLeavesNothing) {
  const ExportCase c("export_fail", hf_t2(), seq2);
  ExportOptions options = c.options();
  options.out = c.root / "ptq" / "config.json" / "out";  // Below a file: cannot be a folder.
  const auto refused = run_export(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(exit_status(refused.error()), 4);

  // A plan that says something else than the codes is found by the read-back.
  QuantizedCheckpoint lying = c.quantized;
  for (Json& entry : lying.info["plan"]) {
    if (entry["scheme"] == "seq2-g64-u8-k8") entry["scheme"] = "seq3-g64-u8-k8";
  }
  ASSERT_TRUE(write_quantized_checkpoint(c.root / "ptq", lying, c.root / "hf").ok());
  const auto differs = run_export(c.options());
  ASSERT_FALSE(differs.ok());
  EXPECT_EQ(differs.error().code, ErrorCode::kVerification);
  EXPECT_EQ(exit_status(differs.error()), 7);
  EXPECT_TRUE(std::filesystem::is_empty(c.root / "out"));

  // A truncated checkpoint, at nine places.
  const std::string weights = file_text(c.root / "hf" / "model.safetensors");
  ExportOptions from_hf = c.options();
  from_hf.model = c.root / "hf";
  for (std::size_t i = 0; i < 9; ++i) {
    hf_write_text(c.root / "hf" / "model.safetensors", weights.substr(0, weights.size() * i / 9));
    const auto cut = run_export(from_hf);
    ASSERT_FALSE(cut.ok()) << i;
    EXPECT_EQ(exit_status(cut.error()), 4);
    EXPECT_TRUE(std::filesystem::is_empty(c.root / "out"));
  }
}

/// Files of this process may not grow beyond the limit: the next best thing to a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }

  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = SIG_DFL;
};

// Case 17: whichever file it is that does not fit, none is left and none that was there is changed.
TEST(Export, AFullDiskLeavesWhatWasThereBefore) {
  const ExportCase c("export_full", hf_t1(), seq2);
  const ExportOptions options = c.options();
  std::filesystem::create_directories(options.out);
  for (const rlim_t bytes : {rlim_t{1000}, rlim_t{10000}, rlim_t{30000}}) {
    const FileSizeLimit limit(bytes);
    const auto refused = run_export(options);
    ASSERT_FALSE(refused.ok()) << bytes;
    EXPECT_EQ(exit_status(refused.error()), 6) << to_string(refused.error());
    EXPECT_TRUE(std::filesystem::is_empty(options.out));
  }
  exported(options);
  hf_write_text(options.out / "kernels" / "notes.txt", "precious");
  const auto before = files_below(options.out);
  const std::string package = file_text(c.package());
  {
    const FileSizeLimit limit(10000);
    ASSERT_FALSE(run_export(options).ok());
  }
  EXPECT_EQ(files_below(options.out).value(), before.value());
  EXPECT_EQ(file_text(c.package()), package);
  exported(options);
  EXPECT_EQ(files_below(options.out).value(), before.value());
}

// A package without its tokenizer could not generate.
TEST(Export, AnUnusableTokenizerIsRefused) {
  const ExportCase c("export_tokenizer", hf_t1(), seq2);
  const auto file = c.root / "ptq" / "tokenizer.json";
  const auto refusal = [&c, &file] {
    const auto refused = run_export(c.options());
    EXPECT_FALSE(refused.ok());
    EXPECT_FALSE(std::filesystem::exists(c.root / "out"));
    if (refused.ok()) return ErrorCode::kInternal;
    EXPECT_EQ(refused.error().subject.find(file.string()), 0u) << to_string(refused.error());
    return refused.error().code;
  };
  hf_write_text(file, "");
  EXPECT_EQ(refusal(), ErrorCode::kSyntax);
  hf_write_text(file, hf_tokenizer_json(67).substr(0, 500));
  EXPECT_EQ(refusal(), ErrorCode::kSyntax);
  hf_write_text(file, "{}");
  EXPECT_EQ(refusal(), ErrorCode::kUnsupportedType);
  hf_write_text(file, "[]");
  EXPECT_EQ(refusal(), ErrorCode::kInconsistent);
  std::filesystem::remove(file);
  EXPECT_EQ(refusal(), ErrorCode::kMissing);
}

int shell(const std::string& command) {
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Export, EmittedKernelsBuildWithACCompilerAlone) {
  const ExportCase c("export_kernels", hf_t1(), seq2);
  ExportOptions options = c.options();
  options.name = "tiny-1";
  exported(options);
  const std::string enter = "cd '" + (options.out / "kernels").string() + "' && ";
  ASSERT_EQ(shell(enter + "make CFLAGS=-O2 CC=cc check > make.log 2>&1"), 0)
      << file_text(options.out / "kernels" / "make.log");
  EXPECT_EQ(shell(enter + "./elq_selftest ../tiny-1.elq > /dev/null"), 0);
  // One wrong bit.
  std::string bytes = file_text(options.out / "tiny-1.elq");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  hf_write_text(options.out / "bad.elq", bytes);
  EXPECT_EQ(shell(enter + "./elq_selftest ../bad.elq > /dev/null 2>&1"), 7);
  const auto sources = std::filesystem::path(__FILE__).parent_path() / "../../kernels";
  for (const auto& entry : std::filesystem::directory_iterator(sources)) {
    const auto name = entry.path().filename();
    if (name == "CMakeLists.txt" || name == "Makefile") continue;
    EXPECT_EQ(file_text(options.out / "kernels" / name), file_text(entry.path())) << name;
  }
}

TEST(Export, NamesAreCheckedBeforeAnyWork) {
  ExportOptions options;
  for (const char* name : {"", "a/b", "..", ".hidden", "a b"}) {
    options.name = name;
    const auto refused = run_export(options);
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace elastiq::testing
