#include "model/run_kernels.h"

#include <fmt/format.h>

#include "kernels/elq_kernels.h"
#include "kernels/elq_layout.h"

namespace elastiq {

Json run_kernels() {
  Json list = Json::array();
  std::size_t n = 0;
  const elq_impl* const* impls = elq_impls(&n);
  for (std::size_t i = 0; i < n; ++i) {
    list.push_back({{"name", impls[i]->name}, {"supported", impls[i]->supported() != 0}});
  }
  return {{"best", elq_impl_best()->name},
          {"implementations", std::move(list)},
          {"package_format", fmt::format("{}.{}", ELQ_FORMAT_MAJOR, ELQ_FORMAT_MINOR)}};
}

}  // namespace elastiq
