#include "compiler/emulator/Cluster.h"

#include "compiler/emulator/Calls.h"
#include "compiler/emulator/Registers.h"
#include "compiler/emulator/TensorMemory.h"
#include "compiler/emulator/Transfers.h"
#include "compiler/emulator/groups/GroupProducts.h"
#include "runtime/base/Error.h"

#include <asm/prctl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace m3c::emulator {

using boost::context::detail::jump_fcontext;
using boost::context::detail::transfer_t;

namespace {

constexpr uint64_t sharedMargin = 1 << 20; ///< bytes on both sides, never accessible
constexpr uint32_t clockLimit = 1u << 24;  ///< times are kept with 25 bits

uint64_t lowBits(unsigned count) { return count >= 64 ? ~uint64_t(0) : (uint64_t(1) << count) - 1; }

} // namespace

Cluster::Cluster() : transfers(std::make_unique<Transfers>(*this)) {}

Cluster::~Cluster() {
  if (shared)
    munmap(shared - sharedMargin, sharedArea + 2 * sharedMargin);
}

//===- Beginning and end ----------------------------------------------------------------------===//

/// Of each work item of the cluster.
void Cluster::reserveShared(uint64_t bytes) {
  sharedRoom = (bytes / m3emu::pageBytes + 2) * m3emu::pageBytes; // at least a page to spare
  if (sharedRoom * shape->cluster <= sharedArea)
    return;
  if (shared)
    munmap(shared - sharedMargin, sharedArea + 2 * sharedMargin);
  shared = nullptr;
  sharedArea = sharedRoom * shape->cluster;
  void *area = mmap(nullptr, sharedArea + 2 * sharedMargin, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED)
    throw Error("no memory for the shared memory of emulated work items", "emulator");
  shared = static_cast<std::byte *>(area) + sharedMargin;
}

void Cluster::prepare(const LaunchShape &launch, m3emu::Dim block) {
  shape = &launch;
  unsigned warpsOfItem = (launch.threads + launch.lanes - 1) / launch.lanes;
  unsigned warpCount = warpsOfItem * launch.cluster;
  unsigned threadCount = launch.threads * launch.cluster;
  if (warpCount > WarpSet::most)
    throw Error("the cluster is too large for the emulator", "emulator",
                fmt::format("{} warps, at most {} are possible", warpCount, WarpSet::most));
  uint64_t number =
      block.x + uint64_t(launch.grid.x) * (block.y + uint64_t(launch.grid.y) * block.z);
  random.seed(uint32_t((launch.seed + number * 0x9e3779b97f4a7c15) >> 32) | 1u);
  if (clock > clockLimit)
    clock = 1;
  reserveShared(launch.sharedBytes);
  stacks.reserve(threadCount);
  threads.resize(threadCount);
  items.resize(launch.cluster);
  for (Item &item : items) {
    item.shadow.begin(launch.sharedBytes, warpCount, launch.lanes, clock);
    item.barriers = {};
    item.exitedThreads = 0;
    item.counted = {};
  }
  warps.resize(warpCount);
  ownKnowledge.resize(size_t(2) * threadCount);
  runnable = {};
  for (unsigned w = 0; w < warpCount; ++w)
    prepareWarp(w);
  for (unsigned i = 0; i < threadCount; ++i)
    prepareThread(i, block);
  for (Warp &warp : warps)
    reorder(warp);
  wholeCluster = {};
  meeting = {};
  exitedThreads = 0;
  transfers->begin(clock);
  for (Item &item : items) {
    item.products = nullptr;
    if (!launch.registers)
      item.registers = nullptr;
    else if (!item.registers)
      item.registers = std::make_shared<Registers>(*this);
    if (item.registers)
      item.registers->begin(unsigned(&item - items.data()));
    if (!launch.tensorColumns)
      continue;
    if (!item.tensor)
      item.tensor = std::make_shared<TensorMemory>(*this, launch.tensorColumns);
    item.tensor->begin(unsigned(&item - items.data()));
  }
  tensorGroup = 0;
  failed = false;
  failure = {};
  count = {};
  current.instructions = 0;
}

