#include <algorithm>
#include <bit>
#include <cstring>

#include "formats/package_internal.h"

namespace elastiq {
namespace {

using package::refuse;

constexpr std::size_t kKeyBytes = sizeof(elq_meta_entry::key);
constexpr std::uint64_t kTableStart = 8;  // u32 n, u32 0

bool key_is_clean(std::string_view key) {
  if (key.empty() || key.size() >= kKeyBytes) return false;
  return std::all_of(key.begin(), key.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

/// A value's entry fields and its array bytes (none for scalars).
struct Encoded {
  std::uint32_t type = 0;
  std::uint32_t count = 1;
  std::uint64_t scalar = 0;
  std::span<const std::byte> array;
};

struct Encoder {
  Encoded operator()(std::uint64_t value) const { return {ELQ_META_U64, 1, value, {}}; }

  Encoded operator()(double value) const {
    return {ELQ_META_F64, 1, std::bit_cast<std::uint64_t>(value), {}};
  }

  Encoded operator()(const std::string& text) const {
    return {ELQ_META_TEXT, static_cast<std::uint32_t>(text.size()), 0,
            std::as_bytes(std::span(text.data(), text.size()))};
  }

  Encoded operator()(const std::vector<std::uint32_t>& values) const {
    return {ELQ_META_U32_ARRAY, static_cast<std::uint32_t>(values.size()), 0,
            std::as_bytes(std::span(values))};
  }

  Encoded operator()(const std::vector<float>& values) const {
    return {ELQ_META_F32_ARRAY, static_cast<std::uint32_t>(values.size()), 0,
            std::as_bytes(std::span(values))};
  }
};

std::size_t value_count(const MetaValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return text->size();
  if (const auto* u32 = std::get_if<std::vector<std::uint32_t>>(&value)) return u32->size();
  if (const auto* f32 = std::get_if<std::vector<float>>(&value)) return f32->size();
  return 1;
}

Status check_entry(const std::string& key, const MetaValue& value) {
  if (!key_is_clean(key)) {
    return refuse(ErrorCode::kInvalidArgument, "META", 0,
                  "key \"" + key + "\" must be 1 to 39 printable ASCII characters");
  }
  if (value_count(value) > ELQ_MAX_META_ARRAY) {
    return refuse(
        ErrorCode::kLimitExceeded, "META", 0,
        key + " has " + std::to_string(value_count(value)) +
            " elements, at most ELQ_MAX_META_ARRAY = " + std::to_string(ELQ_MAX_META_ARRAY));
  }
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) return ok_status();
  const std::size_t unclean = package::find_unclean(*text);
  if (unclean == std::string::npos) return ok_status();
  return refuse(ErrorCode::kBadEncoding, "META", unclean,
                key + " is not UTF-8 without control characters");
}

void put(std::vector<std::byte>& out, const void* from, std::size_t bytes) {
  const auto* p = static_cast<const std::byte*>(from);
  out.insert(out.end(), p, p + bytes);
}

}  // namespace

Result<std::vector<std::byte>> encode_meta(const std::map<std::string, MetaValue>& meta) {
  if (meta.size() > ELQ_MAX_META_KEYS) {
    return refuse(ErrorCode::kLimitExceeded, "META", 0,
                  "has " + std::to_string(meta.size()) +
                      " keys, at most ELQ_MAX_META_KEYS = " + std::to_string(ELQ_MAX_META_KEYS));
  }
  std::vector<std::byte> table;
  std::vector<std::byte> arrays;
  const auto n = static_cast<std::uint32_t>(meta.size());
  const std::uint32_t zero = 0;
  put(table, &n, sizeof n);
  put(table, &zero, sizeof zero);
  const std::uint64_t table_end = kTableStart + meta.size() * sizeof(elq_meta_entry);
  for (const auto& [key, value] : meta) {
    ELQ_CHECK(check_entry(key, value));
    const Encoded encoded = std::visit(Encoder{}, value);
    elq_meta_entry entry{};
    std::memcpy(entry.key, key.data(), key.size());
    entry.type = encoded.type;
    entry.count = encoded.count;
    entry.value = encoded.scalar;
    if (encoded.type != ELQ_META_U64 && encoded.type != ELQ_META_F64) {
      arrays.resize((arrays.size() + 7) / 8 * 8);
      entry.value = table_end + arrays.size();
      put(arrays, encoded.array.data(), encoded.array.size());
    }
    put(table, &entry, sizeof entry);
  }
  put(table, arrays.data(), arrays.size());
  if (table.size() > ELQ_MAX_META_BYTES) {
    return refuse(ErrorCode::kLimitExceeded, "META", 0,
                  "has " + std::to_string(table.size()) +
                      " bytes, at most ELQ_MAX_META_BYTES = " + std::to_string(ELQ_MAX_META_BYTES));
  }
  return table;
}

namespace {

template <class T>
std::vector<T> array_of(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Result<MetaValue> decode_value(std::span<const std::byte> bytes, const elq_meta_entry& entry,
                               const std::string& subject, std::uint64_t at) {
  if (entry.type == ELQ_META_U64 || entry.type == ELQ_META_F64) {
    if (entry.count != 1) {
      return refuse(ErrorCode::kInconsistent, subject, at, "META: a scalar's count must be 1");
    }
    if (entry.type == ELQ_META_U64) return MetaValue(std::uint64_t{entry.value});
    return MetaValue(std::bit_cast<double>(entry.value));
  }
  if (entry.type == 0 || entry.type > ELQ_META_TEXT) {
    return refuse(ErrorCode::kUnsupportedType, subject, at,
                  "META: value type " + std::to_string(entry.type) + ", known are 1 to 5");
  }
  if (entry.count > ELQ_MAX_META_ARRAY) {
    return refuse(ErrorCode::kLimitExceeded, subject, at,
                  "META: count " + std::to_string(entry.count) +
                      ", at most ELQ_MAX_META_ARRAY = " + std::to_string(ELQ_MAX_META_ARRAY));
  }
  const std::uint64_t size = std::uint64_t{entry.count} * (entry.type == ELQ_META_TEXT ? 1 : 4);
  if (entry.value > bytes.size() || size > bytes.size() - entry.value) {
    return refuse(ErrorCode::kTruncated, subject, at, "META: an array leaves the section");
  }
  const auto array = bytes.subspan(entry.value, size);
  if (entry.type == ELQ_META_U32_ARRAY) return MetaValue(array_of<std::uint32_t>(array));
  if (entry.type == ELQ_META_F32_ARRAY) return MetaValue(array_of<float>(array));
  std::string text(reinterpret_cast<const char*>(array.data()), array.size());
  if (package::find_unclean(text) == std::string::npos) return MetaValue(std::move(text));
  return refuse(ErrorCode::kBadEncoding, subject, at,
                "META: a text is not UTF-8 without control characters");
}

Result<std::string> decode_key(const elq_meta_entry& entry, const std::string& subject,
                               std::uint64_t at) {
  const std::string key(entry.key, strnlen(entry.key, kKeyBytes));
  const std::span<const char> rest(entry.key + key.size(), kKeyBytes - key.size());
  if (!key_is_clean(key) || !package::all_zero(std::as_bytes(rest))) {
    return refuse(ErrorCode::kInconsistent, subject, at,
                  "META: a key must be 1 to 39 printable ASCII characters, then zeros");
  }
  return key;
}

}  // namespace

Result<std::map<std::string, MetaValue>> decode_meta(std::span<const std::byte> bytes,
                                                     const std::string& subject) {
  if (bytes.size() > ELQ_MAX_META_BYTES) {
    return refuse(ErrorCode::kLimitExceeded, subject, 0,
                  "META: " + std::to_string(bytes.size()) +
                      " bytes, at most ELQ_MAX_META_BYTES = " + std::to_string(ELQ_MAX_META_BYTES));
  }
  std::uint32_t n = 0;
  if (bytes.size() >= kTableStart) std::memcpy(&n, bytes.data(), sizeof n);
  if (n > ELQ_MAX_META_KEYS) {
    return refuse(ErrorCode::kLimitExceeded, subject, 0,
                  "META: " + std::to_string(n) +
                      " keys, at most ELQ_MAX_META_KEYS = " + std::to_string(ELQ_MAX_META_KEYS));
  }
  if (bytes.size() < kTableStart + n * sizeof(elq_meta_entry)) {
    return refuse(ErrorCode::kTruncated, subject, 0,
                  "META: " + std::to_string(n) + " entries do not fit in " +
                      std::to_string(bytes.size()) + " bytes");
  }
  std::map<std::string, MetaValue> meta;
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint64_t at = kTableStart + i * sizeof(elq_meta_entry);
    elq_meta_entry entry{};
    std::memcpy(&entry, bytes.data() + at, sizeof entry);
    ELQ_TRY(key, decode_key(entry, subject, at));
    if (!meta.empty() && key <= meta.rbegin()->first) {
      const bool twice = key == meta.rbegin()->first;
      return refuse(twice ? ErrorCode::kDuplicate : ErrorCode::kInconsistent, subject, at,
                    "META: key \"" + key + "\" is not above the key before it");
    }
    ELQ_TRY(value, decode_value(bytes, entry, subject, at));
    meta.emplace(key, std::move(value));
  }
  // One encoding for one content: order of arrays, alignment, pads and reserved fields all follow.
  ELQ_TRY(canonical, encode_meta(meta));
  const auto differs =
      std::mismatch(bytes.begin(), bytes.end(), canonical.begin(), canonical.end());
  if (differs.first != bytes.end() || differs.second != canonical.end()) {
    return refuse(
        ErrorCode::kInconsistent, subject,
        static_cast<std::uint64_t>(differs.first - bytes.begin()),
        "META: the section is not in canonical form (arrays in key order, 8-byte aligned, "
        "zero padding)");
  }
  return meta;
}

}  // namespace elastiq
