#include "compiler/emulator/Transfers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace m3c::emulator {

void Cluster::Transfers::begin(uint32_t clock) {
  barriers.clear();
  counters.clear();
  copies.clear();
  groups.clear();
  seen.clear();
  time = clock;
}

/// Copies into shared memory that nobody waited for do no harm; a store would read it when it is
/// another work item's.
Complaint Cluster::Transfers::finish() {
  for (const Copy &copy : copies)
    if (copy.kind == Copy::Store)
      return "ends before its bulk stores have read shared memory";
  for (const auto &[place, barrier] : barriers)
    if (barrier.byPeer && !barrier.awaited)
      return fmt::format("products of another work item arrive at the barrier at byte {} of the "
                         "shared memory of rank {}, where nobody has waited for them",
                         place.second, place.first);
  return {};
}

uint64_t Cluster::Transfers::offsetOf(FibreThread &thread, const void *address, uint64_t bytes,
                                      const char *what) {
  uint64_t offset = uint64_t(address) - uint64_t(thread.shared);
  if (offset >= cluster.shape->sharedBytes || bytes > cluster.shape->sharedBytes - offset)
    cluster.fail(thread, fmt::format("names {} of {} bytes outside the {} bytes of shared memory",
                                     what, bytes, cluster.shape->sharedBytes));
  return offset;
}

//===- Barriers -------------------------------------------------------------------------------===//

Cluster::Transfers::Barrier &Cluster::Transfers::barrierAt(FibreThread &thread, const void *address,
                                                           uint64_t &offset, unsigned rank) {
  offset = offsetOf(thread, address, 8, "a barrier");
  if (rank >= cluster.items.size())
    cluster.fail(thread, fmt::format("names a barrier of work item {} of a cluster of {}", rank,
                                     cluster.items.size()));
  auto refuse = [&](const char *why) {
    std::string where = rank == thread.rank ? "" : fmt::format(" of work item {}", rank);
    cluster.fail(thread, fmt::format("uses a barrier at byte {} of shared memory{} that {}", offset,
                                     where, why));
  };
  if (cluster.hasEnded(rank))
    refuse("has ended");
  auto found = barriers.find({rank, offset});
  if (found == barriers.end())
    refuse("nothing has initialised");
  cluster.complain(thread, cluster.items[rank].shadow.read(cluster.accessor(thread), offset, 8));
  return found->second;
}

void Cluster::Transfers::initBarrier(FibreThread &thread, const void *address, unsigned arrivals) {
  uint64_t offset = offsetOf(thread, address, 8, "a barrier");
  if (offset % 8)
    cluster.fail(thread, fmt::format("initialises a barrier at byte {}, no multiple of 8", offset));
  cluster.complain(thread, cluster.shadowOf(thread).write(cluster.accessor(thread), offset, 8));
  Barrier &barrier = barriers[{thread.rank, offset}] = {};
  barrier.expected = barrier.pending = arrivals;
  barrier.initialiser = thread.number;
  unsigned entries = cluster.knowledgeEntries();
  for (Knowledge *knowledge :
       {&barrier.gathered, &barrier.gatheredFenced, &barrier.told, &barrier.toldFenced})
    knowledge->reset(entries, 0);
  for (auto entry = seen.begin(); entry != seen.end();) {
    bool same =
        entry->first.second == offset && entry->first.first / cluster.shape->threads == thread.rank;
    entry = same ? seen.erase(entry) : std::next(entry);
  }
}

void Cluster::Transfers::fenceBarriers(FibreThread &thread) {
  for (auto &[place, barrier] : barriers)
    barrier.fenced |= barrier.initialiser == thread.number;
}

Cluster::Transfers::Barrier &Cluster::Transfers::fencedBarrierAt(FibreThread &thread,
                                                                 const void *address,
                                                                 uint64_t &offset, unsigned rank) {
  Barrier &barrier = barrierAt(thread, address, offset, rank);
  if (!barrier.fenced)
    cluster.fail(thread, fmt::format("has something else than threads of its work item arrive at "
                                     "the barrier at byte {} of shared memory, and no fence "
                                     "(mbarrier_init) stands behind its initialisation",
                                     offset));
  return barrier;
}

