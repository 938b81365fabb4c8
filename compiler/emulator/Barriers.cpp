// Barriers of work items and of clusters.
#include "compiler/emulator/Cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace m3c::emulator {

void Cluster::barrier(FibreThread &thread, unsigned id, unsigned threads, bool waits) {
  Item &item = items[thread.home->rank];
  if (id >= item.barriers.size())
    fail(thread, fmt::format("names barrier {}, of {}", id, item.barriers.size()));
  if (threads % shape->lanes || threads > shape->threads)
    fail(thread, fmt::format("asks for a barrier of {} threads, of {} in warps of {}", threads,
                             shape->threads, shape->lanes));
  come(thread, item.barriers[id], waits ? "a barrier" : "an arrival at a barrier", threads,
       threads ? threads : shape->threads - item.exitedThreads, waits);
}

bool Cluster::barrierOr(FibreThread &thread, bool holds) {
  Item &item = items[thread.home->rank];
  item.barriers[0].holds |= holds;
  barrier(thread, 0, 0, true);
  return item.lastHolds; // nobody comes to the next one before all have left this one
}

void Cluster::clusterBarrier(FibreThread &thread) { comeToCluster(thread, true); }

void Cluster::arriveAtCluster(FibreThread &thread) { comeToCluster(thread, false); }

void Cluster::comeToCluster(FibreThread &thread, bool waits) {
  const char *what = waits ? "a barrier of the cluster" : "an arrival at the cluster's barrier";
  if (thread.home->owesWait)
    fail(thread, fmt::format("comes to {} and has not waited after an arrival", what));
  come(thread, wholeCluster, what, 0, shape->threads * shape->cluster - exitedThreads, waits);
}

void Cluster::awaitCluster(FibreThread &thread) {
  const char *what = "a wait for the cluster";
  Warp &warp = *thread.home;
  if (!warp.owesWait)
    fail(thread, fmt::format("comes to {} without an arrival", what));
  if (!gather(thread, what))
    return leave(thread);
  warp.owesWait = false;
  if (meeting.number > warp.meetingsSeen) {
    learnOf(warp, meeting.knowledge, meeting.fenced, meeting.time);
    warp.ready |= warp.all & ~warp.exited;
    return;
  }
  wholeCluster.waiting.add(warp.index);
  warp.next = thread.lane;
  leave(thread);
}

/// Lanes of a warp go on together: true in the last that comes, once for all.
bool Cluster::gather(FibreThread &thread, const char *what) {
  Warp &warp = *thread.home;
  uint64_t lane = uint64_t(1) << thread.lane;
  if (!warp.arrived)
    warp.what = what;
  else if (std::strcmp(warp.what, what) != 0)
    fail(thread, fmt::format("is at {} while other lanes of its warp are at {}", what, warp.what));
  warp.arrived |= lane;
  warp.ready &= ~lane;
  thread.waitsFor = what;
  if (warp.arrived != (warp.all & ~warp.exited))
    return false;
  warp.arrived = 0;
  orderWarp(warp);
  return true;
}

void Cluster::come(FibreThread &thread, Barrier &barrier, const char *what, unsigned threads,
                   unsigned needed, bool waits) {
  Warp &warp = *thread.home;
  uint64_t lane = uint64_t(1) << thread.lane;
  if (!gather(thread, what))
    return leave(thread);
  if (barrier.joined.has(warp.index))
    fail(thread, fmt::format("comes to {} again before it is complete", what));
  if (barrier.joined.any() && barrier.expected != threads)
    fail(thread, fmt::format("comes to {} with {} threads, others with {}", what, threads,
                             barrier.expected));
  arriveAtBarrier(warp, barrier, threads, needed, waits);
  if (!waits)
    warp.ready |= warp.all & ~warp.exited;
  if (!(warp.ready & lane)) {
    warp.next = thread.lane;
    leave(thread);
  }
}

void Cluster::arriveAtBarrier(Warp &warp, Barrier &barrier, unsigned threads, unsigned needed,
                              bool waits) {
  bool half = !waits && &barrier == &wholeCluster; // which orders nothing
  if (!barrier.joined.any()) {
    barrier.expected = threads;
    barrier.knowledge.reset(knowledgeEntries(), 0);
    barrier.fenced.reset(knowledgeEntries(), 0);
  }
  if (half) {
    warp.owesWait = true;
    warp.meetingsSeen = meeting.number;
  } else {
    barrier.knowledge.join(warp.knowledge);
    barrier.fenced.join(warp.fenced);
  }
  barrier.latest = std::max(barrier.latest, warp.now);
  barrier.joined.add(warp.index);
  if (waits) {
    barrier.waiting.add(warp.index);
    barrier.ordered.add(warp.index);
  }
  barrier.arrived += unsigned(std::popcount(warp.all & ~warp.exited));
  if (barrier.arrived >= needed) {
    items[warp.rank].lastHolds = barrier.holds;
    completeBarrier(barrier);
  }
}

void Cluster::completeBarrier(Barrier &barrier) {
  // All go on from one time, later than every access before.
  uint32_t time = barrier.latest + 1;
  for (Warp &warp : warps)
    if (barrier.ordered.has(warp.index))
      barrier.knowledge.of[warp.index] = {time, 0};
  for (Warp &warp : warps) {
    if (!barrier.waiting.has(warp.index))
      continue;
    learnOf(warp, barrier.knowledge, barrier.fenced, time);
    for (FibreThread *thread : warp.threads)
      if (!(warp.exited >> thread->lane & 1))
        wake(*thread);
  }
  ++count.meetings;
  if (&barrier == &wholeCluster)
    meeting = {meeting.number + 1, barrier.knowledge, barrier.fenced, time};
  barrier = {};
}

/// What a barrier told, to all lanes of a warp, which go on from `time` or later.
void Cluster::learnOf(Warp &warp, const Knowledge &knowledge, const Knowledge &fenced,
                      uint32_t time) {
  goOn(warp, std::max(warp.now, time));
  warp.knowledge.join(knowledge);
  warp.fenced.join(fenced);
  warp.synced = warp.now;
  warp.knowledge.of[warp.index] = {warp.now, 0};
  warp.least = warp.knowledge.least(warps.size());
}

//===- Work items that count themselves in ----------------------------------------------------===//
// They tell others that these may read what they have stored in global memory: all of their warps
// must have stored before, and none may store meanwhile.

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
