#include "core/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace elastiq {
namespace {

Error io_error(const std::filesystem::path& path, const char* action) {
  return Error{io_error_code(errno), path.string(),
               std::string(action) + ": " + std::strerror(errno), 0};
}

}  // namespace

ErrorCode io_error_code(int errno_value) {
  const bool full = errno_value == ENOSPC || errno_value == EDQUOT || errno_value == EFBIG;
  return full ? ErrorCode::kResources : ErrorCode::kIo;
}

Result<bool> path_exists(const std::filesystem::path& path) {
  std::error_code failed;
  const std::filesystem::file_status status = std::filesystem::status(path, failed);
  if (status.type() != std::filesystem::file_type::none) return std::filesystem::exists(status);
  return Error{ErrorCode::kIo, path.string(), "cannot look: " + failed.message(), 0};
}

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return io_error(path, "cannot open");
  MappedFile file;
  file.path_ = path;

  struct stat status {};

  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    return Error{ErrorCode::kIo, path.string(), "not a regular file", 0};
  }
  file.size_ = static_cast<std::size_t>(status.st_size);
  if (file.size_ > 0) {
    void* data = ::mmap(nullptr, file.size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED) {
      const Error error = io_error(path, "cannot map");
      ::close(descriptor);
      file.size_ = 0;
      return error;
    }
    file.data_ = static_cast<const std::byte*>(data);
  }
  ::close(descriptor);
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& path) {
  AtomicFile file;
  file.path_ = path;
  file.temporary_ = path.string() + ".tmp-" + std::to_string(::getpid());
  file.descriptor_ =
      ::open(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file.descriptor_ < 0) return io_error(path, "cannot create");
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      offset_(other.offset_) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return io_error(path_, "cannot write");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset_ += static_cast<std::uint64_t>(written);
  }
  return ok_status();
}

Status AtomicFile::write(std::string_view text) {
  return write(std::as_bytes(std::span(text.data(), text.size())));
}

Status AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) return io_error(path_, "cannot sync");
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const Error error = io_error(path_, "cannot rename");
    ::unlink(temporary_.c_str());
    return error;
  }
  return ok_status();
}

Status write_file(const std::filesystem::path& path, std::string_view text) {
  ELQ_TRY(file, AtomicFile::create(path));
  ELQ_CHECK(file.write(text));
  return file.commit();
}

Result<std::string> read_text_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  ELQ_TRY(file, MappedFile::open(path));
  const auto bytes = file.bytes();
  if (bytes.size() > max_bytes) {
    return Error{
        ErrorCode::kLimitExceeded, path.string(),
        "file has " + std::to_string(bytes.size()) + " bytes, at most " + std::to_string(max_bytes),
        0};
  }
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    return Error{ErrorCode::kBadEncoding, path.string(), "UTF-16 text; save it as UTF-8", 0};
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const std::size_t bad = find_invalid_utf8(text);
  if (bad != std::string_view::npos) {
    return Error{ErrorCode::kBadEncoding, path.string(), "not valid UTF-8",
                 bad + (bytes.size() - text.size())};
  }
  return std::string(text);
}

std::size_t find_invalid_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  std::size_t i = 0;
  while (i < text.size()) {
    const unsigned char first = byte(i);
    if (first < 0x80) {
      ++i;
      continue;
    }
    const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || i + length > text.size()) return i;
    // The second byte's range excludes overlong forms, surrogates and values past U+10FFFF (RFC
    // 3629).
    const unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (byte(i + 1) < low || byte(i + 1) > high) return i;
    for (std::size_t k = 2; k < length; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return i;
    }
    i += length;
  }
  return std::string_view::npos;
}

}  // namespace elastiq
