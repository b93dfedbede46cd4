#pragma once

// What a fuzz target is, and how bytes become a file for readers that want a path.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

/// libFuzzer's entry point; replay_main.cc calls the same.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace elastiq::fuzz {

/// Ends the process loudly: an invariant of ours is broken, which is what fuzzing looks for.
inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

/// A file in memory with these bytes.
class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size)
      : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    require(descriptor_ >= 0);
    std::size_t done = 0;
    while (done < size) {
      const ssize_t written = ::write(descriptor_, data + done, size - done);
      require(written > 0);
      done += static_cast<std::size_t>(written);
    }
  }

  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  ~MemoryFile() { ::close(descriptor_); }

  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace elastiq::fuzz