uint64_t Cluster::Transfers::knownBarrier(FibreThread &thread, const void *address, unsigned rank) {
  uint64_t offset = 0;
  fencedBarrierAt(thread, address, offset, rank);
  return offset;
}

/// Fails outside of any thread: the work item did it, by itself.
void Cluster::Transfers::countArrival(FibreThread &thread, Barrier &barrier, uint64_t offset) {
  if (!barrier.pending && !cluster.failed) {
    cluster.failed = true;
    cluster.failure.what =
        fmt::format("a commit arrives at the barrier at byte {} of shared memory, whose phase {} "
                    "has had its {} arrivals",
                    offset, barrier.phase, barrier.expected);
    cluster.failure.item = thread.block;
    return;
  }
  --barrier.pending;
  settle(barrier);
}

void Cluster::Transfers::completePhase(Barrier &barrier) {
  ++barrier.phase;
  barrier.pending = barrier.expected;
  barrier.told = barrier.gathered;
  barrier.toldFenced = barrier.gatheredFenced;
  for (Knowledge *knowledge : {&barrier.gathered, &barrier.gatheredFenced})
    knowledge->reset(cluster.knowledgeEntries(), 0);
  for (FibreThread *waiter : barrier.waiters)
    cluster.wake(*waiter);
  barrier.waiters.clear();
}

void Cluster::Transfers::settle(Barrier &barrier) {
  if (barrier.pending == 0 && barrier.bytes == 0)
    completePhase(barrier);
}

void Cluster::Transfers::arrive(FibreThread &thread, const void *address, unsigned arrivals,
                                unsigned bytes) {
  uint64_t offset = 0;
  Barrier &barrier = barrierAt(thread, address, offset);
  barrier.bytes += bytes;
  arriveAt(thread, barrier, offset, arrivals);
}

void Cluster::Transfers::arriveAt(FibreThread &thread, Barrier &barrier, uint64_t offset,
                                  unsigned arrivals) {
  if (arrivals) {
    cluster.publish(thread, barrier.gathered, barrier.gatheredFenced);
    if (arrivals > barrier.pending)
      cluster.fail(thread, fmt::format("arrives at the barrier at byte {} of shared memory, whose "
                                       "phase {} has had its {} arrivals",
                                       offset, barrier.phase, barrier.expected));
    barrier.pending -= arrivals;
  }
  settle(barrier);
}

void Cluster::Transfers::arriveAtPeer(FibreThread &thread, const void *address, unsigned rank) {
  uint64_t offset = 0;
  Barrier &barrier = fencedBarrierAt(thread, address, offset, rank);
  arriveAt(thread, barrier, offset, 1);
}

/// The phase of that parity is over. What a thread means is the next phase of that parity after the
/// one that it waited for last.
bool Cluster::Transfers::passed(FibreThread &thread, Barrier &barrier, uint64_t offset,
                                unsigned parity) {
  if ((barrier.phase & 1) == int64_t(parity & 1))
    return false;
  int64_t over = barrier.phase - 1; // −1: the phase before the first
  auto [entry, first] = seen.try_emplace({thread.number, offset}, over);
  if (!first && entry->second == over)
    cluster.fail(thread,
                 fmt::format("waits at the barrier at byte {} of shared memory for phase {}, "
                             "which it has already waited for: its parity is that of the "
                             "phase before",
                             offset, over));
  if (!first && over > entry->second + 2)
    cluster.fail(thread,
                 fmt::format("waits at the barrier at byte {} of shared memory for phase {}, "
                             "and phase {} is over: a phase was taken for another one of its "
                             "parity",
                             offset, entry->second + 1 + ((entry->second + 1 - over) & 1), over));
  entry->second = over;
  barrier.awaited = true;
  cluster.learn(thread, barrier.told, barrier.toldFenced);
  return true;
}

void Cluster::Transfers::wait(FibreThread &thread, const void *address, unsigned parity) {
  uint64_t offset = 0;
  Barrier &barrier = barrierAt(thread, address, offset);
  while (!passed(thread, barrier, offset, parity)) {
    barrier.waiters.push_back(&thread);
    thread.waitsFor = "a barrier in shared memory";
    thread.home->ready &= ~(uint64_t(1) << thread.lane);
    cluster.leave(thread);
  }
}

