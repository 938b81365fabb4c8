#include "compiler/emulator/WorkItem.h"

#include "compiler/emulator/Calls.h"
#include "compiler/emulator/Transfers.h"
#include "runtime/base/Error.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

namespace m3c::emulator {

using boost::context::detail::jump_fcontext;
using boost::context::detail::transfer_t;

namespace {

constexpr uint64_t sharedMargin = 1 << 20; ///< bytes on both sides, never accessible
constexpr uint32_t clockLimit = 1u << 25;  ///< times are kept with 26 bits

uint64_t lowBits(unsigned count) { return count >= 64 ? ~uint64_t(0) : (uint64_t(1) << count) - 1; }

} // namespace

WorkItem::WorkItem() : transfers(std::make_unique<Transfers>(*this)) {}

WorkItem::~WorkItem() {
  if (shared)
    munmap(shared - sharedMargin, sharedRoom + 2 * sharedMargin);
}

//===- Beginning and end ----------------------------------------------------------------------===//

void WorkItem::prepare(const LaunchShape &launch, m3emu::Dim block) {
  shape = &launch;
  if (launch.sharedBytes > sharedRoom) {
    if (shared)
      munmap(shared - sharedMargin, sharedRoom + 2 * sharedMargin);
    sharedRoom = (launch.sharedBytes + 4095) / 4096 * 4096;
    void *area = mmap(nullptr, sharedRoom + 2 * sharedMargin, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (area == MAP_FAILED)
      throw Error("no memory for the shared memory of an emulated work item", "emulator");
    shared = static_cast<std::byte *>(area) + sharedMargin;
  }
  uint64_t number =
      block.x + uint64_t(launch.grid.x) * (block.y + uint64_t(launch.grid.y) * block.z);
  random.seed(uint32_t((launch.seed + number * 0x9e3779b97f4a7c15) >> 32) | 1u);
  if (clock > clockLimit)
    clock = 1;
  unsigned warpCount = (launch.threads + launch.lanes - 1) / launch.lanes;
  shadow.begin(launch.sharedBytes, warpCount, launch.lanes, clock);
  stacks.reserve(launch.threads);
  warps.resize(warpCount);
  ownKnowledge.resize(size_t(2) * launch.threads);
  for (unsigned w = 0; w < warpCount; ++w) {
    Warp &warp = warps[w];
    unsigned lanes = std::min(launch.lanes, launch.threads - w * launch.lanes);
    warp.index = w;
    warp.all = warp.ready = lowBits(lanes);
    warp.arrived = warp.exited = 0;
    warp.parts.clear();
    warp.order = unsigned(random()) % launch.lanes;
    warp.next = unsigned(random()) % lanes;
    warp.budget = drawBudget();
    warp.now = warp.synced = clock;
    warp.knowledge.reset(warpCount + 1, clock);
    warp.fenced.reset(warpCount + 1, clock);
    warp.least = clock;
    warp.hasOwn = false;
    warp.threads.resize(lanes);
  }
  for (unsigned i = 0; i < launch.threads; ++i)
    prepareThread(i, block);
  runnable = lowBits(warpCount);
  exitedThreads = 0;
  barriers = {};
  transfers->begin(clock);
  failed = false;
  failure = {};
  count = {};
}

void WorkItem::prepareThread(unsigned index, m3emu::Dim block) {
  auto *thread = new (stacks.head(index)) FibreThread;
  Warp &warp = warps[index / shape->lanes];
  thread->index = {index, 0, 0};
  thread->block = block;
  thread->blockSize = {shape->threads, 1, 1};
  thread->gridSize = shape->grid;
  thread->lane = index % shape->lanes;
  thread->warp = warp.index;
  thread->lanes = shape->lanes;
  thread->turn = 0;
  thread->shared = reinterpret_cast<unsigned char *>(shared);
  thread->sharedBytes = shape->sharedBytes;
  thread->memory = shape->memory;
  thread->pages = shape->pages;
  thread->pageState = shape->pageState;
  thread->words = warp.words;
  thread->slots = warp.slots;
  thread->calls = &calls();
  thread->home = &warp;
  thread->item = this;
  thread->context = stacks.fresh(index, enter);
  warp.threads[thread->lane] = thread;
}

bool WorkItem::run(const LaunchShape &launch, m3emu::Dim block) {
  prepare(launch, block);
  schedule();
  if (!failed) {
    failure.what = transfers->finish();
    failure.item = block;
    failed = !failure.what.empty();
  }
  for (Warp &warp : warps)
    clock = std::max(clock, warp.now + 1);
  clock = std::max(clock, transfers->now() + 1);
  return !failed;
}

void WorkItem::enter(transfer_t from) {
  auto *thread = static_cast<FibreThread *>(static_cast<m3emu::Thread *>(from.data));
  WorkItem &item = *thread->item;
  (item.previous ? item.previous->context : item.scheduler) = from.fctx;
  item.shape->entry(item.shape->values);
  item.exitThread(*thread);
}

void WorkItem::exitThread(FibreThread &thread) {
  Warp &warp = *thread.home;
  uint64_t lane = uint64_t(1) << thread.lane;
  warp.exited |= lane;
  warp.ready &= ~lane;
  ++exitedThreads;
  uint64_t alive = warp.all & ~warp.exited;
  if (warp.arrived && warp.arrived == alive)
    fail(thread, fmt::format("ends while the other lanes of its warp wait at {}", warp.what));
  for (Barrier &barrier : barriers)
    if (barrier.waiting && barrier.expected == 0 &&
        barrier.arrived + exitedThreads >= shape->threads)
      completeBarrier(barrier);
  if (!alive)
    runnable &= ~(uint64_t(1) << warp.index);
  leave(thread); // for ever
}

//===- Taking turns ---------------------------------------------------------------------------===//

unsigned WorkItem::drawBudget() {
  // Mostly long stretches, so that warps also get far apart; at times a few steps.
  uint32_t draw = uint32_t(random());
  return draw % 8 == 0 ? 1 + draw / 8 % 8 : 32 + draw / 8 % 480;
}

void WorkItem::schedule() {
  while (!failed) {
    transfers->step();
    if (!runnable) {
      if (exitedThreads == shape->threads || deadLocked())
        return;
      continue;
    }
    unsigned nth = unsigned(random()) % unsigned(std::popcount(runnable));
    uint64_t rest = runnable;
    while (nth--)
      rest &= rest - 1;
    resume(warps[size_t(std::countr_zero(rest))]);
  }
}

/// Nothing can run: copies that were held back land, else it is a dead-lock.
bool WorkItem::deadLocked() {
  if (transfers->landSome())
    return false;
  failed = true;
  failure.what = "no thread can go on";
  failure.item = warps[0].threads[0]->block;
  for (const Warp &warp : warps)
    for (const FibreThread *thread : warp.threads)
      if (!(warp.exited >> thread->lane & 1) && thread->waitsFor)
        failure.waiting.emplace_back(
            fmt::format("warp {}, lane {}: {}", warp.index, thread->lane, thread->waitsFor),
            thread->place);
  return true;
}

void WorkItem::resume(Warp &warp) {
  if (!(warp.ready >> warp.next & 1))
    warp.next = nextReady(warp, warp.next)->lane;
  FibreThread &thread = *warp.threads[warp.next];
  warp.budget = drawBudget();
  previous = nullptr;
  transfer_t from = jump_fcontext(thread.context, static_cast<m3emu::Thread *>(&thread));
  // Back again: whoever gave the CPU away says who it was.
  static_cast<FibreThread *>(static_cast<m3emu::Thread *>(from.data))->context = from.fctx;
}

FibreThread *WorkItem::nextReady(Warp &warp, unsigned after) {
  for (unsigned i = 1; i <= shape->lanes; ++i) {
    unsigned lane = (((after ^ warp.order) + i) % shape->lanes) ^ warp.order;
    if (warp.ready >> lane & 1)
      return warp.threads[lane];
  }
  return nullptr;
}

void WorkItem::jump(FibreThread &from, FibreThread &to) {
  previous = &from;
  transfer_t back = jump_fcontext(to.context, static_cast<m3emu::Thread *>(&to));
  // `previous` is now the one that came here; none: the scheduler.
  (previous ? previous->context : scheduler) = back.fctx;
}

void WorkItem::toScheduler(FibreThread &thread) {
  transfer_t back = jump_fcontext(scheduler, static_cast<m3emu::Thread *>(&thread));
  (previous ? previous->context : scheduler) = back.fctx; // a lane of its warp may have come first
}

void WorkItem::leave(FibreThread &thread) {
  Warp &warp = *thread.home;
  if (FibreThread *next = nextReady(warp, thread.lane))
    return jump(thread, *next);
  if (warp.exited != warp.all)
    runnable &= ~(uint64_t(1) << warp.index);
  toScheduler(thread);
}

void WorkItem::wake(FibreThread &thread) {
  thread.waitsFor = nullptr;
  thread.home->ready |= uint64_t(1) << thread.lane;
  runnable |= uint64_t(1) << thread.home->index;
}

void WorkItem::fail(FibreThread &thread, std::string what) {
  failed = true;
  failure.what = std::move(what);
  failure.place = thread.place;
  failure.item = thread.block;
  failure.warp = int(thread.warp);
  failure.lane = int(thread.lane);
  toScheduler(thread);
  __builtin_unreachable(); // a work item that failed is not resumed
}

//===- Meetings of a warp ---------------------------------------------------------------------===//

void WorkItem::meet(FibreThread &thread, const char *what, uint64_t mask,
                    void (*all)(void *const *), bool orders) {
  Warp &warp = *thread.home;
  uint64_t alive = warp.all & ~warp.exited, lane = uint64_t(1) << thread.lane;
  mask &= warp.all;
  if (mask != warp.all) {
    warp.what = what;
    return meetSome(thread, mask, all, orders);
  }
  if (warp.exited)
    fail(thread, fmt::format("waits at {} for lanes that have ended", what));
  if (!warp.arrived)
    warp.what = what;
  else if (warp.what != what && std::strcmp(warp.what, what) != 0)
    fail(thread, fmt::format("is at {} while other lanes of its warp are at {}", what, warp.what));
  warp.arrived |= lane;
  if (warp.arrived != alive) {
    warp.ready &= ~lane;
    thread.waitsFor = what;
    leave(thread);
    return;
  }
  warp.arrived = 0;
  if (all)
    all(warp.slots);
  completeMeeting(thread, alive, orders);
}

void WorkItem::completeMeeting(FibreThread &thread, uint64_t lanes, bool orders) {
  Warp &warp = *thread.home;
  warp.ready |= lanes;
  ++count.meetings;
  if (orders)
    orderWarp(warp);
  if (--warp.budget == 0) {
    warp.next = thread.lane;
    warp.order = unsigned(random()) % shape->lanes;
    toScheduler(thread);
  }
}

/// Accesses of all lanes before this come before those after it.
void WorkItem::orderWarp(Warp &warp) {
  if (warp.hasOwn) {
    for (FibreThread *thread : warp.threads)
      if (thread->own) {
        warp.knowledge.join(*thread->own);
        warp.fenced.join(*thread->ownFenced);
        thread->own = thread->ownFenced = nullptr;
      }
    warp.hasOwn = false;
  }
  warp.synced = ++warp.now;
  warp.knowledge.of[warp.index] = {warp.now, 0};
  warp.least = warp.knowledge.least();
}

void WorkItem::meetSome(FibreThread &thread, uint64_t mask, void (*all)(void *const *),
                        bool orders) {
  Warp &warp = *thread.home;
  uint64_t lane = uint64_t(1) << thread.lane;
  if (!(mask & lane))
    fail(thread, fmt::format("is at {} with a mask that leaves it out", warp.what));
  auto part = std::ranges::find(warp.parts, mask, &Warp::Part::mask);
  if (part == warp.parts.end())
    part = warp.parts.insert(part, {mask, 0});
  part->arrived |= lane;
  if (part->arrived != mask) {
    warp.ready &= ~lane;
    thread.waitsFor = warp.what;
    leave(thread);
    return;
  }
  warp.parts.erase(part);
  if (all)
    all(warp.slots);
  completeMeeting(thread, mask, orders);
}

//===- Barriers of a work item ----------------------------------------------------------------===//

void WorkItem::barrier(FibreThread &thread, unsigned id, unsigned threads, bool waits) {
  Warp &warp = *thread.home;
  uint64_t lane = uint64_t(1) << thread.lane;
  if (id >= barriers.size())
    fail(thread, fmt::format("names barrier {}, of {}", id, barriers.size()));
  if (threads % shape->lanes || threads > shape->threads)
    fail(thread, fmt::format("asks for a barrier of {} threads, of {} in warps of {}", threads,
                             shape->threads, shape->lanes));
  const char *what = waits ? "a barrier" : "an arrival at a barrier";
  if (!warp.arrived)
    warp.what = what;
  else if (warp.what != what)
    fail(thread, fmt::format("is at {} while other lanes of its warp are at {}", what, warp.what));
  warp.arrived |= lane;
  warp.ready &= ~lane;
  thread.waitsFor = what;
  if (warp.arrived != (warp.all & ~warp.exited))
    return leave(thread);
  warp.arrived = 0;
  orderWarp(warp);
  arriveAtBarrier(warp, id, threads, waits);
  if (failed)
    fail(thread, std::move(failure.what));
  if (!waits)
    warp.ready |= warp.all & ~warp.exited;
  if (!(warp.ready & lane)) {
    warp.next = thread.lane;
    leave(thread);
  }
}

bool WorkItem::barrierOr(FibreThread &thread, bool holds) {
  barriers[0].holds |= holds;
  barrier(thread, 0, 0, true);
  return lastHolds; // nobody comes to the next one before all have left this one
}

void WorkItem::arriveAtBarrier(Warp &warp, unsigned id, unsigned threads, bool waits) {
  Barrier &barrier = barriers[id];
  uint64_t bit = uint64_t(1) << warp.index;
  if (!barrier.joined) {
    barrier.expected = threads;
    barrier.knowledge = warp.knowledge;
    barrier.fenced = warp.fenced;
  } else {
    barrier.knowledge.join(warp.knowledge);
    barrier.fenced.join(warp.fenced);
  }
  if (barrier.joined & bit || barrier.expected != threads) {
    failed = true;
    failure.what = barrier.joined & bit
                       ? fmt::format("comes to barrier {} again before it is complete", id)
                       : fmt::format("comes to barrier {} with {} threads, others with {}", id,
                                     threads, barrier.expected);
    return;
  }
  barrier.latest = std::max(barrier.latest, warp.now);
  barrier.joined |= bit;
  if (waits)
    barrier.waiting |= bit;
  barrier.arrived += unsigned(std::popcount(warp.all & ~warp.exited));
  unsigned needed = threads ? threads : shape->threads - exitedThreads;
  if (barrier.arrived >= needed)
    completeBarrier(barrier);
}

void WorkItem::completeBarrier(Barrier &barrier) {
  // All go on from one time, later than every access before.
  uint32_t time = barrier.latest + 1;
  for (Warp &warp : warps)
    if (barrier.waiting >> warp.index & 1)
      barrier.knowledge.of[warp.index] = {time, 0};
  for (Warp &warp : warps) {
    if (!(barrier.waiting >> warp.index & 1))
      continue;
    warp.knowledge = barrier.knowledge;
    warp.fenced = barrier.fenced;
    warp.now = warp.synced = time;
    warp.least = warp.knowledge.least();
    for (FibreThread *thread : warp.threads)
      if (!(warp.exited >> thread->lane & 1))
        wake(*thread);
  }
  ++count.meetings;
  lastHolds = barrier.holds;
  barrier = {};
}

//===- Memory ---------------------------------------------------------------------------------===//

Accessor WorkItem::accessor(const FibreThread &thread) const {
  const Warp &warp = *thread.home;
  return {
      thread.warp, thread.lane, warp.now, warp.synced, thread.own ? thread.own : &warp.knowledge,
      warp.least};
}

void WorkItem::readShared(FibreThread &thread, uint64_t offset, unsigned bytes) {
  ++count.sharedAccesses;
  if (bytes > shape->sharedBytes - offset)
    fail(thread, fmt::format("reads {} bytes at {} of {} bytes of shared memory", bytes, offset,
                             shape->sharedBytes));
  if (offset % bytes)
    fail(thread,
         fmt::format("reads {} bytes at {} of shared memory, which is no multiple", bytes, offset));
  complain(thread, shadow.read(accessor(thread), offset, bytes));
}

void WorkItem::writeShared(FibreThread &thread, uint64_t offset, unsigned bytes) {
  ++count.sharedAccesses;
  if (bytes > shape->sharedBytes - offset)
    fail(thread, fmt::format("writes {} bytes at {} of {} bytes of shared memory", bytes, offset,
                             shape->sharedBytes));
  if (offset % bytes)
    fail(thread, fmt::format("writes {} bytes at {} of shared memory, which is no multiple", bytes,
                             offset));
  complain(thread, shadow.write(accessor(thread), offset, bytes));
}

void WorkItem::checkGlobal(FibreThread &thread, const void *address, uint64_t bytes, bool writes) {
  auto at = reinterpret_cast<uint64_t>(address);
  const char *verb = writes ? "writes" : "reads";
  uint64_t begin = reinterpret_cast<uint64_t>(shared), end = begin + shape->sharedBytes;
  if (shared && at >= begin - sharedMargin && at < end + sharedMargin)
    fail(thread, at < begin ? fmt::format("{} {} bytes, {} before shared memory begins", verb,
                                          bytes, begin - at)
                            : fmt::format("{} {} bytes at {} of {} bytes of shared memory", verb,
                                          bytes, at - begin, shape->sharedBytes));
  complain(thread, shape->globalFault(shape->context, at, bytes, writes));
}

//===- Knowledge ------------------------------------------------------------------------------===//

void WorkItem::learn(FibreThread &thread, const Knowledge &knowledge, const Knowledge &fenced) {
  Warp &warp = *thread.home;
  if (!thread.own) {
    size_t at = size_t(2) * thread.index.x;
    thread.own = &(ownKnowledge[at] = warp.knowledge);
    thread.ownFenced = &(ownKnowledge[at + 1] = warp.fenced);
    warp.hasOwn = true;
  }
  thread.own->join(knowledge);
  thread.ownFenced->join(fenced);
}

void WorkItem::publish(FibreThread &thread, Knowledge &knowledge, Knowledge &fenced) {
  Warp &warp = *thread.home;
  knowledge.join(thread.own ? *thread.own : warp.knowledge);
  fenced.join(thread.own ? *thread.ownFenced : warp.fenced);
  knowledge.of[warp.index].join({warp.now, uint64_t(1) << thread.lane});
  ++warp.now; // what the thread does after this is not told
}

} // namespace m3c::emulator
