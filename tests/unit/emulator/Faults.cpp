#include "tests/unit/emulator/Faults.h"

namespace m3c::test {

namespace {

/// Warps hand values round in shared memory: each reads what the next one wrote.
constexpr const char *exchange = R"(#include "tile.h"
extern "C" __global__ void exchange(u32 *data) {
  u32 *shared = (u32 *)sharedMemory();
  const int i = threadIdx.x, next = (i + 32) % 128;
#if defined(BufferOutOfBounds)
  u32 own = loadAt(data + i * 16);
#else
  u32 own = loadAt(data + i);
#endif
#if defined(WriteBeyondBuffer)
  storeAt(data + 1024 + i, own);
#endif
#if defined(OddAddress)
  own += loadAt((u32 *)((u8 *)data + 2));
#endif
#if !defined(UnwrittenRead)
  storeAt(shared + i, own);
#endif
#if !defined(MissingBarrier)
  barrier();
#endif
  const u32 other = loadAt(shared + next);
#if !defined(OverwrittenBeforeAllHaveRead)
  barrier();
#endif
  storeAt(shared + i, own + other);
#if defined(SharedOutOfBounds)
  storeAt(shared + 128 + i, own);
#endif
#if !defined(MissingWarpBarrier)
  warpBarrier();
#endif
  const u32 sum = loadAt(shared + (i ^ 1));
  storeAt(data + i, sum);
#if defined(BarrierThatSomeSkip)
  if (i / 32 < 2)
    barrier();
  else
    asm volatile("" ::: "memory");
  if (i / 32 < 2)
    barrier();
  else
    m3emu::self()->calls->barrier(m3emu::self(), 1, 0, true);
#endif
#if defined(LanesAtDifferentInstructions)
  if (laneId() < 16)
    warpBarrier();
  else
    fromLane(sum, 0);
#endif
}
)";

/// A stage of copies that each thread starts, waits for and reads.
constexpr const char *staged = R"(#include "tile.h"
M3_INLINE void copyOwn(u32 *to, const u32 *from) {
  m3emu::self()->calls->copyAsync(m3emu::self(), to, from, 4, 4);
  m3emu::self()->calls->commitCopies(m3emu::self());
}
M3_INLINE void waitForCopies(int most) { m3emu::self()->calls->waitCopies(m3emu::self(), most); }
extern "C" __global__ void staged(u32 *data) {
  u32 *shared = (u32 *)sharedMemory();
  const int i = threadIdx.x;
  u32 sum = 0;
  copyOwn(shared + i, data + i);
  for (int step = 0; step < 4; ++step) {
    copyOwn(shared + (step + 1) % 2 * 64 + i, data + (step + 1) * 64 + i);
#if defined(MissingWait)
    waitForCopies(2);
#else
    waitForCopies(1);
#endif
#if !defined(MissingBarrierAfterCopy)
    barrier();
#endif
    sum += loadAt(shared + step % 2 * 64 + (i + 32) % 64);
#if !defined(RingTooShallow)
    barrier();
#endif
  }
  waitForCopies(0);
  storeAt(data + i, sum);
}
)";