bool Cluster::Transfers::test(FibreThread &thread, const void *address, unsigned parity) {
  uint64_t offset = 0;
  Barrier &barrier = barrierAt(thread, address, offset);
  return passed(thread, barrier, offset, parity);
}

//===- Copies ---------------------------------------------------------------------------------===//

void Cluster::Transfers::start(Copy copy) {
  ++cluster.count.copies;
  copies.push_back(copy);
  if (cluster.shape->landing == Landing::Early)
    land(std::prev(copies.end()));
}

void Cluster::Transfers::step() {
  if (cluster.shape->landing != Landing::Random || copies.empty() || cluster.random() % 2)
    return;
  std::vector<std::list<Copy>::iterator> open;
  for (auto copy = copies.begin(); copy != copies.end(); ++copy)
    if (!copy->landed)
      open.push_back(copy);
  if (!open.empty())
    land(open[cluster.random() % open.size()]);
}

bool Cluster::Transfers::landSome() {
  for (auto copy = copies.begin(); copy != copies.end(); ++copy)
    if (!copy->landed) {
      land(copy);
      return true;
    }
  return false;
}

void Cluster::Transfers::land(std::list<Copy>::iterator copy) {
  switch (copy->kind) {
  case Copy::Arrival: {
    // Copies of the thread that came before it land first.
    for (auto other = copies.begin(); other != copy;) {
      auto next = std::next(other);
      if (other->thread == copy->thread && other->kind == Copy::Async)
        close(other);
      other = next;
    }
    Barrier &barrier = barriers.at({copy->thread->rank, copy->barrier});
    cluster.publish(*copy->thread, barrier.gathered, barrier.gatheredFenced);
    --barrier.pending;
    settle(barrier);
    copies.erase(copy);
    return;
  }
  case Copy::Async:
    std::memcpy(sharedAt(*copy->thread, copy->offset), copy->global, copy->given);
    std::memset(sharedAt(*copy->thread, copy->offset + copy->given), 0, copy->bytes - copy->given);
    copy->landed = true; // seen by others once it is waited for
    return;
  case Copy::Bulk: {
    std::memcpy(sharedAt(*copy->thread, copy->offset), copy->global, copy->bytes);
    unsigned proxy = unsigned(cluster.warps.size());
    cluster.shadowOf(*copy->thread).landWrite(copy->offset, copy->bytes, proxy, 0, time);
    Barrier &barrier = barriers.at({copy->thread->rank, copy->barrier});
    Seen seenByAll = {++time, 0};
    barrier.gathered.of[proxy].join(seenByAll);
    barrier.gatheredFenced.of[proxy].join(seenByAll);
    barrier.bytes -= int64_t(copy->bytes);
    copies.erase(copy);
    settle(barrier);
    return;
  }
  case Copy::Store:
    std::memcpy(copy->global, sharedAt(*copy->thread, copy->offset), copy->bytes);
    copy->landed = true; // its source may be overwritten once it is waited for
    return;
  }
}

void Cluster::Transfers::close(std::list<Copy>::iterator copy) {
  if (!copy->landed)
    land(copy);
  FibreThread &thread = *copy->thread;
  if (copy->kind == Copy::Async)
    cluster.shadowOf(thread).landWrite(copy->offset, copy->bytes, thread.home->index, thread.lane,
                                       thread.home->now);
  else
    cluster.shadowOf(thread).endRead(copy->offset, copy->bytes);
  copies.erase(copy);
}

void Cluster::Transfers::copyAsync(FibreThread &thread, const void *shared, const void *global,
                                   unsigned bytes, unsigned given) {
  uint64_t offset = offsetOf(thread, shared, bytes, "the target of a copy");
  if (offset % bytes || reinterpret_cast<uint64_t>(global) % bytes)
    cluster.fail(thread,
                 fmt::format("copies {} bytes from or to an address that is no multiple", bytes));
  if (given)
    cluster.complain(thread, cluster.globalFault(thread, global, given, false));
  cluster.complain(thread,
                   cluster.shadowOf(thread).startWrite(cluster.accessor(thread), offset, bytes));
  Groups &mine = groups[{thread.number, false}];
  mine.any = true;
  auto *from = static_cast<std::byte *>(const_cast<void *>(global));
  start({Copy::Async, &thread, offset, bytes, from, given, 0, mine.open, false});
}

