#pragma once

#include <array>
#include <cstddef>
#include <streambuf>

namespace elastiq {

/// Behind std::cout while it lives: writes to standard output and remembers why it could not. (The
/// buffer of the library loses errno, and a full disk looks like success until the last flush.)
class OutputBuffer : public std::streambuf {
 public:
  OutputBuffer();
  ~OutputBuffer() override;
  OutputBuffer(const OutputBuffer&) = delete;
  OutputBuffer& operator=(const OutputBuffer&) = delete;

  /// errno of the first write that failed, or 0. What came after it is dropped.
  int failure() const { return failure_; }

 protected:
  int_type overflow(int_type c) override;
  int sync() override;

 private:
  std::array<char, std::size_t{1} << 16> bytes_{};
  std::streambuf* before_;
  int failure_ = 0;
};

}  // namespace elastiq
