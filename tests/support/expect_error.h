#pragma once

// What a refusal must be: its code, and words that its message must have.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.h"

namespace elastiq::testing {

template <class T>
::testing::AssertionResult refused(const Result<T>& result, ErrorCode code,
                                   const std::vector<std::string>& words) {
  if (result.ok()) return ::testing::AssertionFailure() << "was accepted";
  const std::string text = to_string(result.error());
  if (result.error().code != code) {
    return ::testing::AssertionFailure()
           << "expected code " << static_cast<int>(code) << ", got " << text;
  }
  for (const std::string& word : words) {
    if (text.find(word) != std::string::npos) continue;
    return ::testing::AssertionFailure() << "no '" << word << "' in: " << text;
  }
  return ::testing::AssertionSuccess();
}

/// Success, else the error's text.
template <class T>
::testing::AssertionResult accepted(const Result<T>& result) {
  if (result.ok()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << to_string(result.error());
}

}  // namespace elastiq::testing
