#pragma once

#include <filesystem>

#include "core/error.h"

namespace elastiq {

/// One run per output folder: two would read each other's half-made stages. Held until destroyed or
/// until the process ends, however it ends (flock on FOLDER/run.lock).
class RunLock {
 public:
  /// Errors  kIo: the file cannot be made, or another run has the folder.
  static Result<RunLock> take(const std::filesystem::path& folder);
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

 private:
  explicit RunLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
};

}  // namespace elastiq
