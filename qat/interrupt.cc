#include "qat/interrupt.h"

#include <csignal>

namespace elastiq {

namespace {

// A signal handler can reach nothing but a global: the one exception to "no mutable globals".
volatile std::sig_atomic_t g_requested = 0;

void note(int) {
  g_requested = 1;
}

}  // namespace

struct InterruptGuard::Handlers {
  struct sigaction interrupt;
  struct sigaction terminate;
};

InterruptGuard::InterruptGuard() : former_(std::make_unique<Handlers>()) {
  g_requested = 0;

  struct sigaction action {};

  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &former_->interrupt);
  sigaction(SIGTERM, &action, &former_->terminate);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &former_->interrupt, nullptr);
  sigaction(SIGTERM, &former_->terminate, nullptr);
}

bool InterruptGuard::requested() const {
  return g_requested != 0;
}

}  // namespace elastiq
