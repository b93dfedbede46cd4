#include "formats/package.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "kernels/elq_kernels.h"
#include "tests/support/small_package.h"
#include "tests/support/tiny_model.h"

namespace elastiq::testing {
namespace {

constexpr auto kRaw = SectionToWrite::Compression::kNone;
constexpr auto kZstd = SectionToWrite::Compression::kZstdIfSmaller;

LineBytes image_of(const SmallPackage& p) {
  auto image = package_image(p.to_write(), kExampleSecurity, kExampleBuild);
  EXPECT_TRUE(image.ok()) << to_string(image.error());
  return image.ok() ? image.value() : LineBytes{};
}

std::string shakespeare(std::size_t n) {
  std::string text;
  while (text.size() < n) text += "to be or not to be, that is the question; ";
  return text;
}

/// The example with a compressed text.
SmallPackage with_text() {
  SmallPackage p = spec_example();
  p.sections.push_back({ELQ_SECTION_TOKZ, bytes_of_text(shakespeare(900)), kZstd});
  return p;
}

TEST(Package, ReadsBackWhatWasWritten) {
  const auto path = hf_test_folder("package_read") / "p.elq";
  ASSERT_TRUE(write_package(path, with_text().to_write(), 5, 77).ok());
  const auto opened = Package::open(path);
  ASSERT_TRUE(opened.ok()) << to_string(opened.error());
  const Package& p = opened.value();
  EXPECT_EQ(p.header().security_version, 5u);
  EXPECT_EQ(p.header().build_id, 77u);
  EXPECT_EQ(std::get<std::uint64_t>(p.meta().at("model.hidden")), 2u);
  EXPECT_EQ(std::get<std::string>(p.meta().at("model.architecture")), "llama");
  ASSERT_EQ(p.tensors().size(), 1u);
  EXPECT_EQ(p.tensors()[0].name, "w");
  EXPECT_EQ(p.tensors()[0].record.cols, 2u);
  const auto text = p.section(ELQ_SECTION_TOKZ);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text.value(), bytes_of_text(shakespeare(900)));
  EXPECT_LT(p.toc()[4].stored_bytes, 200u);
  EXPECT_EQ(p.toc()[4].flags, ELQ_SECTION_FLAG_ZSTD);
  EXPECT_TRUE(p.verify().ok());
  const auto missing = p.section(ELQ_SECTION_SIGN);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kMissing);
}

TEST(Package, FileAndImageAreTheSameBytesEveryTime) {
  const auto path = hf_test_folder("package_same") / "p.elq";
  ASSERT_TRUE(write_package(path, with_text().to_write(), kExampleSecurity, kExampleBuild).ok());
  const LineBytes image = image_of(with_text());
  EXPECT_EQ(image, image_of(with_text()));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(image.data()) % 64, 0u);
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(std::equal(image.begin(), image.end(), file.value().bytes().begin(),
                         file.value().bytes().end()));
}

/// Calls `change` on a file that can be written in place, one byte at a time.
class ByteFlipper {
 public:
  ByteFlipper(const std::filesystem::path& path, std::span<const std::byte> image)
      : path_(path), image_(image) {
    EXPECT_TRUE(check_package(image, path).ok());
    file_ = ::open(path.c_str(), O_WRONLY);
  }

  ~ByteFlipper() { ::close(file_); }

  ByteFlipper(const ByteFlipper&) = delete;
  ByteFlipper& operator=(const ByteFlipper&) = delete;

  bool is_refused(std::size_t at, unsigned bit) const {
    put(at, image_[at] ^ std::byte{1} << bit);
    auto package = Package::open(path_);
    const bool refused = !package.ok() || !package.value().verify().ok();
    put(at, image_[at]);
    return refused;
  }

 private:
  void put(std::size_t at, std::byte value) const {
    EXPECT_EQ(::pwrite(file_, &value, 1, static_cast<off_t>(at)), 1);
  }

  std::filesystem::path path_;
  std::span<const std::byte> image_;
  int file_ = -1;
};

