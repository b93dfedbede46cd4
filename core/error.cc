#include "core/error.h"

#include <array>

namespace elastiq {
namespace {

struct CodeRow {
  ErrorCode code;
  const char* name;
  int exit_status;
};

constexpr std::array kCodes = {
    CodeRow{ErrorCode::kInvalidArgument, "invalid argument", 2},
    CodeRow{ErrorCode::kIo, "i/o error", 4},
    CodeRow{ErrorCode::kUsage, "usage", 2},
    CodeRow{ErrorCode::kRecipe, "bad recipe", 3},
    CodeRow{ErrorCode::kBadMagic, "not this kind of file", 4},
    CodeRow{ErrorCode::kUnsupportedVersion, "unsupported version", 4},
    CodeRow{ErrorCode::kLimitExceeded, "limit exceeded", 4},
    CodeRow{ErrorCode::kTruncated, "truncated", 4},
    CodeRow{ErrorCode::kInconsistent, "inconsistent", 4},
    CodeRow{ErrorCode::kUnsupportedType, "unsupported", 4},
    CodeRow{ErrorCode::kDuplicate, "duplicate", 4},
    CodeRow{ErrorCode::kMissing, "missing", 4},
    CodeRow{ErrorCode::kBadEncoding, "bad encoding", 4},
    CodeRow{ErrorCode::kSyntax, "syntax error", 4},
    CodeRow{ErrorCode::kNonFinite, "not a finite number", 4},
    CodeRow{ErrorCode::kTooLittleData, "too little data", 4},
    CodeRow{ErrorCode::kNumeric, "numeric failure", 4},
    CodeRow{ErrorCode::kGate, "gate failed", 5},
    CodeRow{ErrorCode::kResources, "not enough memory or disk", 6},
    CodeRow{ErrorCode::kVerification, "verification failed", 7},
    CodeRow{ErrorCode::kFingerprint, "fingerprint mismatch", 8},
    CodeRow{ErrorCode::kInterrupted, "interrupted", 130},
    CodeRow{ErrorCode::kInternal, "internal error", 1},
};

const CodeRow& row(ErrorCode code) {
  for (const CodeRow& candidate : kCodes) {
    if (candidate.code == code) return candidate;
  }
  return kCodes.back();
}

}  // namespace

const char* code_name(ErrorCode code) {
  return row(code).name;
}

int exit_status(const Error& error) {
  return row(error.code).exit_status;
}

std::string to_string(const Error& error) {
  std::string text = "E-" + std::to_string(static_cast<int>(error.code)) + " ";
  text += code_name(error.code);
  text += ": " + error.subject;
  if (error.byte_offset != 0) text += ", byte " + std::to_string(error.byte_offset);
  if (!error.detail.empty()) text += ": " + error.detail;
  return text;
}

}  // namespace elastiq
