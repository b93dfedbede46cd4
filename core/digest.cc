#include "core/digest.h"

#include <openssl/evp.h>

#include "core/file.h"

namespace elastiq {

struct Sha256Hasher::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();

  State() { EVP_DigestInit_ex(context, EVP_sha256(), nullptr); }

  ~State() { EVP_MD_CTX_free(context); }

  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Sha256Hasher::Sha256Hasher() : state_(std::make_unique<State>()) {}

Sha256Hasher::~Sha256Hasher() = default;

void Sha256Hasher::update(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(state_->context, bytes.data(), bytes.size());
}

void Sha256Hasher::update(std::string_view text) {
  update(std::as_bytes(std::span(text.data(), text.size())));
}

Sha256 Sha256Hasher::finish() {
  Sha256 digest{};
  unsigned int bytes = 0;
  EVP_DigestFinal_ex(state_->context, digest.data(), &bytes);
  return digest;
}

Sha256 sha256(std::span<const std::byte> bytes) {
  Sha256Hasher hasher;
  hasher.update(bytes);
  return hasher.finish();
}

Sha256 sha256(std::string_view text) {
  return sha256(std::as_bytes(std::span(text.data(), text.size())));
}

Result<Sha256> sha256_file(const std::filesystem::path& path) {
  ELQ_TRY(file, MappedFile::open(path));
  return sha256(file.bytes());
}

std::string to_hex(const Sha256& digest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(64);
  for (const std::uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace elastiq
