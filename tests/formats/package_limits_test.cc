// Every limit of SPEC-package.md section 3 that a test can reach: at it, and one above.

#include <gtest/gtest.h>

#include "formats/package_internal.h"
#include "tests/support/small_package.h"
#include "tests/support/tiny_model.h"

namespace elastiq::testing {
namespace {

template <class T>
ErrorCode code_of(const Result<T>& result) {
  return result.ok() ? ErrorCode::kInternal : result.error().code;
}

std::string numbered(std::size_t i) {
  std::string digits = std::to_string(i);
  return "k" + std::string(6 - digits.size(), '0') + digits;
}

/// Aliases of one vector of two floats, `n` records in all.
SmallPackage many_tensors(std::size_t n, const std::string& first_name) {
  SmallPackage p = spec_example();
  elq_tensor_record record{};
  std::memcpy(&record, p.sections[1].bytes.data(), sizeof record);
  record.role = ELQ_ROLE_BIAS + ELQ_ROLE_Q;
  std::string names;
  p.sections[1].bytes.clear();
  for (std::size_t i = 0; i < n; ++i) {
    const std::string name = i == 0 ? first_name : numbered(i);
    record.name_offset = static_cast<std::uint32_t>(names.size());
    record.name_bytes = static_cast<std::uint32_t>(name.size());
    record.alias_of = i == 0 ? 0 : 1;
    names += name;
    const auto raw = bytes_of(record);
    p.sections[1].bytes.insert(p.sections[1].bytes.end(), raw.begin(), raw.end());
  }
  p.sections[2].bytes = bytes_of_text(names);
  return p;
}

Status check(const SmallPackage& p) {
  ELQ_TRY(image, package_image(p.to_write(), 0, 0));
  return check_package(image, hf_test_folder("package_limits") / "p.elq");
}

TEST(PackageLimits, Tensors) {
  EXPECT_TRUE(check(many_tensors(ELQ_MAX_TENSORS, "a")).ok());
  const SmallPackage above = many_tensors(ELQ_MAX_TENSORS + 1, "a");
  EXPECT_EQ(code_of(check(above)), ErrorCode::kLimitExceeded);  // The writer.
  // The reader, given what no writer of ours makes.
  package::Container c;
  c.image = above.sections[1].bytes;
  elq_toc_entry entry{};
  entry.type = ELQ_SECTION_TENS;
  entry.stored_bytes = entry.raw_bytes = c.image.size();
  entry.crc32c = crc32c(0, c.image);
  const Sha256 digest = sha256(c.image);
  std::memcpy(entry.sha256, digest.data(), digest.size());
  c.toc = {entry};
  const auto read = package::read_tensors(c, "p");
  ASSERT_EQ(code_of(read), ErrorCode::kLimitExceeded);
  EXPECT_NE(read.error().detail.find("65537"), std::string::npos);
}

TEST(PackageLimits, NameBytes) {
  EXPECT_TRUE(check(many_tensors(1, std::string(255, 'a'))).ok());
  EXPECT_EQ(code_of(check(many_tensors(1, std::string(256, 'a')))), ErrorCode::kLimitExceeded);
}

// TENS has 128-byte records, so a string table of 8 MiB needs names of 128 bytes on average.
TEST(PackageLimits, StringTable) {
  SmallPackage p = spec_example();
  p.sections[2].bytes.assign(ELQ_MAX_STRING_TABLE_BYTES, std::byte{'a'});
  EXPECT_EQ(code_of(check(p)), ErrorCode::kInconsistent);  // Legal size; no name covers it.
  p.sections[2].bytes.push_back(std::byte{'a'});
  EXPECT_EQ(code_of(check(p)), ErrorCode::kLimitExceeded);
}

TEST(PackageLimits, Sections) {
  SmallPackage p = many_tensors(1, "a");
  const auto section = p.sections[3];
  // More WGT sections, each with a tensor: an empty one is refused.
  const auto with = [&](std::size_t n) {
    SmallPackage q = spec_example();
    elq_tensor_record record{};
    std::memcpy(&record, p.sections[1].bytes.data(), sizeof record);
    q.sections.resize(3);
    q.sections[1].bytes.clear();
    std::string names;
    for (std::size_t i = 3; i < n; ++i) {
      record.name_offset = static_cast<std::uint32_t>(names.size());
      record.name_bytes = 7;
      record.section = static_cast<std::uint32_t>(i);
      names += numbered(i);
      const auto raw = bytes_of(record);
      q.sections[1].bytes.insert(q.sections[1].bytes.end(), raw.begin(), raw.end());
      q.sections.push_back(section);
    }
    q.sections[2].bytes = bytes_of_text(names);
    return package_image(q.to_write(), 0, 0);
  };
  const auto most = with(ELQ_MAX_SECTIONS);
  ASSERT_TRUE(most.ok());
  const auto read = package::read_container(most.value(), "p");
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_TRUE(package::read_tensors(read.value(), "p").ok());
  EXPECT_EQ(code_of(with(ELQ_MAX_SECTIONS + 1)), ErrorCode::kLimitExceeded);
}

TEST(PackageLimits, MetaKeys) {
  std::map<std::string, MetaValue> meta;
  for (std::size_t i = 0; i < ELQ_MAX_META_KEYS; ++i) meta[numbered(i)] = std::uint64_t{i};
  const auto most = encode_meta(meta);
  ASSERT_TRUE(most.ok());
  const auto back = decode_meta(most.value(), "p");
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back.value(), meta);
  meta["one.more"] = std::uint64_t{0};
  EXPECT_EQ(code_of(encode_meta(meta)), ErrorCode::kLimitExceeded);
}

TEST(PackageLimits, MetaArrayAndKeyLength) {
  std::map<std::string, MetaValue> meta;
  meta[std::string(39, 'k')] = std::vector<float>(ELQ_MAX_META_ARRAY, 0.5f);
  meta["text"] = std::string(ELQ_MAX_META_ARRAY, 'x');
  const auto most = encode_meta(meta);
  ASSERT_TRUE(most.ok());
  ASSERT_TRUE(decode_meta(most.value(), "p").ok());
  EXPECT_EQ(decode_meta(most.value(), "p").value(), meta);
  meta["text"] = std::string(ELQ_MAX_META_ARRAY + 1, 'x');
  EXPECT_EQ(code_of(encode_meta(meta)), ErrorCode::kLimitExceeded);
  EXPECT_EQ(code_of(encode_meta({{std::string(40, 'k'), std::uint64_t{1}}})),
            ErrorCode::kInvalidArgument);
}

// 8 + 64 n + arrays: four arrays of 65536 values less the table fill 1 MiB to the byte.
TEST(PackageLimits, MetaBytes) {
  std::map<std::string, MetaValue> meta;
  for (const char* key : {"a", "b", "c"}) {
    meta[key] = std::vector<std::uint32_t>(ELQ_MAX_META_ARRAY, 1);
  }
  const std::size_t left = ELQ_MAX_META_BYTES - 8 - 4 * sizeof(elq_meta_entry) - 3 * 4 * 65536;
  meta["d"] = std::vector<std::uint32_t>(left / 4, 1);
  const auto most = encode_meta(meta);
  ASSERT_TRUE(most.ok());
  EXPECT_EQ(most.value().size(), ELQ_MAX_META_BYTES);
  EXPECT_TRUE(decode_meta(most.value(), "p").ok());
  meta["d"] = std::vector<std::uint32_t>(left / 4 + 1, 1);
  EXPECT_EQ(code_of(encode_meta(meta)), ErrorCode::kLimitExceeded);
  std::vector<std::byte> above = most.value();
  above.push_back(std::byte{0});
  EXPECT_EQ(code_of(decode_meta(above, "p")), ErrorCode::kLimitExceeded);
}

TEST(PackageLimits, MetaValuesSurvive) {
  const std::map<std::string, MetaValue> meta = {
      {"a.u64", UINT64_MAX},
      {"b.f64", -0.0},
      {"c.u32", std::vector<std::uint32_t>{1, 2, UINT32_MAX}},
      {"d.none", std::vector<float>{}},
      {"e.text", std::string("caf\xc3\xa9")},
      {"f.f32", std::vector<float>{1.5f}}};
  const auto bytes = encode_meta(meta);
  ASSERT_TRUE(bytes.ok());
  // 8 + 6 * 64 = 392: c at 392 (12 bytes), d at 408 (none), e at 408 (5 bytes), f at 416.
  EXPECT_EQ(bytes.value().size(), 420u);
  const auto back = decode_meta(bytes.value(), "p");
  ASSERT_TRUE(back.ok()) << to_string(back.error());
  EXPECT_EQ(back.value(), meta);
  EXPECT_TRUE(std::signbit(std::get<double>(back.value().at("b.f64"))));
  EXPECT_EQ(code_of(encode_meta({{"bad", std::string("\xc3\x28")}})), ErrorCode::kBadEncoding);
  EXPECT_EQ(code_of(encode_meta({{"bad", std::string("a\nb")}})), ErrorCode::kBadEncoding);
  EXPECT_EQ(code_of(encode_meta({{"a b", std::uint64_t{1}}})), ErrorCode::kInvalidArgument);
}

TEST(PackageLimits, PackedShapes) {
  elq_tensor_record r{};
  r.bits = 2;
  r.scale_mode = ELQ_SCALE_F16;
  r.z2 = 3;
  r.group = 32;
  const auto known = [&](std::uint32_t rows, std::uint32_t cols, std::uint32_t kept) {
    r.rows = rows;
    r.cols = cols;
    r.n_kept = kept;
    return package::packed_layout(r).has_value();
  };
  EXPECT_TRUE(known(1, 64, ELQ_MAX_KEPT_COLUMNS));
  EXPECT_FALSE(known(1, 65, ELQ_MAX_KEPT_COLUMNS + 1));
  EXPECT_FALSE(known(1, 3, 4));
  EXPECT_TRUE(known(1u << 20, 1u << 20, 0));
  EXPECT_FALSE(known(1u << 20, (1u << 20) + 1, 0));
  EXPECT_TRUE(known(ELQ_MAX_DIM, 1, 0));
  EXPECT_FALSE(known(ELQ_MAX_DIM + 1, 1, 0));
  EXPECT_FALSE(known(0, 1, 0));
}

}  // namespace
}  // namespace elastiq::testing