/// One warp brings stages by bulk copies, another one adds them up.
constexpr const char *pipeline = R"(#include "tile.h"
M3_INLINE void expect(u64 *barrier, u32 bytes) {
  m3emu::self()->calls->arrive(m3emu::self(), barrier, 1, bytes);
}
M3_INLINE void arrive(u64 *barrier) { m3emu::self()->calls->arrive(m3emu::self(), barrier, 1, 0); }
M3_INLINE void waitFor(u64 *barrier, u32 parity) {
  m3emu::self()->calls->waitBarrier(m3emu::self(), barrier, parity);
}
M3_INLINE void bring(u32 *to, const u32 *from, u64 *barrier) {
  m3emu::self()->calls->copyBulk(m3emu::self(), to, from, 128, barrier);
}
M3_INLINE void initialise(u64 *barrier, u32 arrivals) {
  m3emu::self()->calls->initBarrier(m3emu::self(), barrier, arrivals);
}
extern "C" __global__ void pipeline(u32 *data) {
  u32 *stages = (u32 *)sharedMemory();
  u64 *full = (u64 *)(sharedMemory() + 256), *empty = full + 2;
#if !defined(BarrierWithoutInitialisation)
  if (threadIdx.x == 0)
    for (int s = 0; s < 2; ++s)
      initialise(full + s, 1), initialise(empty + s, 1);
#if !defined(InitialisationNotFenced)
  if (threadIdx.x == 0)
    m3emu::self()->calls->fenceBarriers(m3emu::self());
#endif
#endif
#if !defined(BarrierUsedBeforeOthersSeeIt)
  barrier();
#endif
  if (warpId() == 0) { // role bring
    for (int i = 0; i < 8; ++i) {
#if !defined(StageTakenBeforeItIsFree)
      waitFor(empty + i % 2, (i / 2 & 1) ^ 1);
#endif
      if (laneId() == 0) {
#if defined(TooFewBytesExpected)
        expect(full + i % 2, 144);
#else
        expect(full + i % 2, 128);
#endif
        bring(stages + i % 2 * 32, data + i * 32, full + i % 2);
      }
    }
  } else { // role add
    u32 sum = 0;
    for (int i = 0; i < 8; ++i) {
#if defined(PhaseTakenForAnother)
      waitFor(full + i % 2, 0);
#elif !defined(FullStageNotWaitedFor)
      waitFor(full + i % 2, i / 2 & 1);
#endif
#if defined(ReleasedBeforeItIsRead)
      warpBarrier();
      if (laneId() == 0)
        arrive(empty + i % 2);
      sum += loadAt(stages + i % 2 * 32 + laneId());
#else
      sum += loadAt(stages + i % 2 * 32 + laneId());
      warpBarrier();
#if !defined(MissingArrival)
      if (laneId() == 0)
        arrive(empty + i % 2);
#endif
#if defined(OneArrivalTooMany)
      if (laneId() == 1)
        arrive(empty + i % 2);
#endif
#endif
    }
    storeAt(data + laneId(), sum);
  }
}
)";

/// Results go out by a bulk store of the asynchronous proxy.
constexpr const char *stored = R"(#include "tile.h"
extern "C" __global__ void stored(u32 *data) {
  m3emu::Thread *t = m3emu::self();
  u32 *shared = (u32 *)sharedMemory();
  storeAt(shared + threadIdx.x, loadAt(data + threadIdx.x) * 3);
#if !defined(MissingProxyFence)
  t->calls->fenceProxy(t);
#endif
#if !defined(MissingBarrierBeforeStore)
  barrier();
#endif
  if (threadIdx.x == 0) {
    t->calls->storeBulk(t, data, shared, 256);
    t->calls->commitBulk(t);
#if !defined(SourceOverwritten) && !defined(EndsBeforeStoreHasRead)
    t->calls->waitBulk(t, 0, true);
#endif
  }
#if !defined(EndsBeforeStoreHasRead)
  barrier();
  storeAt(shared + threadIdx.x, 0);
#endif
}
)";

/// Two work items read each other's shared memory.
constexpr const char *neighbours = R"(#include "tile.h"
M3_INLINE void everybody() { m3emu::self()->calls->clusterBarrier(m3emu::self()); }
extern "C" __global__ void neighbours(u32 *data) {
  m3emu::Thread *t = m3emu::self();
  u32 *shared = (u32 *)sharedMemory();
  storeAt(shared + threadIdx.x, blockIdx.x * 64 + threadIdx.x);
#if defined(MissingClusterBarrier)
  barrier();
#else
  everybody();
#endif
  const u32 *peer = (u32 *)((u8 *)shared + (t->rank ? -(i64)t->peerStride : (i64)t->peerStride));
#if defined(PeerOutOfBounds)
  peer += 64;
#endif
  const u32 other = loadAt(peer + (threadIdx.x + 1) % 64);
#if !defined(EndsWhileNeighbourReads)
  everybody();
#endif
  storeAt(data + blockIdx.x * 64 + threadIdx.x, other);
#if defined(EndsWhileNeighbourReads)
  storeAt(shared + threadIdx.x, 0);
#endif
}
)";

