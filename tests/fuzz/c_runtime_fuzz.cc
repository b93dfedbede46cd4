// The C runtime: open, self-test, a few tokens. The image ends at the end of its allocation.

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "kernels/elq_runtime.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/reseal.h"

namespace {

struct Free {
  void operator()(std::uint8_t* bytes) const { std::free(bytes); }
};

void run_model(const elq_model* model) {
  const elq_config* config = elq_model_config(model);
  elq_error_info info{};
  (void)elq_selftest(model, nullptr, &info);
  elq_session_options options{};
  options.max_tokens = std::min(4u, config->max_positions);
  options.max_batch = 2;
  elq_session* session = nullptr;
  if (elq_session_new(model, &options, &session) != ELQ_OK) return;
  std::vector<float> logits(config->vocab);
  const std::uint32_t tokens[2] = {0, config->vocab - 1};
  (void)elq_eval(session, tokens, 2, 1, logits.data());
  elq_session_free(session);
}

void open_and_run(const std::uint8_t* image, std::size_t size) {
  elq_model* model = nullptr;
  elq_error_info info{};
  if (elq_model_open(image, size, &model, &info) != ELQ_OK) {
    elastiq::fuzz::require(model == nullptr && info.field != nullptr);
    return;
  }
  run_model(model);
  elq_model_close(model);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  void* memory = nullptr;
  elastiq::fuzz::require(posix_memalign(&memory, 64, size == 0 ? 1 : size) == 0);
  const std::unique_ptr<std::uint8_t, Free> image(static_cast<std::uint8_t*>(memory));
  if (size > 0) std::memcpy(image.get(), data, size);
  open_and_run(image.get(), size);
  elastiq::fuzz::reseal(image.get(), size);
  open_and_run(image.get(), size);
  return 0;
}
