// One work item under way: its warps of fibres, the order in which they run, and where they meet.
// Everything here runs on one thread of the CPU.
#pragma once

#include "compiler/emulator/Fibre.h"
#include "compiler/emulator/Shadow.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace m3c::emulator {

class WorkItem;
struct Warp;

/// When asynchronous copies land: as soon as they are started, not before they are waited for, or
/// in between.
enum class Landing { Early, Late, Random };

/// A GPU thread. Lies at the end of its stack (`m3emu::headBytes`).
struct FibreThread : m3emu::Thread {
  Context context = nullptr;
  Warp *home = nullptr;
  WorkItem *item = nullptr;
  const void *place = nullptr;    ///< where it stands, once it waits
  const char *waitsFor = nullptr; ///< what it waits for; null while it runs
  Knowledge *own = nullptr;       ///< what it knows beyond its warp; null: nothing
  Knowledge *ownFenced = nullptr;
};
static_assert(sizeof(FibreThread) <= m3emu::headBytes);

struct Warp {
  unsigned index = 0;
  std::vector<FibreThread *> threads;
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
  Knowledge knowledge, fenced;
  uint32_t least = 0;  ///< knowledge.least()
  bool hasOwn = false; ///< some thread knows more
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
  uint64_t meetings = 0, sharedAccesses = 0, copies = 0;
};

/// What stays the same for the work items of a launch.
struct LaunchShape {
  void (*entry)(const unsigned long *values);
  const unsigned long *values;
  m3emu::Dim grid;
  unsigned threads, lanes;
  uint64_t sharedBytes;
  uint64_t seed;
  Landing landing;
  unsigned long memory, pages;
  const unsigned char *pageState;
  /// What is wrong with an access that no buffer holds whole; empty: nothing.
  std::string (*globalFault)(const void *context, uint64_t address, uint64_t bytes, bool writes);
  const void *context;
};

class WorkItem {
public:
  WorkItem();
  ~WorkItem();
  WorkItem(const WorkItem &) = delete;
  WorkItem &operator=(const WorkItem &) = delete;

  /// Runs one work item to its end. False: it failed, `fault` says how.
  bool run(const LaunchShape &shape, m3emu::Dim block);
  const Fault &fault() const { return failure; }
  const ItemCounts &counts() const { return count; }

  // What threads call (Calls.cpp).
  void meet(FibreThread &thread, const char *what, uint64_t mask, void (*all)(void *const *),
            bool orders);
  void barrier(FibreThread &thread, unsigned id, unsigned threads, bool waits);
  bool barrierOr(FibreThread &thread, bool holds);
  void readShared(FibreThread &thread, uint64_t offset, unsigned bytes);
  void writeShared(FibreThread &thread, uint64_t offset, unsigned bytes);
  void checkGlobal(FibreThread &thread, const void *address, uint64_t bytes, bool writes);
  [[noreturn]] void fail(FibreThread &thread, std::string what);

  // Of barriers in shared memory and asynchronous copies.
  class Transfers;
  friend class Transfers;
  Transfers &copies() { return *transfers; }

private:
  struct Barrier {
    unsigned arrived = 0, expected = 0;
    uint64_t waiting = 0, joined = 0; ///< warps
    Knowledge knowledge, fenced;
    uint32_t latest = 0;
    bool holds = false; ///< for barrierOr: somebody says so
  };

  void prepare(const LaunchShape &shape, m3emu::Dim block);
  void prepareThread(unsigned index, m3emu::Dim block);
  void schedule();
  bool deadLocked();
  void resume(Warp &warp);
  static void enter(boost::context::detail::transfer_t from);
  void exitThread(FibreThread &thread);

  /// Gives the CPU to another lane of the warp, or to the scheduler when none can run. Returns when
  /// this thread runs again.
  void leave(FibreThread &thread);
  void jump(FibreThread &from, FibreThread &to);
  void toScheduler(FibreThread &thread);
  FibreThread *nextReady(Warp &warp, unsigned after);
  void completeMeeting(FibreThread &thread, uint64_t lanes, bool orders);
  void meetSome(FibreThread &thread, uint64_t mask, void (*all)(void *const *), bool orders);
  void arriveAtBarrier(Warp &warp, unsigned id, unsigned threads, bool waits);
  void completeBarrier(Barrier &barrier);
  void wake(FibreThread &thread);
  void orderWarp(Warp &warp);
  Accessor accessor(const FibreThread &thread) const;
  /// Learns what `knowledge` says, for this thread alone.
  void learn(FibreThread &thread, const Knowledge &knowledge, const Knowledge &fenced);
  /// What the thread can tell others now, and a new time for its warp.
  void publish(FibreThread &thread, Knowledge &knowledge, Knowledge &fenced);
  unsigned drawBudget();
  void complain(FibreThread &thread, Complaint complaint) {
    if (!complaint.empty())
      fail(thread, std::move(complaint));
  }

  const LaunchShape *shape = nullptr;
  Stacks stacks;
  std::byte *shared = nullptr; ///< with room around it that nothing may use
  uint64_t sharedRoom = 0;
  Shadow shadow;
  std::vector<Warp> warps;
  std::vector<Knowledge> ownKnowledge; ///< [thread · 2 (+ 1: fenced)]: storage
  uint64_t runnable = 0;
  unsigned exitedThreads = 0;
  std::array<Barrier, 16> barriers;
  bool lastHolds = false; ///< what the last barrierOr found
  std::unique_ptr<Transfers> transfers;
  FibreThread *previous = nullptr; ///< who gave the CPU away
  Context scheduler = nullptr;
  std::minstd_rand random;
  uint32_t clock = 1; ///< later than every time so far
  bool failed = false;
  Fault failure;
  ItemCounts count;
};

} // namespace m3c::emulator
