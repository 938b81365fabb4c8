#include "compiler/driver/Interrupt.h"

#include "runtime/base/Error.h"

#include <csignal>
#include <unistd.h>

namespace m3c {

static volatile std::sig_atomic_t interrupted = 0; ///< the signal that came

static void onSignal(int signal) {
  if (interrupted)
    _exit(128 + signal);
  interrupted = signal;
}

InterruptGuard::InterruptGuard() {
  interrupted = 0;
  std::signal(SIGINT, onSignal);
  std::signal(SIGTERM, onSignal);
}

InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

void checkInterrupted() {
  if (interrupted)
    throw Error("interrupted", "", "", "nothing was written; finished kernels stay in the cache",
                ExitCode(128 + interrupted));
}

} // namespace m3c
