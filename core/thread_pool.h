#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace elastiq {

/// A fixed set of worker threads for loops whose iterations are independent. Iterations are claimed
/// one by one; results must not depend on the order.
class ThreadPool {
 public:
  /// threads >= 1; the caller's thread is one of them.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Runs body(i) for i in [0, n) and returns when all are done. Not reentrant.
  void run(std::size_t n, const std::function<void(std::size_t)>& body);

  int threads() const;

  /// The same as elq_parallel.run takes it: pool is a ThreadPool*.
  static void c_run(void* pool, std::uint32_t n, void (*fn)(void*, std::uint32_t), void* arg);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace elastiq