void Cluster::prepareWarp(unsigned index) {
  Warp &warp = warps[index];
  unsigned warpsOfItem = unsigned(warps.size()) / shape->cluster;
  unsigned first = index % warpsOfItem * shape->lanes;
  unsigned lanes = std::min(shape->lanes, shape->threads - first);
  warp.index = index;
  warp.rank = index / warpsOfItem;
  warp.all = warp.ready = lowBits(lanes);
  warp.arrived = warp.exited = 0;
  warp.parts.clear();
  warp.next = unsigned(random()) % lanes;
  warp.budget = drawBudget();
  warp.now = warp.synced = warp.least = clock;
  warp.knowledge.reset(knowledgeEntries(), clock);
  warp.fenced.reset(knowledgeEntries(), clock);
  for (unsigned i = unsigned(warps.size()) + 1; i < knowledgeEntries(); ++i)
    warp.knowledge.of[i] = warp.fenced.of[i] = {};
  warp.hasOwn = warp.owesWait = false;
  warp.stored = 0;
  warp.storedAt = 0;
  warp.threads.resize(lanes);
  runnable.add(index);
}

void Cluster::prepareThread(unsigned index, m3emu::Dim block) {
  FibreThread *thread = &(threads[index] = {});
  unsigned rank = index / shape->threads, within = index % shape->threads;
  Warp &warp = warps[rank * (warps.size() / shape->cluster) + within / shape->lanes];
  thread->index = {within, 0, 0};
  thread->block = {block.x + rank, block.y, block.z};
  thread->blockSize = {shape->threads, 1, 1};
  thread->gridSize = shape->grid;
  thread->lane = within % shape->lanes;
  thread->warp = within / shape->lanes;
  thread->lanes = shape->lanes;
  thread->turn = 0;
  thread->shared = reinterpret_cast<unsigned char *>(shared + rank * sharedRoom);
  thread->sharedBytes = shape->sharedBytes;
  thread->rank = rank;
  thread->peerStride = sharedRoom;
  thread->memory = shape->memory;
  thread->pages = shape->pages;
  thread->pageState = shape->waits ? shape->noPage : shape->pageState;
  thread->written = shape->waits ? shape->noPage : shape->written;
  thread->words = warp.words;
  thread->slots = warp.slots;
  thread->stored = &warp.stored;
  thread->calls = &calls();
  thread->number = index;
  thread->home = &warp;
  thread->cluster = this;
  thread->context = stacks.fresh(index, enter);
  warp.threads[thread->lane] = thread;
}

/// GS of this thread of the CPU points at `current`.
static void pointGsAt(const m3emu::Current *current) {
  thread_local const m3emu::Current *set = nullptr;
  if (set != current)
    syscall(SYS_arch_prctl, ARCH_SET_GS, current);
  set = current;
}

bool Cluster::run(const LaunchShape &launch, m3emu::Dim block) {
  prepare(launch, block);
  pointGsAt(&current);
  schedule();
  count.instructions = current.instructions;
  for (Warp &warp : warps)
    if (!failed)
      checkStores(warp);
  if (!failed) {
    failure.what = transfers->finish();
    for (const Item &item : items)
      if (failure.what.empty() && item.tensor)
        failure.what = item.tensor->finish();
    failure.item = block;
    failed = !failure.what.empty();
  }
  for (Warp &warp : warps)
    clock = std::max(clock, warp.now + 1);
  clock = std::max(clock, transfers->now() + 1);
  return !failed;
}

void Cluster::enter(transfer_t from) {
  m3emu::Thread *self;
  asm("movq %%gs:8, %0" : "=r"(self));
  static_assert(offsetof(m3emu::Current, thread) == 8);
  auto *thread = static_cast<FibreThread *>(self);
  Cluster &cluster = *thread->cluster;
  cluster.cameFrom(from);
  cluster.shape->entry(cluster.shape->values);
  cluster.exitThread(*thread);
}

