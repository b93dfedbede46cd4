#pragma once

#include <memory>

namespace elastiq {

/// Notes SIGINT and SIGTERM instead of dying while it lives, so that a training loop can finish its
/// step and save. The former handlers come back with the destructor. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// A signal has come since construction.
  bool requested() const;

 private:
  struct Handlers;
  std::unique_ptr<Handlers> former_;
};

}  // namespace elastiq
