#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"

namespace elastiq {

using Sha256 = std::array<std::uint8_t, 32>;

/// Incremental SHA-256 (OpenSSL).
class Sha256Hasher {
 public:
  Sha256Hasher();
  ~Sha256Hasher();
  Sha256Hasher(const Sha256Hasher&) = delete;
  Sha256Hasher& operator=(const Sha256Hasher&) = delete;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  /// Once; the hasher is spent afterwards.
  Sha256 finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Sha256 sha256(std::span<const std::byte> bytes);
Sha256 sha256(std::string_view text);
/// Errors  kIo.
Result<Sha256> sha256_file(const std::filesystem::path& path);

/// 64 lower-case hex digits.
std::string to_hex(const Sha256& digest);

}  // namespace elastiq
