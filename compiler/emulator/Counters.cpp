// Counters in shared memory that only grow: threads add to them and wait until they are large
// enough. Whoever has waited knows what was done before the additions that made it so.
#include "compiler/emulator/Transfers.h"

#include <fmt/format.h>

#include <algorithm>

namespace m3c::emulator {

static constexpr uint64_t counterBytes = 4;

Cluster::Transfers::Counter &Cluster::Transfers::counterAt(FibreThread &thread, const void *address,
                                                           uint64_t &offset) {
  offset = offsetOf(thread, address, counterBytes, "a counter");
  auto found = counters.find({thread.rank, offset});
  if (found == counters.end())
    cluster.fail(thread, fmt::format("uses a counter at byte {} of shared memory that nothing has "
                                     "started",
                                     offset));
  cluster.complain(thread,
                   cluster.shadowOf(thread).read(cluster.accessor(thread), offset, counterBytes));
  return found->second;
}

void Cluster::Transfers::startCounter(FibreThread &thread, const void *address) {
  uint64_t offset = offsetOf(thread, address, counterBytes, "a counter");
  if (offset % counterBytes)
    cluster.fail(thread, fmt::format("starts a counter at byte {}, no multiple of 4", offset));
  cluster.complain(thread,
                   cluster.shadowOf(thread).write(cluster.accessor(thread), offset, counterBytes));
  counters[{thread.rank, offset}] = {};
}

void Cluster::Transfers::raise(FibreThread &thread, const void *address, unsigned by) {
  uint64_t offset = 0;
  Counter &counter = counterAt(thread, address, offset);
  Counter::Reached next;
  if (counter.history.empty()) {
    next.told.reset(unsigned(cluster.warps.size()) + 1, 0);
    next.toldFenced.reset(unsigned(cluster.warps.size()) + 1, 0);
  } else {
    next = counter.history.back();
  }
  cluster.publish(thread, next.told, next.toldFenced);
  next.value = counter.value() + by;
  counter.history.push_back(std::move(next));
  for (FibreThread *waiter : counter.waiters)
    cluster.wake(*waiter);
  counter.waiters.clear();
}

void Cluster::Transfers::awaitCounter(FibreThread &thread, const void *address, unsigned least) {
  uint64_t offset = 0;
  Counter &counter = counterAt(thread, address, offset);
  while (counter.value() < least) {
    counter.waiters.push_back(&thread);
    thread.waitsFor = "a counter in shared memory";
    thread.home->ready &= ~(uint64_t(1) << thread.lane);
    cluster.leave(thread);
  }
  auto reached =
      std::ranges::lower_bound(counter.history, uint64_t(least), {}, &Counter::Reached::value);
  if (least)
    cluster.learn(thread, reached->told, reached->toldFenced);
}

} // namespace m3c::emulator