void Cluster::exitThread(FibreThread &thread) {
  Warp &warp = *thread.home;
  Item &item = items[warp.rank];
  uint64_t lane = uint64_t(1) << thread.lane;
  warp.exited |= lane;
  warp.ready &= ~lane;
  ++item.exitedThreads;
  ++exitedThreads;
  uint64_t alive = warp.all & ~warp.exited;
  if (warp.arrived && warp.arrived == alive)
    fail(thread, fmt::format("ends while the other lanes of its warp wait at {}", warp.what));
  for (Barrier &barrier : item.barriers)
    if (barrier.waiting.any() && barrier.expected == 0 &&
        barrier.arrived + item.exitedThreads >= shape->threads) {
      item.lastHolds = barrier.holds;
      completeBarrier(barrier);
    }
  if (!alive && item.registers)
    item.registers->end(thread);
  if (!alive && item.products)
    item.products->end(thread);
  if (!alive)
    runnable.remove(warp.index);
  if (item.tensor && hasEnded(warp.rank))
    complain(thread, item.tensor->leave());
  leave(thread); // for ever
}

//===- Taking turns ---------------------------------------------------------------------------===//

unsigned Cluster::drawBudget() {
  // Mostly long stretches, so that warps also get far apart; at times a few steps.
  uint32_t draw = uint32_t(random());
  return draw % 8 == 0 ? 1 + draw / 8 % 8 : 32 + draw / 8 % 480;
}

void Cluster::schedule() {
  while (!failed) {
    transfers->step();
    for (Item &item : items)
      if (item.tensor)
        item.tensor->step();
    if (!runnable.any()) {
      if (exitedThreads == shape->threads * shape->cluster || deadLocked())
        return;
      continue;
    }
    resume(warps[runnable.nth(unsigned(random()) % runnable.count())]);
  }
}

/// Nothing can run: copies that were held back land, else it is a dead-lock.
bool Cluster::deadLocked() {
  if (transfers->landSome())
    return false;
  for (Item &item : items)
    if (item.tensor && item.tensor->landSome())
      return false;
  failed = true;
  failure.what = "no thread can go on";
  failure.item = warps[0].threads[0]->block;
  for (const Warp &warp : warps)
    for (const FibreThread *thread : warp.threads)
      if (!(warp.exited >> thread->lane & 1) && thread->waitsFor)
        failure.waiting.emplace_back(
            fmt::format("{}warp {}, lane {}: {}",
                        shape->cluster > 1 ? fmt::format("rank {}, ", warp.rank) : "", thread->warp,
                        thread->lane, thread->waitsFor),
            thread->place);
  for (const Item &item : items) {
    std::string why;
    const FibreThread *thread = item.registers ? item.registers->lacking(why) : nullptr;
    if (!thread)
      continue;
    failure.what += "; " + why;
    failure.place = thread->place;
    failure.warp = int(thread->warp);
    failure.lane = int(thread->lane);
    break;
  }
  return true;
}

void Cluster::resume(Warp &warp) {
  FibreThread *thread = warp.threads[warp.next];
  if (!(warp.ready >> warp.next & 1))
    thread = nextReady(*thread);
  warp.budget = drawBudget();
  current.thread = thread;
  transfer_t from = jump_fcontext(thread->context, nullptr);
  static_cast<FibreThread *>(from.data)->context = from.fctx;
}

void Cluster::reorder(Warp &warp) {
  // Lanes follow each other as their numbers do after some bits were turned over.
  unsigned turned = unsigned(random()) % shape->lanes;
  std::vector<FibreThread *> ring;
  for (unsigned i = 0; i < shape->lanes; ++i)
    if ((i ^ turned) < warp.threads.size())
      ring.push_back(warp.threads[i ^ turned]);
  for (size_t i = 0; i < ring.size(); ++i)
    ring[i]->next = ring[(i + 1) % ring.size()];
}