/// Two work items store to each other's shared memory, once both have begun.
constexpr const char *pushed = R"(#include "tile.h"
extern "C" __global__ void pushed(u32 *data) {
  m3emu::Thread *t = m3emu::self();
  u32 *shared = (u32 *)sharedMemory();
#if !defined(PeerMayNotHaveBegun)
  t->calls->arriveAtCluster(t);
  const u32 own = loadAt(data + blockIdx.x * 64 + threadIdx.x);
#if defined(ArrivesTwice)
  t->calls->arriveAtCluster(t);
#endif
  t->calls->awaitCluster(t);
#endif
  u32 *peer = (u32 *)((u8 *)shared + (t->rank ? -(i64)t->peerStride : (i64)t->peerStride));
#if defined(PeerMayNotHaveBegun)
  const u32 own = 1;
#endif
  storeAt(peer + threadIdx.x, own * 5);
#if defined(HalvesOrderNothing)
  t->calls->arriveAtCluster(t);
  t->calls->awaitCluster(t);
#else
  t->calls->clusterBarrier(t);
#endif
#if defined(WaitsTwice)
  t->calls->awaitCluster(t);
#endif
  storeAt(data + blockIdx.x * 64 + threadIdx.x, loadAt(shared + (threadIdx.x + 1) % 64));
}
)";

/// Warps of a work item of a cluster give each other values; then one of the other work item reads.
constexpr const char *within = R"(#include "tile.h"
extern "C" __global__ void within(u32 *data) {
  m3emu::Thread *t = m3emu::self();
  u32 *shared = (u32 *)sharedMemory();
  t->calls->clusterBarrier(t);
  storeAt(shared + threadIdx.x, loadAt(data + blockIdx.x * 64 + threadIdx.x));
  barrier();
  u32 other = loadAt(shared + (threadIdx.x + 32) % 64);
#if !defined(SameWarpOfAnotherItem)
  t->calls->clusterBarrier(t);
#endif
  const u32 *peer = (u32 *)((u8 *)shared + (t->rank ? -(i64)t->peerStride : (i64)t->peerStride));
  other += loadAt(peer + threadIdx.x);
  t->calls->clusterBarrier(t);
  storeAt(data + blockIdx.x * 64 + threadIdx.x, other);
}
)";

/// A launch that may begin before the one before it has ended.
constexpr const char *overlapping = R"(#include "tile.h"
extern "C" __global__ void overlapping(u32 *data) {
#if defined(WrittenBeforeTheWait)
  storeAt(data + 512 + threadIdx.x, 1);
#endif
#if !defined(LaunchBeforeNotWaitedFor)
  awaitLaunch();
#endif
  allowLaunch();
  storeAt(data + threadIdx.x, loadAt(data + threadIdx.x) + 1);
}
)";

} // namespace