TEST(Package, EveryFlippedBitIsRefused) {
  const LineBytes image = image_of(with_text());
  const ByteFlipper file(hf_test_folder("package_flip") / "p.elq", image);
  for (std::size_t at = 0; at < image.size(); ++at) {
    // Every bit where something is stored; one bit per byte of the 64 KiB of padding.
    const bool padding = at >= 1100 && at < 65536;
    for (unsigned bit = padding ? at % 8 : 0; bit < 8; bit += padding ? 8 : 1) {
      ASSERT_TRUE(file.is_refused(at, bit)) << "byte " << at << ", bit " << bit;
    }
  }
}

TEST(Package, EveryTruncationIsRefused) {
  const auto path = hf_test_folder("package_cut") / "p.elq";
  const LineBytes image = image_of(with_text());
  const std::span<const std::byte> bytes(image);
  for (std::size_t n = 0; n < bytes.size(); n += n < 1200 || n >= 65530 ? 1 : 997) {
    const Status status = check_package(bytes.first(n), path);
    ASSERT_FALSE(status.ok()) << n;
    EXPECT_EQ(exit_status(status.error()), 4) << n;
  }
  LineBytes longer = image;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(check_package(longer, path).ok());
}

// ---------------------------------------------------------------- fields with digests set right

struct Damage {
  const char* what;
  std::size_t at;
  std::vector<std::byte> bytes;
  ErrorCode code;
  const char* message;
};

template <class T>
Damage damage(const char* what, std::size_t at, T value, ErrorCode code, const char* message) {
  return {what, at, bytes_of(value), code, message};
}

constexpr std::size_t toc(std::size_t index, std::size_t field) {
  return sizeof(elq_header) + index * sizeof(elq_toc_entry) + field;
}

constexpr std::size_t kMeta = 640;  // Offsets of SPEC-package.md, section 9.
constexpr std::size_t kTens = 832;

void expect_refused(const LineBytes& good, const std::vector<Damage>& damages) {
  const auto path = hf_test_folder("package_damage") / "p.elq";
  for (const Damage& d : damages) {
    LineBytes image = good;
    std::copy(d.bytes.begin(), d.bytes.end(), image.begin() + static_cast<std::ptrdiff_t>(d.at));
    reseal_package(image);
    const Status status = check_package(image, path);
    ASSERT_FALSE(status.ok()) << d.what;
    EXPECT_EQ(status.error().code, d.code) << d.what << ": " << to_string(status.error());
    EXPECT_NE(status.error().detail.find(d.message), std::string::npos)
        << d.what << ": " << to_string(status.error());
    EXPECT_EQ(status.error().subject, path.string()) << d.what;
  }
}

TEST(Package, RefusesHeaderFields) {
  using enum ErrorCode;
  using H = elq_header;
  expect_refused(
      image_of(spec_example()),
      {damage("magic", 0, 'E', kBadMagic, "first 8 bytes"),
       damage("major", offsetof(H, major), std::uint16_t{2}, kUnsupportedVersion, "version 2"),
       damage("header", offsetof(H, header_bytes), std::uint32_t{255}, kInconsistent, "256"),
       damage("file", offsetof(H, file_bytes), std::uint64_t{65545}, kTruncated, "65544"),
       damage("file", offsetof(H, file_bytes), std::uint64_t{65543}, kInconsistent, "65544"),
       damage("file", offsetof(H, file_bytes), ELQ_MAX_FILE_BYTES, kTruncated, "file_bytes"),
       damage("file", offsetof(H, file_bytes), ELQ_MAX_FILE_BYTES + 1, kLimitExceeded, "at most"),
       damage("toc", offsetof(H, toc_offset), std::uint64_t{512}, kInconsistent, "256"),
       damage("n", offsetof(H, toc_count), std::uint32_t{0}, kLimitExceeded, "ELQ_MAX_SECTIONS"),
       damage("n", offsetof(H, toc_count), std::uint32_t{4097}, kLimitExceeded, "4097"),
       damage("n", offsetof(H, toc_count), std::uint32_t{4096}, kTruncated, "leaves the file"),
       damage("size", offsetof(H, toc_entry_bytes), std::uint32_t{95}, kInconsistent, "95"),
       damage("feature", offsetof(H, required_features), std::uint32_t{1}, kUnsupportedType, "1"),
       damage("reserved", offsetof(H, reserved) + 155, '\1', kInconsistent, "reserved")});
}

