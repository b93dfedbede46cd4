#include "recipes/run_synthetic_bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include "core/file.h"
#include "recipes/child_process.h"

namespace elastiq {
namespace {

namespace fs = std::filesystem;

/// A file that is gone at the end.
struct TemporaryFile {
  fs::path path;

  explicit TemporaryFile(const char* suffix)
      : path(fs::temp_directory_path() / fmt::format("elastiq-bench-{}{}", getpid(), suffix)) {}

  ~TemporaryFile() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }

  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
};

Status synthesize(const SynthesizeOptions& options, const fs::path& program) {
  const TemporaryFile request(".json");
  const TemporaryFile answer(".result.json");
  const Json json = {{"shape", options.shape},           {"bits", options.bits},
                     {"embed_bits", options.embed_bits}, {"kept", options.kept},
                     {"threads", options.threads},       {"out", options.out.string()}};
  ELQ_CHECK(write_file(request.path, dump_json(json)));
  ELQ_TRY(child,
          run_child({program.string(), "stage", "synthesize", request.path.string()}, answer.path));
  if (child.exit_status == 0) return ok_status();
  ELQ_TRY(result, read_json_file(answer.path, JsonLimits{}));
  return error_from_json(result);
}

}  // namespace

Result<Json> run_synthetic_bench(const BenchOptions& bench, const SynthesizeOptions& synthetic,
                                 const fs::path& programs) {
  const TemporaryFile package(".elq");
  SynthesizeOptions make = synthetic;
  make.threads = bench.threads;
  make.out = package.path;
  ELQ_CHECK(synthesize(make, programs / "elastiq"));
  BenchOptions options = bench;
  options.package = package.path;
  ELQ_TRY(result, run_bench(options));
  result["package"] = "synthetic-" + make.shape;
  result["bits"] = make.bits;
  result["embed_bits"] = make.embed_bits;
  result["kept"] = make.kept;
  return result;
}

}  // namespace elastiq
