#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/thread_pool.h"
#include "formats/package.h"
#include "kernels/elq_runtime.h"

namespace elastiq {

/// What a status of the C runtime means here. info may be NULL; its byte offset is in `subject`.
Error runtime_error(elq_status status, const elq_error_info* info, const std::string& subject);

/// A package opened in the C runtime with one session; zstd weight sections are inflated into
/// memory first.
class PackageModel {
 public:
  struct Options {
    std::uint32_t max_tokens = 0;  ///< 0: the model's max_positions, at most 4096.
    std::string isa;  ///< "" = ELQ_ISA or the best; unknown or unsupported names are refused.
    int threads = 1;
  };

  static Result<PackageModel> open(const std::filesystem::path& path, const Options& options);
  PackageModel(PackageModel&&) noexcept;
  PackageModel& operator=(PackageModel&&) noexcept;
  ~PackageModel();

  const elq_config& config() const;
  const Package& package() const;
  const char* isa() const;
  /// Appends tokens; logits of the last n_logits of them, n_logits x vocab.
  Status eval(std::span<const std::uint32_t> tokens, std::uint32_t n_logits,
              std::span<float> logits);
  Status rewind(std::uint32_t n);
  std::uint64_t session_bytes() const;
  /// elq_selftest with this session's implementation. Errors kVerification.
  Status selftest() const;

 private:
  struct State;
  explicit PackageModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace elastiq
