#include "compiler/emulator/TensorMemory.h"

#include "compiler/emulator/Transfers.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace m3c::emulator {

Cluster::TensorMemory::TensorMemory(Cluster &cluster, unsigned columns)
    : cluster(cluster), columns(columns), owned(columns / unit) {}

void Cluster::TensorMemory::begin() {
  std::ranges::fill(owned, 0);
  relinquished = false;
  states.resize(warps());
  for (WarpState &state : states) {
    state.stamp = 1;
    state.storesDone = state.loadsDone = 0;
    state.known.reset(cluster.knowledgeEntries(), 0);
  }
  loaded.resize(cluster.threads.size());
  for (std::deque<uint32_t> &queue : loaded)
    queue.clear();
  started.clear();
  underWay.clear();
}

Complaint Cluster::TensorMemory::finish() const {
  auto count = std::ranges::count_if(owned, [](uint8_t owner) { return owner != 0; });
  if (count)
    return fmt::format("ends with {} columns of tensor memory allocated", count * unit);
  return {};
}

//===- Allocation -----------------------------------------------------------------------------===//

void Cluster::TensorMemory::allocate(FibreThread &thread, void *shared, unsigned count) {
  if (count < unit || count > columns || !std::has_single_bit(count))
    cluster.fail(thread, fmt::format("allocates {} columns of tensor memory: a power of two from "
                                     "{} to {} is possible",
                                     count, unit, columns));
  if (relinquished)
    cluster.fail(thread, "allocates tensor memory after it gave up the right to");
  size_t wanted = count / unit;
  std::vector<size_t> places;
  for (size_t first = 0; first + wanted <= owned.size(); ++first)
    if (std::all_of(owned.begin() + long(first), owned.begin() + long(first + wanted),
                    [](uint8_t owner) { return owner == 0; }))
      places.push_back(first);
  if (places.empty())
    cluster.fail(thread, fmt::format("waits for ever for {} columns of tensor memory, of which {} "
                                     "in one piece are not free",
                                     count, columns));
  // Anywhere: no kernel may count on a place.
  size_t first = places[cluster.random() % places.size()];
  std::fill_n(owned.begin() + long(first), wanted, 2);
  owned[first] = 1;
  cells.resize(size_t(columns) * lanes);
  std::fill_n(cells.begin() + long(first * unit * lanes), count * lanes, Cell{});
  uint32_t address = uint32_t(first * unit);
  cluster.writeShared(thread, uint64_t(shared) - uint64_t(thread.shared), 4);
  std::memcpy(shared, &address, 4);
}

void Cluster::TensorMemory::release(FibreThread &thread, unsigned address, unsigned count) {
  size_t first = address / unit, units = count / unit;
  bool good = address % unit == 0 && count % unit == 0 && units && first + units <= owned.size() &&
              owned[first] == 1;
  for (size_t i = 1; good && i < units; ++i)
    good = owned[first + i] == 2;
  if (!good || (first + units < owned.size() && owned[first + units] == 2))
    cluster.fail(thread, fmt::format("frees {} columns of tensor memory from column {} on, which "
                                     "were not allocated so",
                                     count, address));
  for (unsigned column = address; column < address + count; ++column)
    for (unsigned lane = 0; lane < lanes; ++lane)
      if (Cell &at = cell(lane, column); at.written || at.readByProduct) {
        checkWriter(thread, lane, column, "frees", nullptr);
        checkReaders(thread, lane, column, "frees");
      }
  std::fill_n(owned.begin() + long(first), units, 0);
}

void Cluster::TensorMemory::relinquish(FibreThread &) { relinquished = true; }

//===- Order ----------------------------------------------------------------------------------===//

void Cluster::TensorMemory::checkPlace(FibreThread &thread, unsigned lane, unsigned column,
                                       const char *verb) {
  if (lane >= lanes || column >= columns || !owned[column / unit])
    cluster.fail(thread, fmt::format("{} lane {} of column {} of tensor memory, which is not "
                                     "allocated",
                                     verb, lane, column));
}

void Cluster::TensorMemory::checkReach(FibreThread &thread, unsigned lane, unsigned column,
                                       const char *verb) {
  checkPlace(thread, lane, column, verb);
  if (lane / 32 != thread.warp % 4)
    cluster.fail(thread,
                 fmt::format("{} lane {} of tensor memory: warp {} reaches lanes {} to {}", verb,
                             lane, thread.warp, thread.warp % 4 * 32, thread.warp % 4 * 32 + 31));
}

void Cluster::TensorMemory::checkWriter(FibreThread &thread, unsigned lane, unsigned column,
                                        const char *verb, const Shape *mine) {
  const Cell &at = cell(lane, column);
  if (!at.written)
    return;
  const WarpState &self = state(thread);
  unsigned warp = thread.home->index;
  auto complain = [&](const std::string &what) {
    cluster.fail(thread, fmt::format("{} lane {} of column {} of tensor memory, which {}", verb,
                                     lane, column, what));
  };
  if (at.writer == warps()) {
    const auto &[shape, issuer] = started[at.written - 1];
    bool follows = mine && shape == *mine && issuer == warp;
    if (!follows && !self.known.of[products()].covers(at.written, 0))
      complain("a product writes: no barrier that it was committed to was waited for, or no fence "
               "stands after the wait");
  } else if (at.writer == warp) {
    if (at.written > self.storesDone)
      complain("this warp stored with no wait for its stores between");
  } else if (!self.known.of[storesOf(at.writer)].covers(at.written, 0)) {
    complain(fmt::format("warp {} stored: no wait for its stores, no barrier or no fences between",
                         cluster.warps[at.writer].threads[0]->warp));
  }
}

