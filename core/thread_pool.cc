#include "core/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace elastiq {

struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable start;
  std::condition_variable finished;
  std::vector<std::thread> workers;
  const std::function<void(std::size_t)>* body = nullptr;  // of the running loop
  std::size_t n = 0;
  std::atomic<std::size_t> next{0};
  std::size_t busy = 0;          // workers that have not left the running loop
  std::uint64_t generation = 0;  // counts loops, so that a worker takes part in each once
  bool stopping = false;

  void claim_all() {
    for (std::size_t i = next.fetch_add(1); i < n; i = next.fetch_add(1)) (*body)(i);
  }

  void work() {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex);
    for (;;) {
      start.wait(lock, [&] { return stopping || generation != seen; });
      if (stopping) return;
      seen = generation;
      lock.unlock();
      claim_all();
      lock.lock();
      if (--busy == 0) finished.notify_one();
    }
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
  {
    const std::lock_guard lock(state_->mutex);
    state_->body = &body;
    state_->n = n;
    state_->next.store(0);
    state_->busy = state_->workers.size();
    ++state_->generation;
  }
  state_->start.notify_all();
  state_->claim_all();
  std::unique_lock lock(state_->mutex);
  state_->finished.wait(lock, [&] { return state_->busy == 0; });
}

int ThreadPool::threads() const {
  return static_cast<int>(state_->workers.size()) + 1;
}

void ThreadPool::c_run(void* pool, std::uint32_t n, void (*fn)(void*, std::uint32_t), void* arg) {
  static_cast<ThreadPool*>(pool)->run(
      n, [fn, arg](std::size_t i) { fn(arg, static_cast<std::uint32_t>(i)); });
}

}  // namespace elastiq
