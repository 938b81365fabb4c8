// Barriers in shared memory that count arrivals and bytes, and copies that land later.
#pragma once

#include "compiler/emulator/Cluster.h"

#include <deque>
#include <list>

namespace m3c::emulator {

/// What a work item has under way. Copies land when the launch's `Landing` says so; what may be
/// read or overwritten meanwhile is the shadow's business and does not depend on it.
class Cluster::Transfers {
public:
  explicit Transfers(Cluster &cluster) : cluster(cluster) {}

  void begin(uint32_t clock);
  /// What is wrong when the work item ends now; empty: nothing.
  Complaint finish();
  uint32_t now() const { return time; }
  /// Between two stretches of warps: copies may land.
  void step();
  /// Lands the oldest copy; false: none is under way.
  bool landSome();

  void initBarrier(FibreThread &thread, const void *barrier, unsigned arrivals);
  /// Those that the thread has initialised are known to copies, products and other work items.
  void fenceBarriers(FibreThread &thread);
  void arrive(FibreThread &thread, const void *barrier, unsigned arrivals, unsigned bytes);
  /// Once at the barrier in the same place of another work item of the cluster.
  void arriveAtPeer(FibreThread &thread, const void *barrier, unsigned rank);
  void wait(FibreThread &thread, const void *barrier, unsigned parity);
  bool test(FibreThread &thread, const void *barrier, unsigned parity);

  // Counters in shared memory that only grow (Counters.cpp).
  void startCounter(FibreThread &thread, const void *counter);
  void raise(FibreThread &thread, const void *counter, unsigned by);
  void awaitCounter(FibreThread &thread, const void *counter, unsigned least);

  void copyAsync(FibreThread &thread, const void *shared, const void *global, unsigned bytes,
                 unsigned given);
  void commit(FibreThread &thread);
  void waitGroups(FibreThread &thread, unsigned most);
  void arriveAfter(FibreThread &thread, const void *barrier, bool counted);
  /// Of a work item, for what arrives by itself; fails unless the thread knows that it was
  /// initialised, and a fence has made that known.
  uint64_t knownBarrier(FibreThread &thread, const void *barrier, unsigned rank);
  /// An arrival of what the hardware does by itself: `told` says what it makes known.
  template <class Tell>
  void arriveFor(FibreThread &thread, unsigned rank, uint64_t barrier, Tell told) {
    Barrier &at = barriers.at({rank, barrier});
    told(at.gathered);
    told(at.gatheredFenced);
    at.byPeer |= rank != thread.rank;
    countArrival(thread, at, barrier);
  }

  void copyBulk(FibreThread &thread, const void *shared, const void *global, unsigned bytes,
                const void *barrier);
  void storeBulk(FibreThread &thread, const void *global, const void *shared, unsigned bytes);
  void commitBulk(FibreThread &thread);
  void waitBulk(FibreThread &thread, unsigned most);
  void fence(FibreThread &thread);
  void readAsync(FibreThread &thread, uint64_t offset, unsigned bytes);

private:
  struct Barrier {
    int64_t expected = 0, pending = 0; ///< arrivals of a phase, and those that are missing
    int64_t bytes = 0;                 ///< expected and not there
    int64_t phase = 0;                 ///< phases that are over
    bool byPeer = false;               ///< products of another work item have arrived
    bool awaited = false;              ///< some thread has waited for a phase
    unsigned initialiser = 0;          ///< number of the thread
    bool fenced = false;               ///< it has made the barrier known to other than threads
    Knowledge gathered, gatheredFenced, told, toldFenced;
    std::vector<FibreThread *> waiters;
  };
  struct Counter {
    /// What is told by each value that it has had: all that was done before it was reached, so that
    /// a thread that waits for too little does not learn more by chance.
    struct Reached {
      uint64_t value;
      Knowledge told, toldFenced;
    };
    std::vector<Reached> history;
    std::vector<FibreThread *> waiters;
    uint64_t value() const { return history.empty() ? 0 : history.back().value; }
  };
  struct Copy {
    enum Kind { Async, Arrival, Bulk, Store } kind;
    FibreThread *thread;
    uint64_t offset, bytes;
    std::byte *global;
    uint64_t given;
    uint64_t barrier;
    unsigned group;
    bool landed;
  };
  struct Groups {
    unsigned open = 0; ///< number of the group that is being filled
    bool any = false;  ///< it has copies
  };

  uint64_t offsetOf(FibreThread &thread, const void *address, uint64_t bytes, const char *what);
  void countArrival(FibreThread &thread, Barrier &barrier, uint64_t offset);
  Counter &counterAt(FibreThread &thread, const void *address, uint64_t &offset);
  Barrier &barrierAt(FibreThread &thread, const void *address, uint64_t &offset) {
    return barrierAt(thread, address, offset, thread.rank);
  }
  Barrier &barrierAt(FibreThread &thread, const void *address, uint64_t &offset, unsigned rank);
  /// For arrivals that are not the work item's own threads'.
  Barrier &fencedBarrierAt(FibreThread &thread, const void *address, uint64_t &offset,
                           unsigned rank);
  void arriveAt(FibreThread &thread, Barrier &barrier, uint64_t offset, unsigned arrivals);
  void completePhase(Barrier &barrier);
  void settle(Barrier &barrier);
  bool passed(FibreThread &thread, Barrier &barrier, uint64_t offset, unsigned parity);
  void land(std::list<Copy>::iterator copy);
  /// Ends what lets others touch the bytes; the copy is over.
  void close(std::list<Copy>::iterator copy);
  void closeGroups(FibreThread &thread, bool stores, unsigned most);
  void start(Copy copy);
  static std::byte *sharedAt(const FibreThread &thread, uint64_t offset) {
    return reinterpret_cast<std::byte *>(thread.shared) + offset;
  }

  Cluster &cluster;
  std::map<std::pair<unsigned, uint64_t>, Barrier> barriers; ///< by rank and byte of shared memory
  std::map<std::pair<unsigned, uint64_t>, Counter> counters; ///< likewise
  std::list<Copy> copies;                                    ///< in the order of their start
  std::map<std::pair<unsigned, bool>, Groups> groups;        ///< by thread, and whether of stores
  std::map<std::pair<unsigned, uint64_t>, int64_t>
      seen;          ///< thread, barrier of its item → phase waited for last
  uint32_t time = 1; ///< of the asynchronous proxy
};

} // namespace m3c::emulator