/// `all` and more.
template <class T> static std::vector<T> joined(std::vector<T> all, const std::vector<T> &more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

const std::vector<BenchKernel> &soundKernels() {
  static const std::vector<BenchKernel> own = {
      {"exchange", exchange, 128, 512},
      {"staged", staged, 64, 512},
      {"pipeline", pipeline, 64, 512},
      {"stored", stored, 64, 256},
      {"neighbours", neighbours, 64, 256, {4, 1, 1}, 2},
      {"pushed", pushed, 64, 256, {4, 1, 1}, 2},
      {"within", within, 64, 256, {4, 1, 1}, 2},
      {"overlapping", overlapping, 64, 0},
  };
  static const std::vector<BenchKernel> all =
      joined(joined(joined(joined(joined(own, tensorKernels()), pairKernels()), registerKernels()),
                    groupKernels()),
             waveKernels());
  return all;
}

const std::vector<PlantedFault> &plantedFaults() {
  static const std::vector<PlantedFault> own = {
      {"BufferOutOfBounds", "exchange", "of buffer 0, which has 4096", "data + i * 16"},
      {"WriteBeyondBuffer", "exchange", "writes 4 bytes at byte", "data + 1024 + i"},
      {"OddAddress", "exchange", "no multiple", "(u8 *)data + 2"},
      {"UnwrittenRead", "exchange", "nothing has written", "shared + next"},
      {"MissingBarrier", "exchange", "", "shared + next"},
      {"OverwrittenBeforeAllHaveRead", "exchange", "with no barrier between", ""},
      {"SharedOutOfBounds", "exchange", "of 512 bytes of shared memory", "shared + 128 + i"},
      {"MissingWarpBarrier", "exchange", "with no barrier between", ""},
      {"BarrierThatSomeSkip", "exchange", "no thread can go on", ""},
      {"LanesAtDifferentInstructions", "exchange", "while other lanes of its warp are at", ""},
      {"MissingWait", "staged", "before the copy that fills it was waited for", "loadAt(shared"},
      {"MissingBarrierAfterCopy", "staged", "", "loadAt(shared"},
      {"RingTooShallow", "staged", "", "(shared + "},
      {"BarrierWithoutInitialisation", "pipeline", "that nothing has initialised", ""},
      {"BarrierUsedBeforeOthersSeeIt", "pipeline", "", ""},
      {"InitialisationNotFenced", "pipeline", "no fence (mbarrier_init) stands behind", "bring("},
      {"StageTakenBeforeItIsFree", "pipeline", "", "role bring"},
      {"TooFewBytesExpected", "pipeline", "no thread can go on", ""},
      {"PhaseTakenForAnother", "pipeline", "", "waitFor(full"},
      {"FullStageNotWaitedFor", "pipeline", "", "loadAt(stages"},
      {"ReleasedBeforeItIsRead", "pipeline", "", ""},
      {"MissingArrival", "pipeline", "no thread can go on", ""},
      {"OneArrivalTooMany", "pipeline", "", ""},
      {"MissingProxyFence", "stored", "with no proxy fence between", "storeBulk"},
      {"MissingBarrierBeforeStore", "stored", "", "storeBulk"},
      {"SourceOverwritten", "stored", "while the asynchronous proxy reads it", "storeAt(shared"},
      {"EndsBeforeStoreHasRead", "stored", "ends before its bulk stores have read", ""},
      {"MissingClusterBarrier", "neighbours", "", "loadAt(peer"},
      {"PeerOutOfBounds", "neighbours", "shared memory", "loadAt(peer"},
      {"EndsWhileNeighbourReads", "neighbours", "", ""},
      {"PeerMayNotHaveBegun", "pushed", "that may not have begun", "storeAt(peer"},
      {"ArrivesTwice", "pushed", "has not waited after an arrival", ""},
      {"HalvesOrderNothing", "pushed", "", "loadAt(shared"},
      {"SameWarpOfAnotherItem", "within", "", "loadAt(peer"},
      {"WaitsTwice", "pushed", "without an arrival", ""},
      {"WrittenBeforeTheWait", "overlapping", "before its thread has waited", "data + 512"},
      {"LaunchBeforeNotWaitedFor", "overlapping", "before its thread has waited", "storeAt(data"},
  };
  static const std::vector<PlantedFault> all =
      joined(joined(joined(joined(joined(own, tensorFaults()), pairFaults()), registerFaults()),
                    groupFaults()),
             waveFaults());
  return all;
}

} // namespace m3c::test
