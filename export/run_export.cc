#include "export/run_export.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "core/digest.h"
#include "core/file.h"
#include "core/folder.h"
#include "core/rng.h"
#include "core/thread_pool.h"
#include "export/emit_kernels.h"
#include "export/manifest.h"
#include "export/pack_model.h"
#include "export/read_back.h"
#include "export/strip.h"
#include "formats/package.h"
#include "kernels/elq_runtime.h"
#include "model/model_digest.h"
#include "model/package_model.h"
#include "model/tokenizer.h"

namespace elastiq {
namespace fs = std::filesystem;

namespace {

// Golden vectors run one token at a time on the slowest device: enough positions to see rotary
// angles and the cache, few enough to finish in seconds.
constexpr std::uint32_t kPromptTokens = 16;
constexpr std::uint64_t kPromptSeed = 0x656c7100;
constexpr const char* kManifest = "manifest.json";

using Compression = SectionToWrite::Compression;

Status check_options(const ExportOptions& options) {
  const bool clean = !options.name.empty() && options.name.size() <= 100 &&
                     std::all_of(options.name.begin(), options.name.end(), [](char c) {
                       return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                              (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
                     });
  if (clean && options.name[0] != '.') return ok_status();
  return Error{ErrorCode::kInvalidArgument, "export name \"" + options.name + "\"",
               "1 to 100 letters, digits, '-', '_' and '.', not beginning with '.'", 0};
}

// ---------------------------------------------------------------- texts that travel along

struct Texts {
  std::vector<std::byte> tokenizer;  ///< tokenizer.json as it is.
  std::string tokenizer_config;      ///< With the template of chat_template.jinja.
  TokenFacts facts;
};

Result<std::vector<std::byte>> read_bytes(const fs::path& path) {
  ELQ_TRY(file, MappedFile::open(path));
  return std::vector<std::byte>(file.bytes().begin(), file.bytes().end());
}

Result<Texts> read_texts(const fs::path& folder, const ModelConfig& config) {
  ELQ_TRY(tokenizer, Tokenizer::open(folder));
  if (tokenizer.size() > static_cast<std::uint64_t>(config.vocab)) {
    return Error{ErrorCode::kInconsistent, (folder / "tokenizer.json").string(),
                 "has ids up to " + std::to_string(tokenizer.size() - 1) + ", the embedding has " +
                     std::to_string(config.vocab) + " rows",
                 0};
  }
  Texts texts;
  ELQ_TRY(json, read_bytes(folder / "tokenizer.json"));
  ELQ_TRY(settings, read_tokenizer_config(folder));
  texts.tokenizer = std::move(json);
  texts.tokenizer_config = std::move(settings);
  texts.facts.bos = tokenizer.bos() >= 0 ? tokenizer.bos() : config.bos;
  texts.facts.eos = config.eos.empty() ? tokenizer.eos() : config.eos.front();
  const bool adds = tokenizer.add_bos() && texts.facts.bos >= 0;
  texts.facts.add_bos = adds ? TokenFacts::AddBos::kYes : TokenFacts::AddBos::kNo;
  return texts;
}

// ---------------------------------------------------------------- golden vectors

std::vector<std::uint32_t> prompt(const ModelConfig& config, const TokenFacts& facts) {
  Rng rng(kPromptSeed);
  const auto n =
      std::min<std::uint64_t>(kPromptTokens, static_cast<std::uint64_t>(config.max_positions));
  std::vector<std::uint32_t> tokens(n);
  for (std::uint32_t& token : tokens) {
    token = static_cast<std::uint32_t>(rng.below(static_cast<std::uint64_t>(config.vocab)));
  }
  if (facts.bos >= 0) tokens.front() = static_cast<std::uint32_t>(facts.bos);
  return tokens;
}

/// Opens the package that is about to be written, without its golden vectors, and makes them.
Result<std::vector<std::byte>> golden_vectors(const PackedModel& packed,
                                              const std::vector<std::uint32_t>& tokens) {
  ELQ_TRY(image, package_image(packed.sections(Compression::kNone), 0, 0));
  elq_error_info info{"", 0};
  elq_model* model = nullptr;
  elq_status status = elq_model_open(image.data(), image.size(), &model, &info);
  if (status != ELQ_OK) return runtime_error(status, &info, "the package in memory");
  const auto n = static_cast<std::uint32_t>(tokens.size());
  std::vector<std::byte> bytes(elq_kat_bytes(model, n));
  status = elq_kat_write(model, tokens.data(), n, reinterpret_cast<std::uint8_t*>(bytes.data()));
  elq_model_close(model);
  if (status != ELQ_OK) return runtime_error(status, nullptr, "golden vectors");
  return bytes;
}

// ---------------------------------------------------------------- the stage

Json provenance(const ExportOptions& options, const ExportSource& source, const PackedModel& model,
                const std::string& source_digest) {
  Json document;
  document["format"] = "elastiq.provenance/1";
  document["tool"] = std::string("elastiq ") + ELASTIQ_VERSION;
  document["model_digest"] = source_digest;
  document["recipe"] = options.provenance;
  document["quantization"] = source.info;
  document["stripped"] = stripped_json(source);
  document["aliased"] = aliased_json(model);
  return document;
}

/// First 8 bytes of the SHA-256 of the resolved recipe, or 0.
std::uint64_t build_id(const Json& recipe) {
  if (recipe.is_null()) return 0;
  const Sha256 digest = sha256(dump_json(recipe));
  std::uint64_t id = 0;
  std::memcpy(&id, digest.data(), sizeof id);
  return id;
}

/// A folder under a name that nobody takes for the result: everything is written there and moved
/// when all of it is complete. Gone at the end.
class Drafts {
 public:
  static Result<Drafts> create(const fs::path& folder) {
    Drafts drafts;
    std::error_code error;
    fs::remove_all(folder, error);  // Of an export that was killed.
    fs::create_directories(folder, error);
    if (error) {
      return Error{io_error_code(error.value()), folder.parent_path().string(),
                   "cannot create a folder: " + error.message(), 0};
    }
    drafts.folder_ = folder;
    return drafts;
  }

  ~Drafts() {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
  }

  Drafts(Drafts&& other) noexcept : folder_(std::exchange(other.folder_, fs::path())) {}

  Drafts& operator=(Drafts&&) = delete;
  Drafts(const Drafts&) = delete;
  Drafts& operator=(const Drafts&) = delete;

  fs::path operator/(const fs::path& name) const { return folder_ / name; }

  /// The draft of this name becomes OUT/name.
  Status publish(const fs::path& name) const {
    const fs::path final_name = folder_.parent_path() / name;
    std::error_code error;
    fs::rename(folder_ / name, final_name, error);
    if (!error) return ok_status();
    return Error{io_error_code(error.value()), final_name.string(),
                 "cannot rename: " + error.message(), 0};
  }

 private:
  Drafts() = default;

  fs::path folder_;
};

/// File by file: what else lies in a folder of that name stays.
Status publish_kernels(const Drafts& drafts, const fs::path& out) {
  std::error_code error;
  fs::create_directories(out / "kernels", error);
  if (error) {
    return Error{io_error_code(error.value()), (out / "kernels").string(),
                 "cannot create: " + error.message(), 0};
  }
  ELQ_TRY(files, files_below(drafts / "kernels"));
  for (const fs::path& file : files) ELQ_CHECK(drafts.publish(fs::path("kernels") / file));
  return ok_status();
}

Result<std::uint64_t> zstd_bytes(const PackedModel& model, ThreadPool& pool) {
  std::vector<SectionToWrite> sections = model.sections(Compression::kZstdIfSmaller);
  sections.erase(sections.begin(), sections.begin() + 3);  // META, TENS, STRT
  std::vector<std::optional<Result<std::uint64_t>>> sizes(sections.size());
  pool.run(sections.size(), [&](std::size_t i) { sizes[i] = stored_bytes(sections[i]); });
  std::uint64_t total = 0;
  for (const auto& size : sizes) {
    if (!size->ok()) return size->error();
    total += size->value();
  }
  return total;
}

Status write_draft(const fs::path& path, const ExportOptions& options, const PackedModel& model,
                   const Texts& texts, std::span<const std::byte> kat, const std::string& prov) {
  const Compression weights = options.weights == ExportOptions::Weights::kZstd
                                  ? Compression::kZstdIfSmaller
                                  : Compression::kNone;
  std::vector<SectionToWrite> sections = model.sections(weights);
  const auto add_text = [&](std::uint32_t type, std::span<const std::byte> bytes) {
    if (!bytes.empty()) sections.push_back({type, {bytes}, Compression::kZstdIfSmaller});
  };
  add_text(ELQ_SECTION_TOKZ, texts.tokenizer);
  add_text(ELQ_SECTION_TMPL, std::as_bytes(std::span(texts.tokenizer_config)));
  sections.push_back({ELQ_SECTION_KAT, {kat}, Compression::kNone});
  add_text(ELQ_SECTION_PROV, std::as_bytes(std::span(prov.data(), prov.size())));
  return write_package(path, sections, 0, build_id(options.provenance));
}

}  // namespace

Result<Json> run_export(const ExportOptions& options) {
  ELQ_CHECK(check_options(options));
  ThreadPool pool(static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  ELQ_TRY(source, read_export_source(options.model));
  ELQ_TRY(texts, read_texts(options.model, source.config));
  ELQ_TRY(source_digest, model_digest(options.model));
  ELQ_TRY(model, pack_model(source, texts.facts, options.name, pool));
  ELQ_TRY(kat, golden_vectors(model, prompt(source.config, texts.facts)));

  const std::string file_name = options.name + ".elq";
  const std::string prov = dump_json(provenance(options, source, model, source_digest));
  ELQ_TRY(drafts, Drafts::create(options.out / ("." + file_name + ".unverified")));
  ELQ_CHECK(write_draft(drafts / file_name, options, model, texts, kat, prov));
  ELQ_CHECK(read_back(drafts / file_name, source, model, pool));
  ELQ_CHECK(emit_kernels(drafts / "kernels", file_name));

  ELQ_TRY(package, Package::open(drafts / file_name));
  ManifestInput input{source, model, package, file_name, {{"model", source_digest}}, 0};
  ELQ_TRY(zstd, zstd_bytes(model, pool));
  input.zstd_weight_bytes = zstd;
  Json manifest = make_manifest(input);
  ELQ_CHECK(write_file(drafts / kManifest, dump_json(manifest)));
  ELQ_CHECK(publish_kernels(drafts, options.out));
  ELQ_CHECK(drafts.publish(file_name));
  ELQ_CHECK(drafts.publish(kManifest));
  return manifest;
}

}  // namespace elastiq