FibreThread *Cluster::nextReady(const FibreThread &after) {
  FibreThread *thread = after.next;
  for (size_t i = 0; i < after.home->threads.size(); ++i, thread = thread->next)
    if (thread->home->ready >> thread->lane & 1)
      return thread;
  return nullptr;
}

void Cluster::toScheduler(FibreThread &thread) { cameFrom(jump_fcontext(scheduler, &thread)); }

void Cluster::leave(FibreThread &thread) {
  Warp &warp = *thread.home;
  if (!warp.ready) {
    if (warp.exited != warp.all)
      runnable.remove(warp.index);
    return toScheduler(thread);
  }
  jump(thread, *nextReady(thread));
}

void Cluster::wake(FibreThread &thread) {
  thread.waitsFor = nullptr;
  thread.home->ready |= uint64_t(1) << thread.lane;
  runnable.add(thread.home->index);
}

void Cluster::fail(FibreThread &thread, std::string what) {
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

void Cluster::meetSlowly(FibreThread &thread, const char *what, uint64_t mask,
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

void Cluster::completeMeeting(FibreThread &thread, uint64_t lanes, bool orders) {
  Warp &warp = *thread.home;
  warp.ready |= lanes;
  ++count.meetings;
  if (orders)
    orderWarp(warp);
  if (--warp.budget == 0) {
    warp.next = thread.lane;
    reorder(warp);
    toScheduler(thread);
  }
}

/// Accesses of all lanes before this come before those after it.
void Cluster::orderWarp(Warp &warp) {
  if (warp.hasOwn) {
    for (FibreThread *thread : warp.threads)
      if (thread->own) {
        warp.knowledge.join(*thread->own);
        warp.fenced.join(*thread->ownFenced);
        thread->own = thread->ownFenced = nullptr;
      }
    warp.hasOwn = false;
  }
  goOn(warp, warp.now + 1);
  warp.synced = warp.now;
  warp.knowledge.of[warp.index] = {warp.now, 0};
  warp.least = warp.knowledge.least(warps.size());
}

void Cluster::meetSome(FibreThread &thread, uint64_t mask, void (*all)(void *const *),
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

//===- Memory ---------------------------------------------------------------------------------===//

Accessor Cluster::accessor(const FibreThread &thread) const {
  const Warp &warp = *thread.home;
  return {warp.index, thread.lane, warp.now, warp.synced, thread.own ? thread.own : &warp.knowledge,
          warp.least};
}

void Cluster::checkShared(FibreThread &thread, uint64_t offset, unsigned bytes, const char *verb) {
  if (bytes > shape->sharedBytes - offset)
    fail(thread, fmt::format("{} {} bytes at {} of {} bytes of shared memory", verb, bytes, offset,
                             shape->sharedBytes));
  if (offset & (bytes - 1)) // sizes are powers of two
    fail(thread, fmt::format("{} {} bytes at {} of shared memory, which is no multiple", verb,
                             bytes, offset));
}

void Cluster::readShared(FibreThread &thread, uint64_t offset, unsigned bytes) {
  ++count.sharedAccesses;
  checkShared(thread, offset, bytes, "reads");
  Accessor who = accessor(thread);
  Shadow &shadow = shadowOf(thread);
  if (!shadow.readQuickly(who, offset, bytes))
    complain(thread, shadow.read(who, offset, bytes));
}

void Cluster::writeShared(FibreThread &thread, uint64_t offset, unsigned bytes) {
  ++count.sharedAccesses;
  checkShared(thread, offset, bytes, "writes");
  Accessor who = accessor(thread);
  Shadow &shadow = shadowOf(thread);
  if (!shadow.writeQuickly(who, offset, bytes))
    complain(thread, shadow.write(who, offset, bytes));
}

void Cluster::awaitLaunch(FibreThread &thread) {
  thread.pageState = shape->pageState;
  thread.written = shape->written;
}

void Cluster::checkGlobal(FibreThread &thread, const void *address, uint64_t bytes, bool writes) {
  auto at = reinterpret_cast<uint64_t>(address);
  if (shared && checkPeer(thread, at, bytes, writes))
    return;
  complain(thread, globalFault(thread, address, bytes, writes));
}

bool Cluster::checkPeer(FibreThread &thread, uint64_t address, uint64_t bytes, bool writes) {
  const char *verb = writes ? "writes" : "reads";
  uint64_t begin = reinterpret_cast<uint64_t>(shared), own = uint64_t(thread.shared);
  if (address < begin - sharedMargin || address >= begin + sharedArea + sharedMargin)
    return false;
  uint64_t rank = (address - begin) / sharedRoom, offset = (address - begin) % sharedRoom;
  if (address < begin || rank >= shape->cluster || rank == thread.rank ||
      bytes > shape->sharedBytes || offset > shape->sharedBytes - bytes)
    fail(thread, address < own ? fmt::format("{} {} bytes, {} before its shared memory begins",
                                             verb, bytes, own - address)
                               : fmt::format("{} {} bytes at {} of {} bytes of shared memory", verb,
                                             bytes, address - own, shape->sharedBytes));
  Item &item = items[rank];
  if (hasEnded(unsigned(rank)))
    fail(thread, fmt::format("{} shared memory of a work item that has ended", verb));
  if (!meeting.number)
    fail(thread, fmt::format("{} shared memory of a work item that may not have begun", verb));
  ++count.sharedAccesses;
  complain(thread, writes ? item.shadow.write(accessor(thread), offset, unsigned(bytes))
                          : item.shadow.read(accessor(thread), offset, unsigned(bytes)));
  return true;
}

Cluster::TensorMemory &Cluster::tensor(FibreThread &thread) {
  Item &item = items[thread.home->rank];
  if (!item.tensor)
    fail(thread, "uses tensor memory, which this target does not have");
  return *item.tensor;
}

Cluster::GroupProducts &Cluster::groupProducts(FibreThread &thread) {
  Item &item = items[thread.home->rank];
  if (!item.products)
    item.products = std::make_shared<GroupProducts>(*this);
  return *item.products;
}

Cluster::Registers &Cluster::registers(FibreThread &thread) {
  Item &item = items[thread.home->rank];
  if (!item.registers)
    fail(thread, "changes registers, and how many it begins with is not known: __launch_bounds__ "
                 "of the text names no work items of a multiprocessor");
  return *item.registers;
}

//===- Knowledge ------------------------------------------------------------------------------===//

unsigned Cluster::knowledgeEntries() const {
  auto count = unsigned(warps.size());
  return shape->tensorColumns ? 3 * count + 1 + shape->cluster : count + 1;
}

void Cluster::learn(FibreThread &thread, const Knowledge &knowledge, const Knowledge &fenced) {
  Warp &warp = *thread.home;
  if (!thread.own) {
    size_t at = size_t(2) * thread.number;
    thread.own = &(ownKnowledge[at] = warp.knowledge);
    thread.ownFenced = &(ownKnowledge[at + 1] = warp.fenced);
    warp.hasOwn = true;
  }
  thread.own->join(knowledge);
  thread.ownFenced->join(fenced);
}

void Cluster::publish(FibreThread &thread, Knowledge &knowledge, Knowledge &fenced) {
  Warp &warp = *thread.home;
  knowledge.join(thread.own ? *thread.own : warp.knowledge);
  fenced.join(thread.own ? *thread.ownFenced : warp.fenced);
  knowledge.of[warp.index].join({warp.now, uint64_t(1) << thread.lane});
  goOn(warp, warp.now + 1); // what the thread does after this is not told
}

} // namespace m3c::emulator
