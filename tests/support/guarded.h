#pragma once

// Memory that ends where an unreadable page begins: one byte too far is a crash, with or without a
// sanitizer.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace elastiq::testing {

class Guarded {
 public:
  explicit Guarded(size_t bytes) : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    total_ = (bytes + page_ - 1) / page_ * page_ + page_;
    base_ = static_cast<uint8_t*>(
        mmap(nullptr, total_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + total_ - page_, page_, PROT_NONE);
    data_ = base_ + total_ - page_ - bytes;
  }

  Guarded(const void* from, size_t bytes) : Guarded(bytes) {
    if (bytes > 0) std::memcpy(data_, from, bytes);
  }

  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  ~Guarded() { munmap(base_, total_); }

  uint8_t* data() { return data_; }

 private:
  size_t page_;
  size_t total_ = 0;
  uint8_t* base_ = nullptr;
  uint8_t* data_ = nullptr;
};

}  // namespace elastiq::testing
