#pragma once

#include <cstdint>

namespace elastiq {

/// Largest resident set of this process so far (VmHWM), 0 where the system does not tell.
std::uint64_t peak_rss_bytes();

}  // namespace elastiq