TEST(Package, RefusesTocFields) {
  using enum ErrorCode;
  using T = elq_toc_entry;
  expect_refused(
      image_of(spec_example()),
      {damage("type 0", toc(3, offsetof(T, type)), std::uint32_t{0}, kUnsupportedType, "unknown"),
       damage("type 13", toc(3, offsetof(T, type)), std::uint32_t{13}, kUnsupportedType, "unknown"),
       damage("twice", toc(2, offsetof(T, type)), std::uint32_t{ELQ_SECTION_TENS}, kDuplicate,
              "twice"),
       damage("SIGN", toc(1, offsetof(T, type)), std::uint32_t{ELQ_SECTION_SIGN}, kInconsistent,
              "last"),
       damage("none", toc(2, offsetof(T, type)), std::uint32_t{ELQ_SECTION_LICN}, kMissing, "STRT"),
       damage("flag", toc(3, offsetof(T, flags)), std::uint32_t{2}, kUnsupportedType, "flag"),
       damage("zstd", toc(1, offsetof(T, flags)), std::uint32_t{1}, kInconsistent, "compressed"),
       damage("overlap", toc(2, offsetof(T, offset)), std::uint64_t{896}, kInconsistent, "960"),
       damage("hole", toc(2, offsetof(T, offset)), std::uint64_t{1024}, kInconsistent, "960"),
       damage("far", toc(3, offsetof(T, offset)), std::uint64_t{0xffffffffffff0000}, kInconsistent,
              "65536"),
       damage("size", toc(3, offsetof(T, raw_bytes)), std::uint64_t{9}, kInconsistent, "raw_bytes"),
       damage("align", toc(2, offsetof(T, align_log2)), std::uint32_t{7}, kLimitExceeded, "6, 12"),
       damage("align", toc(2, offsetof(T, align_log2)), std::uint32_t{64}, kLimitExceeded, "6, 12"),
       damage("WGT", toc(3, offsetof(T, align_log2)), std::uint32_t{12}, kInconsistent, "64 KiB"),
       damage("base", toc(3, offsetof(T, base_section_id)), std::uint64_t{1}, kUnsupportedType,
              "delta"),
       damage("reserved", toc(3, offsetof(T, reserved)), '\1', kInconsistent, "reserved"),
       damage("padding", 65535, '\1', kVerification, "padding")});
  // Both sizes grow past the file and past every sum.
  LineBytes image = image_of(spec_example());
  for (const std::uint64_t size : {std::uint64_t{9}, UINT64_MAX, UINT64_MAX - 65535}) {
    std::memcpy(image.data() + toc(3, offsetof(T, stored_bytes)), &size, 8);
    std::memcpy(image.data() + toc(3, offsetof(T, raw_bytes)), &size, 8);
    reseal_package(image);
    const Status status = check_package(image, hf_test_folder("package_size") / "p.elq");
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kTruncated);
  }
}

