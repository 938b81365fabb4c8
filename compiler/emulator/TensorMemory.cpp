#include "compiler/emulator/TensorMemory.h"

#include "compiler/emulator/Transfers.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace m3c::emulator {

Cluster::TensorMemory::TensorMemory(Cluster &cluster, unsigned columns)
    : cluster(cluster), columns(columns), owned(columns / unit) {}

void Cluster::TensorMemory::begin(unsigned number) {
  rank = number;
  request = {};
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

bool Cluster::TensorMemory::concerns(const Operation &operation, unsigned of) const {
  if (!operation.isCommit)
    return of - rank < operation.shape.items();
  return std::ranges::any_of(operation.barriers, [&](auto &place) { return place.first == of; });
}

Complaint Cluster::TensorMemory::leave() {
  const TensorMemory &from = starter();
  for (const Operation &operation : from.underWay)
    if (from.concerns(operation, rank))
      return operation.isCommit
                 ? fmt::format(
                       "ends while its barrier at byte {} of shared memory is to be told of "
                       "products that were committed to it",
                       operation.barriers.front().second)
                 : std::string("ends while a product reads and writes its memory");
  return {};
}

//===- Two work items -------------------------------------------------------------------------===//

void Cluster::TensorMemory::useGroup(FibreThread &thread, bool pair) {
  unsigned group = pair ? 2 : 1;
  if (pair && cluster.shape->cluster % 2)
    cluster.fail(thread, fmt::format("uses tensor memory as one of a pair, in a cluster of {}",
                                     cluster.shape->cluster));
  if (cluster.tensorGroup && cluster.tensorGroup != group)
    cluster.fail(thread, fmt::format("uses tensor memory {}, and the kernel has used it {}: all of "
                                     "its instructions are of one .cta_group",
                                     pair ? "as one of a pair" : "by itself",
                                     pair ? "by itself" : "as one of a pair"));
  cluster.tensorGroup = group;
}

bool Cluster::TensorMemory::joinsPeer(FibreThread &thread, Request wanted) {
  const Request &other = peer().request;
  if (request.thread)
    cluster.fail(thread,
                 fmt::format("{} tensor memory of a pair while another warp does", wanted.what));
  if (other.thread) {
    if (std::strcmp(other.what, wanted.what) != 0 || other.count != wanted.count ||
        other.address != wanted.address)
      cluster.fail(thread, fmt::format("{} {} columns of tensor memory of a pair, whose other work "
                                       "item {} {}",
                                       wanted.what, wanted.count, other.what, other.count));
    return true;
  }
  if (cluster.hasEnded(rank ^ 1))
    cluster.fail(thread, fmt::format("{} tensor memory of a pair, whose other work item has ended",
                                     wanted.what));
  request = wanted;
  thread.waitsFor = "the other work item of its pair";
  thread.home->ready &= ~(uint64_t(1) << thread.lane);
  cluster.leave(thread);
  return false;
}

void Cluster::TensorMemory::joined() {
  cluster.wake(*peer().request.thread);
  peer().request = {};
}

/// PTX ISA, "Data path layout": of 256 rows each work item has 128, one in a lane; of 128 it has
/// 64, whose columns from the middle on are in the lanes from 64 on.
Cluster::TensorMemory::Place Cluster::TensorMemory::placeOf(const Shape &shape, unsigned row,
                                                            unsigned column) {
  if (!shape.pair)
    return {0, laneOfRow(shape, row), column};
  if (shape.m == 256)
    return {row / 128, row % 128, column};
  unsigned half = shape.n / 2;
  return {row / 64, row % 64 + column / half * 64, column % half};
}

//===- Allocation -----------------------------------------------------------------------------===//

/// Anywhere: no kernel may count on a place.
size_t Cluster::TensorMemory::placeFor(FibreThread &thread, unsigned count, bool pair) {
  auto isFree = [&](TensorMemory &memory, size_t first) {
    auto begin = memory.owned.begin() + long(first);
    return std::all_of(begin, begin + long(count / unit), [](uint8_t owner) { return !owner; });
  };
  std::vector<size_t> places;
  for (size_t first = 0; first + count / unit <= owned.size(); ++first)
    if (isFree(*this, first) && (!pair || isFree(peer(), first)))
      places.push_back(first);
  if (places.empty())
    cluster.fail(thread, fmt::format("waits for ever for {} columns of tensor memory, of which {} "
                                     "in one piece are not free",
                                     count, columns));
  return places[cluster.random() % places.size()];
}

void Cluster::TensorMemory::give(size_t first, size_t count) {
  std::fill_n(owned.begin() + long(first), count / unit, 2);
  owned[first] = 1;
  cells.resize(size_t(columns) * lanes);
  std::fill_n(cells.begin() + long(first * unit * lanes), count * lanes, Cell{});
}

void Cluster::TensorMemory::allocate(FibreThread &thread, void *shared, unsigned count, bool pair) {
  useGroup(thread, pair);
  if (count < unit || count > columns || !std::has_single_bit(count))
    cluster.fail(thread, fmt::format("allocates {} columns of tensor memory: a power of two from "
                                     "{} to {} is possible",
                                     count, unit, columns));
  if (relinquished)
    cluster.fail(thread, "allocates tensor memory after it gave up the right to");
  if (!pair || joinsPeer(thread, {&thread, "allocates", count, 0})) {
    size_t first = placeFor(thread, count, pair);
    for (unsigned part = 0; part < (pair ? 2 : 1); ++part) {
      member(part).give(first, count);
      member(part).granted = unsigned(first * unit);
    }
    if (pair)
      joined();
  }
  const uint32_t address = granted;
  cluster.writeShared(thread, uint64_t(shared) - uint64_t(thread.shared), 4);
  std::memcpy(shared, &address, 4);
}

void Cluster::TensorMemory::checkFree(FibreThread &thread, unsigned address, unsigned count) {
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
}

void Cluster::TensorMemory::release(FibreThread &thread, unsigned address, unsigned count,
                                    bool pair) {
  useGroup(thread, pair);
  checkFree(thread, address, count);
  if (pair && joinsPeer(thread, {&thread, "frees", count, address}))
    joined();
  std::fill_n(owned.begin() + long(address / unit), count / unit, 0);
}

void Cluster::TensorMemory::relinquish(FibreThread &thread, bool pair) {
  useGroup(thread, pair);
  relinquished = true;
}

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
    const auto &[shape, issuer] = starter().started[at.written - 1];
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
    unsigned warp = rank * perItem + i * 4 + lane / 32;
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
  if (operation.isCommit) {
    for (auto [item, barrier] : operation.barriers) {
      if (cluster.hasEnded(item))
        return commitFails(operation,
                           fmt::format("a commit arrives at a barrier of work item {} of "
                                       "the cluster, which has ended",
                                       item));
      cluster.transfers->arriveFor(*operation.thread, item, barrier, [&](Knowledge &gathered) {
        gathered.of[products()].join({operation.number + 1, 0});
      });
    }
    return;
  }
  compute(operation);
  for (unsigned part = 0; part < operation.shape.items(); ++part) {
    Shadow &shadow = cluster.items[rank + part].shadow;
    for (uint64_t chunk : operation.chunks)
      shadow.endRead(chunk, 16, operation.number, products());
  }
}

/// Outside of any thread: the work item did it, by itself.
void Cluster::TensorMemory::commitFails(const Operation &operation, const std::string &why) {
  if (cluster.failed)
    return;
  cluster.failed = true;
  cluster.failure.what = why;
  cluster.failure.item = operation.thread->block;
}

/// The barriers hear of all products that this thread started before.
void Cluster::TensorMemory::commit(FibreThread &thread, const void *barrier, bool pair,
                                   unsigned ranks) {
  useGroup(thread, pair);
  Operation operation{&thread, true};
  if (!ranks)
    ranks = 1u << thread.rank;
  for (unsigned item = 0; ranks >> item; ++item)
    if (ranks >> item & 1)
      operation.barriers.emplace_back(item, cluster.transfers->knownBarrier(thread, barrier, item));
  for (size_t i = 0; i < started.size(); ++i)
    if (started[i].second == thread.home->index)
      operation.number = uint32_t(i + 1);
  start(std::move(operation));
}

} // namespace m3c::emulator
