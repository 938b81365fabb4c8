// Ctrl-C while a command works: it stops at the next safe point and leaves nothing half-written.
#pragma once

namespace m3c {

/// While alive, SIGINT and SIGTERM set a flag; a second one ends the process at once.
class InterruptGuard {
public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard &) = delete;
  InterruptGuard &operator=(const InterruptGuard &) = delete;
};

/// Throws Error once a signal has come; its exit code is 128 and the signal.
void checkInterrupted();

} // namespace m3c
