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
};

/// A compiled pattern: UTF-8, Unicode classes, just-in-time compiled where the machine allows it.
class Regex {
 public:
  /// Errors  kSyntax with the pattern, PCRE2's message and the offset in the pattern.
  static Result<Regex> compile(const std::string& pattern, const std::string& subject);

  /// The first non-empty match at or after `from`; text is valid UTF-8.
  RegexSpan find(std::string_view text, std::size_t from, RegexScratch& scratch) const;

 private:
  struct Free {
    void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  };

  std::unique_ptr<pcre2_code, Free> code_;
};

/// The text as a pattern that matches it literally.
std::string regex_literal(std::string_view text);

}  // namespace elastiq
