#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <new>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "kernels/elq_layout.h"

namespace elastiq {

/// Allocates at 64-byte boundaries, which is what the C runtime asks of an image.
template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlign{64};

  LineAllocator() = default;

  template <class U>
  LineAllocator(const LineAllocator<U>&) {}  // NOLINT(google-explicit-constructor)

  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kAlign)); }

  void deallocate(T* p, std::size_t) { ::operator delete(p, kAlign); }

  friend bool operator==(LineAllocator, LineAllocator) { return true; }
};

/// Bytes whose first one is 64-byte aligned.
using LineBytes = std::vector<std::byte, LineAllocator<std::byte>>;

/// One section to write; bytes stay alive until the write returns.
struct SectionToWrite {
  std::uint32_t type = 0;                         ///< elq_section_type
  std::vector<std::span<const std::byte>> parts;  ///< Concatenated.
  enum class Compression { kNone, kZstdIfSmaller } compression = Compression::kNone;
};

/// Deterministic, atomic. WGT sections are aligned to 64 KiB, others to 64 bytes. META, TENS, STRT,
/// KAT and SIGN are never compressed (the C runtime reads them in place).
/// Errors  limits of elq_layout.h by name; kInvalidArgument for sections that a reader would
///         refuse; kIo, kResources.
Status write_package(const std::filesystem::path& path, const std::vector<SectionToWrite>& sections,
                     std::uint64_t security_version, std::uint64_t build_id);

/// The same image in memory (for tests and for golden vectors before the file exists).
Result<LineBytes> package_image(const std::vector<SectionToWrite>& sections,
                                std::uint64_t security_version, std::uint64_t build_id);

/// Bytes that this section would take in a file.
Result<std::uint64_t> stored_bytes(const SectionToWrite& section);

using MetaValue = std::variant<std::uint64_t, double, std::string, std::vector<std::uint32_t>,
                               std::vector<float>>;

/// META section bytes from sorted keys, and back.
Result<std::vector<std::byte>> encode_meta(const std::map<std::string, MetaValue>& meta);
Result<std::map<std::string, MetaValue>> decode_meta(std::span<const std::byte> bytes,
                                                     const std::string& subject);

struct PackageTensor {
  std::string name;
  elq_tensor_record record{};
};

/// An opened package: mapped, every rule of SPEC-package.md checked but the contents of weight and
/// text sections, which verify() and section() check. META, TENS and STRT are checked with their
/// digests.
class Package {
 public:
  static Result<Package> open(const std::filesystem::path& path);

  const elq_header& header() const { return header_; }

  const std::vector<elq_toc_entry>& toc() const { return toc_; }

  const std::map<std::string, MetaValue>& meta() const { return meta_; }

  const std::vector<PackageTensor>& tensors() const { return tensors_; }

  /// Stored bytes of the file.
  std::span<const std::byte> image() const { return file_.bytes(); }

  /// Raw (decompressed, length-checked, SHA-256-checked) bytes of the first section of this type.
  /// Errors  kMissing, kVerification.
  Result<std::vector<std::byte>> section(std::uint32_t type) const;

  /// The same of the section with this index in toc().
  Result<std::vector<std::byte>> section_at(std::size_t index) const;

  /// CRC and SHA-256 of every section, zero padding, closed formulas, code ranges (ternary code 3).
  /// Errors  kVerification with section, offset, found and expected.
  Status verify() const;

 private:
  MappedFile file_;
  elq_header header_{};
  std::vector<elq_toc_entry> toc_;
  std::map<std::string, MetaValue> meta_;
  std::vector<PackageTensor> tensors_;
};

}  // namespace elastiq