void Cluster::Transfers::commit(FibreThread &thread) { ++groups[{thread.number, false}].open; }
void Cluster::Transfers::commitBulk(FibreThread &thread) { ++groups[{thread.number, true}].open; }

void Cluster::Transfers::closeGroups(FibreThread &thread, bool stores, unsigned most) {
  unsigned open = groups[{thread.number, stores}].open;
  Copy::Kind kind = stores ? Copy::Store : Copy::Async;
  for (auto copy = copies.begin(); copy != copies.end();) {
    auto next = std::next(copy);
    if (copy->thread == &thread && copy->kind == kind && copy->group + most < open)
      close(copy);
    copy = next;
  }
}

void Cluster::Transfers::waitGroups(FibreThread &thread, unsigned most) {
  closeGroups(thread, false, most);
}
void Cluster::Transfers::waitBulk(FibreThread &thread, unsigned most) {
  closeGroups(thread, true, most);
}

void Cluster::Transfers::arriveAfter(FibreThread &thread, const void *address, bool counted) {
  uint64_t offset = 0;
  Barrier &barrier = barrierAt(thread, address, offset);
  if (!counted)
    ++barrier.pending;
  start({Copy::Arrival, &thread, 0, 0, nullptr, 0, offset, 0, false});
}

void Cluster::Transfers::copyBulk(FibreThread &thread, const void *shared, const void *global,
                                  unsigned bytes, const void *address) {
  uint64_t offset = offsetOf(thread, shared, bytes, "the target of a copy"), at = 0;
  fencedBarrierAt(thread, address, at, thread.rank);
  if (bytes % 16 || offset % 16 || reinterpret_cast<uint64_t>(global) % 16)
    cluster.fail(thread, "starts a bulk copy whose size or addresses are no multiples of 16");
  cluster.complain(thread, cluster.globalFault(thread, global, bytes, false));
  cluster.complain(thread,
                   cluster.shadowOf(thread).startWrite(cluster.accessor(thread), offset, bytes));
  auto *from = static_cast<std::byte *>(const_cast<void *>(global));
  start({Copy::Bulk, &thread, offset, bytes, from, bytes, at, 0, false});
}

void Cluster::Transfers::storeBulk(FibreThread &thread, const void *global, const void *shared,
                                   unsigned bytes) {
  uint64_t offset = offsetOf(thread, shared, bytes, "the source of a copy");
  if (bytes % 16 || offset % 16 || reinterpret_cast<uint64_t>(global) % 16)
    cluster.fail(thread, "starts a bulk copy whose size or addresses are no multiples of 16");
  cluster.complain(thread, cluster.globalFault(thread, global, bytes, true));
  const Knowledge &fenced = thread.own ? *thread.ownFenced : thread.home->fenced;
  cluster.complain(
      thread, cluster.shadowOf(thread).startRead(cluster.accessor(thread), fenced, offset, bytes));
  auto *to = static_cast<std::byte *>(const_cast<void *>(global));
  start({Copy::Store, &thread, offset, bytes, to, bytes, 0, groups[{thread.number, true}].open,
         false});
}

/// Holds for what the thread did and for what it knows of others.
void Cluster::Transfers::fence(FibreThread &thread) {
  cluster.learn(thread, thread.home->knowledge, thread.home->fenced);
  Knowledge known = *thread.own, unused = *thread.ownFenced;
  cluster.publish(thread, known, unused);
  thread.ownFenced->join(known);
}

void Cluster::Transfers::readAsync(FibreThread &thread, uint64_t offset, unsigned bytes) {
  const Knowledge &fenced = thread.own ? *thread.ownFenced : thread.home->fenced;
  cluster.complain(
      thread, cluster.shadowOf(thread).startRead(cluster.accessor(thread), fenced, offset, bytes));
  cluster.shadowOf(thread).endRead(offset, bytes);
}

} // namespace m3c::emulator
