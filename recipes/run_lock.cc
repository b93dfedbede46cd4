#include "recipes/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace elastiq {

Result<RunLock> RunLock::take(const std::filesystem::path& folder) {
  const std::string file = (folder / "run.lock").string();
  const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return Error{ErrorCode::kIo, file, std::strerror(errno)};
  RunLock lock(descriptor);
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) return Error{ErrorCode::kIo, file, std::strerror(errno)};
  return Error{ErrorCode::kIo, folder.string(),
               "another run is using this folder; wait for it or give another --out"};
}

RunLock::RunLock(RunLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

RunLock::~RunLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace elastiq
