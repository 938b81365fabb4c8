// A work item that counts itself in tells others that they may read what it has stored in global
// memory: all of its warps must have stored before, and none may store meanwhile.
#include "compiler/emulator/Cluster.h"

#include <fmt/format.h>

#include <algorithm>

namespace m3c::emulator {

void Cluster::goOn(Warp &warp, uint32_t time) {
  if (warp.stored && time != warp.now) {
    checkStores(warp);
    warp.storedAt = warp.now;
    warp.stored = 0;
  }
  warp.now = time;
}

void Cluster::countIn(FibreThread &thread) {
  Warp &own = *thread.home;
  const Knowledge &known = thread.own ? *thread.own : own.knowledge;
  for (const Warp &warp : warps) {
    if (warp.rank != own.rank || warp.index == own.index)
      continue;
    uint32_t last = warp.stored ? warp.now : warp.storedAt;
    const Seen &seen = known.of[warp.index];
    if (last > seen.time || (last && last == seen.time && !seen.lanes))
      fail(thread, fmt::format("counts its work item in, and warp {} has written to global memory "
                               "with no barrier between",
                               warp.threads.front()->warp));
  }
  items[own.rank].counted = {own.index, own.now};
  goOn(own, own.now + 1);
}

/// What a warp stores after another one has counted in must come after that.
void Cluster::checkStores(const Warp &warp) {
  const CountedIn &counted = items[warp.rank].counted;
  if (!warp.stored || !counted.time || counted.warp == warp.index || failed)
    return;
  auto knows = [&](const Knowledge &knowledge) {
    return knowledge.of[counted.warp].time > counted.time;
  };
  if (knows(warp.knowledge) || std::ranges::any_of(warp.threads, [&](const FibreThread *thread) {
        return thread->own && knows(*thread->own);
      }))
    return;
  failed = true;
  const FibreThread &first = *warp.threads.front();
  failure.what = fmt::format(
      "warp {} writes to global memory after warp {} has counted the work item in, with "
      "no barrier between",
      first.warp, warps[counted.warp].threads.front()->warp);
  failure.item = first.block;
}

} // namespace m3c::emulator
