#include "cli/output_buffer.h"

#include <unistd.h>

#include <cerrno>
#include <iostream>

namespace elastiq {

OutputBuffer::OutputBuffer() : before_(std::cout.rdbuf(this)) {
  setp(bytes_.data(), bytes_.data() + bytes_.size());
}

OutputBuffer::~OutputBuffer() {
  sync();
  std::cout.rdbuf(before_);
}

int OutputBuffer::sync() {
  const char* at = pbase();
  while (at < pptr() && failure_ == 0) {
    const ssize_t written = ::write(STDOUT_FILENO, at, static_cast<std::size_t>(pptr() - at));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) failure_ = errno;
    if (written == 0) failure_ = EIO;
    if (written > 0) at += written;
  }
  setp(bytes_.data(), bytes_.data() + bytes_.size());
  return failure_ == 0 ? 0 : -1;
}

OutputBuffer::int_type OutputBuffer::overflow(int_type c) {
  if (sync() != 0) return traits_type::eof();
  if (!traits_type::eq_int_type(c, traits_type::eof())) return sputc(traits_type::to_char_type(c));
  return traits_type::not_eof(c);
}

}  // namespace elastiq
