#pragma once

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "core/error.h"

namespace elastiq {

/// Where a match lies, bytes from the start of the text. first == last: none.
struct RegexSpan {
  std::size_t first = 0;
  std::size_t last = 0;
};

/// Working memory of matching; one per thread.
class RegexScratch {
 public:
  RegexScratch();

  /// Why the first search that could not be finished was given up, with its pattern; "": none was.
  const std::string& failure() const { return failure_; }

 private:
  friend class Regex;

  struct Free {
    void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }

    void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }

    void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
  };

  std::unique_ptr<pcre2_match_data, Free> data_;
  std::unique_ptr<pcre2_match_context, Free> context_;
  std::unique_ptr<pcre2_jit_stack, Free> stack_;
  std::string failure_;
};

/// A compiled pattern: UTF-8, Unicode classes, just-in-time compiled where the machine allows it.
class Regex {
 public:
  /// Errors  kSyntax with the pattern, PCRE2's message and the offset in the pattern.
  static Result<Regex> compile(const std::string& pattern, const std::string& subject);

  /// The first non-empty match at or after `from`; text is valid UTF-8. A search that PCRE2 gives
  /// up (match limit, memory) finds none and leaves its reason in scratch.failure().
  RegexSpan find(std::string_view text, std::size_t from, RegexScratch& scratch) const;

 private:
  struct Free {
    void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  };

  std::unique_ptr<pcre2_code, Free> code_;
  std::string pattern_;
};

/// The text as a pattern that matches it literally.
std::string regex_literal(std::string_view text);

}  // namespace elastiq
