#pragma once

namespace elastiq {

/// What this machine reads from memory with that many threads, in bytes per second: the best of
/// several passes over 256 MiB, one contiguous part per thread. The roof of a decode step, which
/// reads every weight once. threads >= 1. Errors  std::bad_alloc where 256 MiB cannot be had.
double read_bandwidth(int threads);

}  // namespace elastiq