void Cluster::TensorMemory::checkReaders(FibreThread &thread, unsigned lane, unsigned column,
                                         const char *verb) {
  const Cell &at = cell(lane, column);
  const WarpState &self = state(thread);
  unsigned own = thread.home->index, perItem = warps() / cluster.shape->cluster;
  for (unsigned i = 0; i < at.read.size(); ++i) {
    unsigned warp = thread.rank * perItem + i * 4 + lane / 32;
    if (!at.read[i])
      continue;
    bool known = warp == own ? at.read[i] <= self.loadsDone
                             : self.known.of[loadsOf(warp)].covers(at.read[i], 0);
    if (!known)
      cluster.fail(thread, fmt::format("{} lane {} of column {} of tensor memory, which warp {} "
                                       "loads: no wait for its loads, no barrier or no fences "
                                       "between",
                                       verb, lane, column, i * 4 + lane / 32));
  }
  if (at.readByProduct && !self.known.of[products()].covers(at.readByProduct, 0))
    cluster.fail(thread, fmt::format("{} lane {} of column {} of tensor memory, which a product "
                                     "reads: no barrier that it was committed to was waited for, "
                                     "or no fence stands after the wait",
                                     verb, lane, column));
}

void Cluster::TensorMemory::fence(FibreThread &thread, bool after) {
  WarpState &self = state(thread);
  if (after) {
    self.known.join(knowledgeOf(thread));
    return;
  }
  // What is told is what was waited for; it is said by whichever lane arrives somewhere next.
  unsigned warp = thread.home->index;
  auto tell = [&](Knowledge &knowledge) {
    knowledge.of[storesOf(warp)].join({self.storesDone + 1, 0});
    knowledge.of[loadsOf(warp)].join({self.loadsDone + 1, 0});
  };
  tell(thread.home->knowledge);
  for (FibreThread *other : thread.home->threads)
    if (other->own)
      tell(*other->own);
}

//===- Loads and stores -----------------------------------------------------------------------===//

void Cluster::TensorMemory::load(FibreThread &thread, unsigned lane, unsigned column) {
  checkReach(thread, lane, column, "loads");
  Cell &at = cell(lane, column);
  if (!at.written)
    cluster.fail(thread, fmt::format("loads lane {} of column {} of tensor memory, which nothing "
                                     "has written",
                                     lane, column));
  checkWriter(thread, lane, column, "loads", nullptr);
  at.read[thread.warp / 4] = state(thread).stamp;
  loaded[thread.number].push_back(at.value);
}

void Cluster::TensorMemory::store(FibreThread &thread, unsigned lane, unsigned column,
                                  uint32_t value) {
  checkReach(thread, lane, column, "stores to");
  checkWriter(thread, lane, column, "stores to", nullptr);
  checkReaders(thread, lane, column, "stores to");
  Cell &at = cell(lane, column);
  at = {};
  at.value = value;
  at.writer = uint16_t(thread.home->index);
  at.written = state(thread).stamp;
}

/// Once for the whole warp.
void Cluster::TensorMemory::wait(FibreThread &thread, bool stores) {
  WarpState &self = state(thread);
  (stores ? self.storesDone : self.loadsDone) = self.stamp++;
}

void Cluster::TensorMemory::take(FibreThread &thread, uint32_t *values, unsigned count) {
  std::deque<uint32_t> &queue = loaded[thread.number];
  if (queue.size() != count)
    cluster.fail(thread, fmt::format("waits for {} loaded registers, {} are under way", count,
                                     queue.size()));
  std::ranges::copy(queue, values);
  queue.clear();
}

//===- Landing --------------------------------------------------------------------------------===//

void Cluster::TensorMemory::start(Operation operation) {
  ++cluster.count.copies;
  underWay.push_back(std::move(operation));
  if (cluster.shape->landing == Landing::Early || underWay.size() > 64)
    landSome();
}

void Cluster::TensorMemory::step() {
  if (cluster.shape->landing == Landing::Random && !underWay.empty() && cluster.random() % 2)
    landSome();
}

bool Cluster::TensorMemory::landSome() {
  if (underWay.empty())
    return false;
  Operation operation = std::move(underWay.front());
  underWay.pop_front();
  land(operation);
  return true;
}

void Cluster::TensorMemory::land(Operation &operation) {
  if (!operation.isCommit) {
    compute(operation);
    Shadow &shadow = cluster.shadowOf(*operation.thread);
    for (uint64_t chunk : operation.chunks)
      shadow.endRead(chunk, 16, operation.number);
    return;
  }
  cluster.transfers->arriveFor(*operation.thread, operation.barrier, [&](Knowledge &gathered) {
    gathered.of[products()].join({operation.number + 1, 0});
  });
}

/// The barrier hears of all products that this thread started before.
void Cluster::TensorMemory::commit(FibreThread &thread, const void *barrier) {
  Operation operation{&thread, true};
  operation.barrier = cluster.transfers->knownBarrier(thread, barrier);
  for (size_t i = 0; i < started.size(); ++i)
    if (started[i].second == thread.home->index)
      operation.number = uint32_t(i + 1);
  start(std::move(operation));
}

} // namespace m3c::emulator
