#pragma once

#include <string_view>
#include <vector>

namespace elastiq {

/// A file of kernels/ as it was when this program was built.
struct KernelText {
  std::string_view name;
  std::string_view text;
};

/// Sorted by name. Defined in a file that the build makes (export/embed_kernels.cmake).
std::vector<KernelText> kernel_texts();

}  // namespace elastiq
