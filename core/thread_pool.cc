#include "core/thread_pool.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace elastiq {
namespace {

/// Looks at a condition before sleeping: about 0.1 ms. The loops of a decoded token follow each
/// other within microseconds, and waking a sleeping thread costs more than most of them take (half
/// the tokens per second of a 135M model).
constexpr int kSpins = 2000;

void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#else
  std::this_thread::yield();
#endif
}

template <class Condition>
bool holds_soon(const Condition& condition) {
  for (int i = 0; i < kSpins; ++i) {
    if (condition()) return true;
    pause_cpu();
  }
  return false;
}

}  // namespace

struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable start;
  std::condition_variable finished;
  std::vector<std::thread> workers;
  const std::function<void(std::size_t)>* body = nullptr;  // of the running loop
  std::size_t n = 0;
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> busy{0};          // workers that have not left the running loop
  std::atomic<std::uint64_t> generation{0};  // counts loops; changes under the mutex
  std::atomic<bool> stopping{false};         // changes under the mutex

  void claim_all() {
    for (std::size_t i = next.fetch_add(1); i < n; i = next.fetch_add(1)) (*body)(i);
  }

  void work() {
    std::uint64_t seen = 0;
    const auto called = [&] { return stopping || generation != seen; };
    for (;;) {
      if (!holds_soon(called)) {
        std::unique_lock lock(mutex);
        start.wait(lock, called);
      }
      if (stopping) return;
      seen = generation;
      claim_all();
      if (busy.fetch_sub(1) == 1) {
        const std::lock_guard lock(mutex);  // The caller is before its check or asleep.
        finished.notify_one();
      }
    }
  }

  void begin(std::size_t count, const std::function<void(std::size_t)>& function) {
    body = &function;
    n = count;
    next = 0;
    busy = workers.size();
    const std::lock_guard lock(mutex);
    ++generation;
    start.notify_all();
  }

  void wait_for_workers() {
    const auto done = [this] { return busy == 0; };
    if (holds_soon(done)) return;
    std::unique_lock lock(mutex);
    finished.wait(lock, done);
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  State* state = state_.get();
  for (int i = 1; i < threads; ++i) state->workers.emplace_back([state] { state->work(); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->start.notify_all();
  for (std::thread& worker : state_->workers) worker.join();
}

void ThreadPool::run(std::size_t n, const std::function<void(std::size_t)>& body) {
  if (state_->workers.empty() || n < 2) {
    for (std::size_t i = 0; i < n; ++i) body(i);
    return;
  }
  state_->begin(n, body);
  state_->claim_all();
  state_->wait_for_workers();
}

int ThreadPool::threads() const {
  return static_cast<int>(state_->workers.size()) + 1;
}

void ThreadPool::c_run(void* pool, std::uint32_t n, void (*fn)(void*, std::uint32_t), void* arg) {
  static_cast<ThreadPool*>(pool)->run(
      n, [fn, arg](std::size_t i) { fn(arg, static_cast<std::uint32_t>(i)); });
}

}  // namespace elastiq
