#include "model/regex.h"

#include <array>
#include <cstdint>

namespace elastiq {
namespace {

std::string error_text(int code) {
  std::array<PCRE2_UCHAR, 256> message{};
  pcre2_get_error_message(code, message.data(), message.size());
  return reinterpret_cast<const char*>(message.data());
}

}  // namespace

// The default just-in-time stack of 32 KiB is too small for patterns that backtrack over long runs.
RegexScratch::RegexScratch()
    : data_(pcre2_match_data_create(1, nullptr)),
      context_(pcre2_match_context_create(nullptr)),
      stack_(pcre2_jit_stack_create(std::size_t{32} << 10, std::size_t{8} << 20, nullptr)) {
  pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
}

Result<Regex> Regex::compile(const std::string& pattern, const std::string& subject) {
  int code = 0;
  PCRE2_SIZE offset = 0;
  Regex regex;
  regex.code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                  PCRE2_UTF | PCRE2_UCP, &code, &offset, nullptr));
  if (!regex.code_) {
    return Error{ErrorCode::kSyntax, subject,
                 "pattern " + pattern + ": " + error_text(code) + " at byte " +
                     std::to_string(offset) + " of the pattern",
                 0};
  }
  regex.pattern_ = pattern;
  pcre2_jit_compile(regex.code_.get(), PCRE2_JIT_COMPLETE);
  return regex;
}

RegexSpan Regex::find(std::string_view text, std::size_t from, RegexScratch& scratch) const {
  constexpr std::uint32_t kOptions = PCRE2_NOTEMPTY | PCRE2_NO_UTF_CHECK;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  int found = pcre2_match(code_.get(), subject, text.size(), from, kOptions, scratch.data_.get(),
                          scratch.context_.get());
  // Out of just-in-time stack: the interpreter keeps its frames on the heap.
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
    found = pcre2_match(code_.get(), subject, text.size(), from, kOptions | PCRE2_NO_JIT,
                        scratch.data_.get(), scratch.context_.get());
  }
  if (found < PCRE2_ERROR_NOMATCH && scratch.failure_.empty()) {
    scratch.failure_ = "pattern " + pattern_ + ": " + error_text(found);
  }
  if (found < 0) return RegexSpan{text.size(), text.size()};
  const PCRE2_SIZE* spans = pcre2_get_ovector_pointer(scratch.data_.get());
  return RegexSpan{spans[0], spans[1]};
}

std::string regex_literal(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain =
        byte >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!plain) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

}  // namespace elastiq
