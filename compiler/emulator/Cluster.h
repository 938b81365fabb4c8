// The work items of a cluster under way, mostly one: their warps of fibres, the order in which
// these run, and where they meet. Everything here runs on one thread of the CPU.
#pragma once

#include "compiler/emulator/Fibre.h"
#include "compiler/emulator/Shadow.h"
#include "passes/targets/common/emulated/emulator.h"

#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace m3c::emulator {

class Cluster;
struct Warp;

/// When asynchronous copies land: as soon as they are started, not before they are waited for, or
/// in between.
enum class Landing { Early, Late, Random };

/// A GPU thread.
struct alignas(64) FibreThread : m3emu::Thread {
  Context context = nullptr;
  FibreThread *next = nullptr; ///< whose turn it is after this one's, in its warp
  Warp *home = nullptr;
  Cluster *cluster = nullptr;
  const void *place = nullptr;    ///< where it stands, once it waits
  const char *waitsFor = nullptr; ///< what it waits for; null while it runs
  Knowledge *own = nullptr;       ///< what it knows beyond its warp; null: nothing
  Knowledge *ownFenced = nullptr;
  unsigned number = 0; ///< within the cluster
};

/// Warps of a cluster by number.
class WarpSet {
public:
  static constexpr unsigned most = 512;
  void add(unsigned warp) { words[warp / 64] |= uint64_t(1) << warp % 64; }
  void remove(unsigned warp) { words[warp / 64] &= ~(uint64_t(1) << warp % 64); }
  bool has(unsigned warp) const { return words[warp / 64] >> warp % 64 & 1; }
  bool any() const {
    for (uint64_t word : words)
      if (word)
        return true;
    return false;
  }
  unsigned count() const {
    unsigned sum = 0;
    for (uint64_t word : words)
      sum += unsigned(std::popcount(word));
    return sum;
  }
  /// The n-th of them, n < count().
  unsigned nth(unsigned n) const {
    for (unsigned i = 0;; ++i) {
      uint64_t word = words[i];
      if (unsigned here = unsigned(std::popcount(word)); n >= here) {
        n -= here;
        continue;
      }
      while (n--)
        word &= word - 1;
      return i * 64 + unsigned(std::countr_zero(word));
    }
  }

private:
  std::array<uint64_t, most / 64> words{};
};

struct Warp {
  unsigned index = 0;                 ///< within the cluster
  unsigned rank = 0;                  ///< of its work item
  std::vector<FibreThread *> threads; ///< by lane
  uint64_t all = 0, exited = 0;
  uint64_t ready = 0;   ///< lanes that can run
  uint64_t arrived = 0; ///< of a meeting of the whole warp
  struct Part {         ///< of a meeting of some lanes
    uint64_t mask, arrived;
  };
  std::vector<Part> parts;
  const char *what = nullptr;
  unsigned order = 0;  ///< lanes run in the order of lane ^ order
  unsigned next = 0;   ///< goes on first
  unsigned budget = 0; ///< meetings until another warp may run
  uint32_t now = 0, synced = 0;
  unsigned char stored = 0; ///< 1: it has written to global memory since `now` is what it is
  uint32_t storedAt = 0;    ///< when it did before; 0: never
  Knowledge knowledge, fenced;
  uint32_t least = 0;        ///< knowledge.least()
  bool hasOwn = false;       ///< some thread knows more
  bool owesWait = false;     ///< has arrived at the barrier of the cluster
  uint64_t meetingsSeen = 0; ///< of the cluster, when it did
  unsigned long words[2][m3emu::mostLanes];
  void *slots[m3emu::mostLanes];
};

/// What went wrong, and where. `thread` is null where it is the work item's fault.
struct Fault {
  std::string what;
  const void *place = nullptr;
  m3emu::Dim item{};
  int warp = -1, lane = -1;
  std::vector<std::pair<std::string, const void *>> waiting; ///< of a dead-lock
};

struct ItemCounts {
  uint64_t meetings = 0, sharedAccesses = 0, copies = 0, instructions = 0;
};

/// What stays the same for the work items of a launch.
struct LaunchShape {
  void (*entry)(const unsigned long *values);
  const unsigned long *values;
  m3emu::Dim grid;
  unsigned threads, lanes;
  unsigned cluster;       ///< work items along x that run together
  unsigned tensorColumns; ///< of tensor memory; 0: the target has none
  unsigned registers;     ///< of a thread when it begins, where warps may change them; else 0
  uint64_t sharedBytes;
  uint64_t seed;
  Landing landing;
  unsigned long memory, pages;
  const unsigned char *pageState, *written; ///< m3emu::Thread
  const unsigned char *noPage; ///< for threads that wait for the launch before: no page is whole
  bool waits;                  ///< they have to
  /// What is wrong with an access that no buffer holds whole; empty: nothing.
  /// `early`: the thread has yet to wait for the launch before.
  std::string (*globalFault)(const void *context, uint64_t address, uint64_t bytes, bool writes,
                             bool early);
  const void *context;
};

