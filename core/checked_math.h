#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

namespace elastiq {

/// a + b, a * b, or nothing on overflow. Sizes that come from files go through these.
template <std::unsigned_integral T>
[[nodiscard]] std::optional<T> checked_add(T a, T b) {
  T sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

template <std::unsigned_integral T>
[[nodiscard]] std::optional<T> checked_mul(T a, T b) {
  T product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// value rounded up to a multiple of alignment (a power of two), or nothing on overflow.
template <std::unsigned_integral T>
[[nodiscard]] std::optional<T> checked_align_up(T value, T alignment) {
  const auto sum = checked_add(value, static_cast<T>(alignment - 1));
  if (!sum) return std::nullopt;
  return static_cast<T>(*sum & ~static_cast<T>(alignment - 1));
}

}  // namespace elastiq