TEST(Package, RefusesTensorRecords) {
  using enum ErrorCode;
  using R = elq_tensor_record;
  const auto at = [](std::size_t field) { return kTens + field; };
  expect_refused(
      image_of(spec_example()),
      {damage("name", at(offsetof(R, name_offset)), std::uint32_t{1}, kInconsistent, "STRT"),
       damage("name", at(offsetof(R, name_bytes)), std::uint32_t{0}, kLimitExceeded, "255"),
       damage("name", at(offsetof(R, name_bytes)), std::uint32_t{2}, kInconsistent, "STRT"),
       damage("name", at(offsetof(R, name_bytes)), std::uint32_t{256}, kLimitExceeded, "256"),
       damage("name", 960, '\x01', kBadEncoding, "UTF-8"),
       damage("name", 960, '\xff', kBadEncoding, "UTF-8"),
       damage("role", at(offsetof(R, role)), std::uint32_t{0}, kUnsupportedType, "role 0"),
       damage("role", at(offsetof(R, role)), std::uint32_t{13}, kUnsupportedType, "role 13"),
       damage("role", at(offsetof(R, role)), std::uint32_t{37}, kUnsupportedType, "role 37"),
       damage("layer", at(offsetof(R, layer)), std::uint32_t{1}, kLimitExceeded, "layer 1"),
       damage("layout", at(offsetof(R, layout)), '\5', kUnsupportedType, "layout 5"),
       damage("bits", at(offsetof(R, bits)), '\2', kInconsistent, "packed"),
       damage("reserved", at(offsetof(R, reserved0)), '\1', kInconsistent, "reserved"),
       damage("reserved", at(offsetof(R, reserved) + 47), '\1', kInconsistent, "reserved"),
       damage("rows", at(offsetof(R, rows)), std::uint32_t{2}, kInconsistent, "one row"),
       damage("pad", at(offsetof(R, padded_cols)), std::uint32_t{32}, kInconsistent, "packed"),
       damage("section", at(offsetof(R, section)), std::uint32_t{0}, kInconsistent, "WGT"),
       damage("section", at(offsetof(R, section)), std::uint32_t{4}, kInconsistent, "WGT"),
       damage("offset", at(offsetof(R, offset)), std::uint64_t{4}, kInconsistent, "64"),
       damage("offset", at(offsetof(R, offset)), std::uint64_t{64}, kTruncated, "has 8"),
       damage("bytes", at(offsetof(R, bytes)), std::uint64_t{9}, kTruncated, "has 8"),
       damage("bytes", at(offsetof(R, bytes)), UINT64_MAX, kTruncated, "has 8"),
       damage("bytes", at(offsetof(R, bytes)), std::uint64_t{4}, kInconsistent, "must have 8"),
       damage("alias", at(offsetof(R, alias_of)), std::uint32_t{1}, kInconsistent, "alias"),
       damage("alias", at(offsetof(R, alias_of)), std::uint32_t{2}, kInconsistent, "alias_of 2")});
}

TEST(Package, RefusesMetaBytes) {
  using enum ErrorCode;
  const std::size_t entry = kMeta + 8;
  expect_refused(
      image_of(spec_example()),
      {damage("n", kMeta, std::uint32_t{3}, kTruncated, "3 entries"),
       damage("n", kMeta, std::uint32_t{4097}, kLimitExceeded, "4097"),
       damage("zero", kMeta + 4, std::uint32_t{1}, kInconsistent, "canonical"),
       damage("key", entry, '\x7f', kInconsistent, "ASCII"),
       damage("order", entry, 'n', kInconsistent, "not above"),
       damage("type", entry + 40, std::uint32_t{6}, kUnsupportedType, "type 6"),
       damage("scalar", entry + 64 + 44, std::uint32_t{2}, kInconsistent, "count"),
       damage("count", entry + 44, std::uint32_t{65537}, kLimitExceeded, "ELQ_MAX_META_ARRAY"),
       damage("array", entry + 48, std::uint64_t{144}, kTruncated, "leaves"),
       damage("array", entry + 48, UINT64_MAX, kTruncated, "leaves"),
       damage("array", entry + 48, std::uint64_t{128}, kBadEncoding, "UTF-8"),
       damage("short", entry + 44, std::uint32_t{4}, kInconsistent, "canonical"),
       damage("reserved", entry + 56, std::uint64_t{1}, kInconsistent, "canonical"),
       damage("text", kMeta + 136, '\0', kBadEncoding, "UTF-8")});
}