class Cluster {
public:
  Cluster();
  ~Cluster();
  Cluster(const Cluster &) = delete;
  Cluster &operator=(const Cluster &) = delete;

  /// Runs a cluster to its end; `block` is its first work item. False: it failed, `fault` says how.
  bool run(const LaunchShape &shape, m3emu::Dim block);
  const Fault &fault() const { return failure; }
  const ItemCounts &counts() const { return count; }

  // What threads call (Calls.cpp).
  void meet(FibreThread &thread, const char *what, uint64_t mask, void (*all)(void *const *),
            bool orders);
  void barrier(FibreThread &thread, unsigned id, unsigned threads, bool waits);
  bool barrierOr(FibreThread &thread, bool holds);
  /// What launches before have written may be read from here on.
  void awaitLaunch(FibreThread &thread);
  /// Tells other work items that this one has stored its part.
  void countIn(FibreThread &thread);
  void clusterBarrier(FibreThread &thread);
  void arriveAtCluster(FibreThread &thread);
  void awaitCluster(FibreThread &thread);
  void readShared(FibreThread &thread, uint64_t offset, unsigned bytes);
  void writeShared(FibreThread &thread, uint64_t offset, unsigned bytes);
  void checkGlobal(FibreThread &thread, const void *address, uint64_t bytes, bool writes);
  [[noreturn]] void fail(FibreThread &thread, std::string what);

  // Of barriers in shared memory and asynchronous copies.
  class Transfers;
  friend class Transfers;
  Transfers &copies() { return *transfers; }

  /// Of the thread's work item; fails where the target has none.
  class TensorMemory;
  friend class TensorMemory;
  TensorMemory &tensor(FibreThread &thread);

  /// Likewise; fails where the text does not say how many there are.
  class Registers;
  friend class Registers;
  Registers &registers(FibreThread &thread);

  /// Likewise; made when the first one starts.
  class GroupProducts;
  friend class GroupProducts;
  GroupProducts &groupProducts(FibreThread &thread);

private:
  struct Barrier {
    unsigned arrived = 0, expected = 0;
    WarpSet waiting, joined, ordered; ///< ordered: whose accesses before come before those after
    Knowledge knowledge, fenced;
    uint32_t latest = 0;
    bool holds = false; ///< for barrierOr: somebody says so
  };

  /// The last barrier of the cluster that was complete, for those who ask later.
  struct Meeting {
    uint64_t number = 0;
    Knowledge knowledge, fenced;
    uint32_t time = 0;
  };

  /// The last time that a work item told others that it had stored its part; 0: it has not.
  struct CountedIn {
    unsigned warp = 0;
    uint32_t time = 0;
  };

  /// One work item.
  struct Item {
    Shadow shadow;
    std::shared_ptr<TensorMemory> tensor;    ///< where the target has such memory
    std::shared_ptr<Registers> registers;    ///< where warps may change theirs
    std::shared_ptr<GroupProducts> products; ///< where four warps multiply together
    std::array<Barrier, 16> barriers;
    unsigned exitedThreads = 0;
    bool lastHolds = false; ///< what the last barrierOr found
    CountedIn counted;
  };

  void prepare(const LaunchShape &shape, m3emu::Dim block);
  void prepareWarp(unsigned index);
  void prepareThread(unsigned index, m3emu::Dim block);
  void reserveShared(uint64_t bytes);
  void schedule();
  bool deadLocked();
  void resume(Warp &warp);
  static void enter(boost::context::detail::transfer_t from);
  void exitThread(FibreThread &thread);

