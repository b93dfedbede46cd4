#pragma once

// The simplest thing that is an elq_parallel: new threads for every run, items claimed one by one.

#include <atomic>
#include <thread>
#include <vector>

#include "kernels/elq_runtime.h"

namespace elastiq::testing {

class ThreadTeam {
 public:
  explicit ThreadTeam(uint32_t n_threads) : n_threads_(n_threads) {}

  elq_parallel parallel() { return {&ThreadTeam::run, this}; }

 private:
  static void run(void* pool, uint32_t n, void (*fn)(void* arg, uint32_t i), void* arg) {
    std::atomic<uint32_t> next{0};
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < static_cast<ThreadTeam*>(pool)->n_threads_; ++t) {
      threads.emplace_back([&] {
        for (uint32_t i = next++; i < n; i = next++) fn(arg, i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  uint32_t n_threads_;
};

}  // namespace elastiq::testing
