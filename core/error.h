#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace elastiq {

/// Every way an operation can be refused. The numbers are public: they appear in JSON reports and
/// choose the exit status, so a number is never reused. docs/errors.md has the meaning and the
/// remedy of each.
enum class ErrorCode : std::uint16_t {
  kInvalidArgument = 1,  ///< A caller's value outside the documented range. Exit 2.
  kIo = 2,         ///< Open, read, write, rename or map failed. Exit 4 (input), 6 (disk full).
  kUsage = 3,      ///< The command line. Exit 2.
  kRecipe = 4,     ///< The recipe or a profile. Exit 3.
  kBadMagic = 10,  ///< Exit 4, as all up to kNonFinite.
  kUnsupportedVersion = 11,
  kLimitExceeded = 12,
  kTruncated = 13,
  kInconsistent = 14,
  kUnsupportedType = 15,
  kDuplicate = 16,
  kMissing = 17,
  kBadEncoding = 18,
  kSyntax = 19,
  kNonFinite = 20,
  kTooLittleData = 21,
  kNumeric = 22,       ///< A factorisation or a training step failed.
  kGate = 30,          ///< A budget or a gate. Exit 5.
  kResources = 31,     ///< Memory or disk. Exit 6.
  kVerification = 32,  ///< A digest, a round trip, a golden vector. Exit 7.
  kFingerprint = 33,   ///< Resume or cache of other inputs. Exit 8.
  kInterrupted = 34,   ///< Exit 130; the work can be resumed.
  kInternal = 99,      ///< Our bug. Exit 1.
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string subject;            ///< What was refused: a path, a tensor, a flag.
  std::string detail;             ///< Found value, allowed value; one sentence.
  std::uint64_t byte_offset = 0;  ///< Position in `subject` where it has one, else 0.
};

/// "E-12 limit exceeded: model.safetensors, byte 0: header_length is 99, at most 16".
std::string to_string(const Error& error);

/// Short name of a code, e.g. "limit exceeded".
const char* code_name(ErrorCode code);

/// The documented process exit status of an error (architecture.md section 6).
int exit_status(const Error& error);

struct Unit {};

/// A value or the reason there is none. Never both, never neither.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}  // NOLINT(google-explicit-constructor)

  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return std::holds_alternative<T>(state_); }

  const T& value() const& { return std::get<T>(state_); }

  T& value() & { return std::get<T>(state_); }

  T&& value() && { return std::get<T>(std::move(state_)); }

  const Error& error() const& { return std::get<Error>(state_); }

  Error&& error() && { return std::get<Error>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

/// Result of an operation that only succeeds or fails.
using Status = Result<Unit>;

inline Status ok_status() {
  return Unit{};
}

// Control flow of refusals, the only macros of the project: unwrap into `name` or return the error;
// return the error of a Status. NOLINTBEGIN(bugprone-macro-parentheses)
#define ELQ_TRY(name, expression)                                   \
  auto name##_result = (expression);                                \
  if (!name##_result.ok()) return std::move(name##_result).error(); \
  auto name = std::move(name##_result).value()
#define ELQ_CHECK(expression)                                                 \
  do {                                                                        \
    auto elq_status_result = (expression);                                    \
    if (!elq_status_result.ok()) return std::move(elq_status_result).error(); \
  } while (false)
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace elastiq