  /// Gives the CPU to another lane of the warp, or to the scheduler when none can run. Returns when
  /// this thread runs again.
  void leave(FibreThread &thread);
  void jump(FibreThread &from, FibreThread &to); ///< another lane of the same warp
  void toScheduler(FibreThread &thread);
  FibreThread *nextReady(const FibreThread &after);
  /// Links the lanes of a warp in another order.
  void reorder(Warp &warp);
  void meetSlowly(FibreThread &thread, const char *what, uint64_t mask, void (*all)(void *const *),
                  bool orders);
  /// Notes who gave the CPU away; null: the scheduler.
  void cameFrom(boost::context::detail::transfer_t from);
  void completeMeeting(FibreThread &thread, uint64_t lanes, bool orders);
  void meetSome(FibreThread &thread, uint64_t mask, void (*all)(void *const *), bool orders);
  bool gather(FibreThread &thread, const char *what);
  void comeToCluster(FibreThread &thread, bool waits);
  /// Comes to a barrier with the whole warp; `needed` threads complete it.
  void come(FibreThread &thread, Barrier &barrier, const char *what, unsigned threads,
            unsigned needed, bool waits);
  void arriveAtBarrier(Warp &warp, Barrier &barrier, unsigned threads, unsigned needed, bool waits);
  void completeBarrier(Barrier &barrier);
  void learnOf(Warp &warp, const Knowledge &knowledge, const Knowledge &fenced, uint32_t time);
  void wake(FibreThread &thread);
  void orderWarp(Warp &warp);
  /// Of a Knowledge (Clocks.h).
  unsigned knowledgeEntries() const;
  Accessor accessor(const FibreThread &thread) const;
  Shadow &shadowOf(const FibreThread &thread) { return items[thread.home->rank].shadow; }
  bool hasEnded(unsigned rank) const { return items[rank].exitedThreads == shape->threads; }
  Complaint globalFault(const FibreThread &thread, const void *address, uint64_t bytes,
                        bool writes) const {
    return shape->globalFault(shape->context, reinterpret_cast<uint64_t>(address), bytes, writes,
                              thread.pageState == shape->noPage);
  }
  void checkShared(FibreThread &thread, uint64_t offset, unsigned bytes, const char *verb);
  /// Of another work item of the cluster; false: the address is nobody's.
  bool checkPeer(FibreThread &thread, uint64_t address, uint64_t bytes, bool writes);
  /// Learns what `knowledge` says, for this thread alone.
  void learn(FibreThread &thread, const Knowledge &knowledge, const Knowledge &fenced);
  /// What the thread can tell others now, and a new time for its warp.
  void publish(FibreThread &thread, Knowledge &knowledge, Knowledge &fenced);
  /// A new time for a warp; what it has stored until now is looked at.
  void goOn(Warp &warp, uint32_t time);
  void checkStores(const Warp &warp);
  unsigned drawBudget();
  void complain(FibreThread &thread, Complaint complaint) {
    if (!complaint.empty())
      fail(thread, std::move(complaint));
  }

  const LaunchShape *shape = nullptr;
  Stacks stacks;
  std::byte *shared = nullptr; ///< with room around it that nothing may use
  uint64_t sharedArea = 0;     ///< of all work items
  uint64_t sharedRoom = 0;     ///< of one work item; that of the next one follows
  std::vector<Item> items;
  std::vector<Warp> warps;
  std::vector<Knowledge> ownKnowledge; ///< [thread · 2 (+ 1: fenced)]: storage
  WarpSet runnable;
  unsigned exitedThreads = 0;
  Barrier wholeCluster;
  Meeting meeting;
  std::unique_ptr<Transfers> transfers;
  std::vector<FibreThread> threads;
  m3emu::Current current{};
  Context scheduler = nullptr;
  std::minstd_rand random;
  uint32_t clock = 1; ///< later than every time so far
  bool failed = false;
  Fault failure;
  ItemCounts count;
  /// Work items that use tensor memory together, as the first instruction said; 0: none has.
  unsigned tensorGroup = 0;
};

inline void Cluster::cameFrom(boost::context::detail::transfer_t from) {
  auto *thread = static_cast<FibreThread *>(from.data);
  (thread ? thread->context : scheduler) = from.fctx;
}

inline void Cluster::jump(FibreThread &from, FibreThread &to) {
  current.thread = &to;
  cameFrom(boost::context::detail::jump_fcontext(to.context, &from));
}

inline void Cluster::meet(FibreThread &thread, const char *what, uint64_t mask,
                          void (*all)(void *const *), bool orders) {
  // Mostly: another lane of the whole warp, and its neighbour can run.
  Warp &warp = *thread.home;
  uint64_t lane = uint64_t(1) << thread.lane, arrived = warp.arrived | lane;
  FibreThread &next = *thread.next;
  bool plain = (mask & warp.all) == warp.all && !warp.exited && warp.arrived && warp.what == what &&
               arrived != warp.all && (warp.ready >> next.lane & 1);
  if (!plain)
    return meetSlowly(thread, what, mask, all, orders);
  warp.arrived = arrived;
  warp.ready &= ~lane;
  thread.waitsFor = what;
  jump(thread, next);
}

} // namespace m3c::emulator
