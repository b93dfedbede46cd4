#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace elastiq {

/// The text of tokenizer_config.json of a folder; "" when there is none. A template that the
/// folder keeps in chat_template.jinja and not there is put in under "chat_template".
Result<std::string> read_tokenizer_config(const std::filesystem::path& folder);

/// tokenizer.json BPE: byte-level (GPT-2 alphabet; Digits and ByteLevel pre-tokenizers) and
/// SentencePiece style (metaspace, byte fallback). Added tokens are matched first. Thread-safe
/// after construction.
class Tokenizer {
 public:
  /// Reads tokenizer.json and tokenizer_config.json (add_bos_token, bos_token, eos_token,
  /// chat_template) of a folder, the template also from chat_template.jinja.
  static Result<Tokenizer> open(const std::filesystem::path& folder);
  /// From the texts themselves; config may be empty.
  static Result<Tokenizer> from_json(std::string_view tokenizer_json,
                                     std::string_view tokenizer_config_json,
                                     const std::string& subject);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Ids without BOS; text is valid UTF-8. Special tokens in the text are matched as tokens.
  /// Errors  kLimitExceeded with the pattern: a pattern of the tokenizer backtracks without end.
  Result<std::vector<std::uint32_t>> try_encode(std::string_view text) const;
  /// The same for texts known to be encodable: after such a failure the rest is one piece.
  std::vector<std::uint32_t> encode(std::string_view text) const;

  /// Bytes of the ids; special tokens are left out. Byte-exact inverse of encode for text without
  /// special tokens (a SentencePiece prefix space is removed).
  std::string decode(const std::vector<std::uint32_t>& ids) const;

  std::size_t size() const;  ///< Highest id + 1.

  bool add_bos() const;
  std::int64_t bos() const;  ///< -1: none.
  std::int64_t eos() const;
  const std::string& chat_template() const;  ///< Empty: none.
  /// Id of a token by its literal text, or -1.
  std::int64_t id_of(std::string_view token) const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace elastiq