TEST(Package, RefusesBytesAfterTheLastSection) {
  LineBytes image = image_of(spec_example());
  image.push_back(std::byte{0});
  const std::uint64_t bytes = image.size();
  std::memcpy(image.data() + offsetof(elq_header, file_bytes), &bytes, sizeof bytes);
  reseal_package(image);
  const Status status = check_package(image, hf_test_folder("package_after") / "p.elq");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kInconsistent);
  EXPECT_EQ(status.error().byte_offset, 65544u);
}

// A CRC that fits is not enough: an attacker can make one. (The TOC that names the SHA-256 is what
// a signature covers.)
TEST(Package, RefusesAnotherSha256) {
  expect_refused(image_of(with_text()),
                 {damage("sha256", toc(4, offsetof(elq_toc_entry, sha256)), std::uint64_t{1},
                         ErrorCode::kVerification, "SHA-256 is ")});
}

// ---------------------------------------------------------------- compression

TEST(Package, CompressesOnlyWhatBecomesSmaller) {
  std::vector<std::byte> noise;
  Rng rng(3);
  for (int i = 0; i < 1000; ++i) noise.push_back(static_cast<std::byte>(rng.next()));
  SmallPackage p = spec_example();
  p.sections.push_back({ELQ_SECTION_TOKZ, noise, kZstd});
  // 1 MiB of zeros shrinks by far more than 64: a reader would refuse it, so it stays raw.
  p.sections.push_back({ELQ_SECTION_PROV, std::vector<std::byte>(1 << 20), kZstd});
  p.sections.push_back({ELQ_SECTION_LICN, bytes_of_text(shakespeare(5000)), kRaw});
  const auto path = hf_test_folder("package_zstd") / "p.elq";
  ASSERT_TRUE(check_package(image_of(p), path).ok());
  const auto package = Package::open(path);
  for (const std::size_t i : {4u, 5u, 6u}) EXPECT_EQ(package.value().toc()[i].flags, 0u) << i;
  const auto stored = stored_bytes({ELQ_SECTION_TOKZ, {noise}, kZstd});
  EXPECT_EQ(stored.value(), 1000u);
}

TEST(Package, RefusesFramesThatLie) {
  const LineBytes good = image_of(with_text());
  const std::size_t frame = 65600;  // After the 8 bytes of WGT.
  const auto path = hf_test_folder("package_frame") / "p.elq";
  ASSERT_EQ(good[frame], std::byte{0x28});
  using T = elq_toc_entry;
  const auto try_with = [&](std::size_t at, std::vector<std::byte> bytes) {
    LineBytes image = good;
    std::copy(bytes.begin(), bytes.end(), image.begin() + static_cast<std::ptrdiff_t>(at));
    reseal_package(image);
    return check_package(image, path);
  };
  for (const Status& status :
       {try_with(frame, bytes_of('\x50')),  // a skippable frame's magic
        try_with(toc(4, offsetof(T, raw_bytes)), bytes_of(std::uint64_t{923})),
        try_with(toc(4, offsetof(T, raw_bytes)), bytes_of(std::uint64_t{0})),
        try_with(frame + 20, bytes_of(std::uint64_t{0xdeadbeefdeadbeef}))}) {
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kVerification) << to_string(status.error());
  }
}

TEST(Package, WriterRefusesWhatAReaderWould) {
  const auto code = [](SmallPackage p) {
    const auto image = package_image(p.to_write(), 0, 0);
    return image.ok() ? ErrorCode::kInternal : image.error().code;
  };
  SmallPackage p = spec_example();
  p.sections[0].compression = kZstd;
  EXPECT_EQ(code(p), ErrorCode::kInvalidArgument);
  p = spec_example();
  p.sections.push_back(p.sections[0]);
  EXPECT_EQ(code(p), ErrorCode::kDuplicate);
  p = spec_example();
  p.sections.insert(p.sections.begin(), {ELQ_SECTION_SIGN, {}});
  EXPECT_EQ(code(p), ErrorCode::kInvalidArgument);
  p = spec_example();
  p.sections.push_back({13, {}});
  EXPECT_EQ(code(p), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({}), ErrorCode::kLimitExceeded);
}

}  // namespace
}  // namespace elastiq::testing
