// What an emulated kernel sees of the emulator: the thread that runs, and what it can ask for. Read
// with kernels' texts and with the emulator itself, so it includes nothing.
//
// Every GPU thread is a fibre. A thread runs until an instruction that the threads of its warp do
// together (`meet`), a barrier or a wait; what an instruction computes stands in the function of
// the atom (passes/targets/*/emulated).
#pragma once

namespace m3emu {

inline constexpr unsigned long pageBytes = 4096;
/// Of global memory, about which the emulator knows whether a launch has written to it.
inline constexpr unsigned long lineBytes = 64;
inline constexpr int mostLanes = 64;

struct Dim {
  unsigned x, y, z;
};

struct Thread;

/// A matrix instruction on tensor memory, K = 32 bytes of each row. Addresses of tensor memory:
/// lane in the high half, column in the low one; `a`, `b`: descriptors of shared memory.
struct TensorProduct {
  unsigned d;
  bool aInTensor;
  unsigned aWord; ///< its address, if it is
  unsigned long a, b;
  unsigned instruction; ///< descriptor
  bool accumulate;
  bool wide; ///< elements of 16 bits, else of 8
  bool pair; ///< of two work items of a cluster: each has half of the rows of A, B and the result
  /// c + Σ a[k] b[k] of codes.
  float (*sum)(const unsigned short *a, const unsigned short *b, float c);
};

/// A product of four warps with a right operand in shared memory, K = 16 elements of 16 bits: the
/// part of one warp.
struct GroupProduct {
  unsigned n;                   ///< columns
  unsigned long b;              ///< descriptor of the right operand
  const unsigned *a[mostLanes]; ///< of each lane four registers
  float *sums[mostLanes];       ///< of each lane n / 2
  /// c + Σ a[k] b[k] of codes.
  float (*sum)(const unsigned short *a, const unsigned short *b, float c);
};

/// What the emulator does. Shared memory is named by its address in the CPU's memory.
struct Calls {
  /// Returns when the lanes of `mask` are all here; the last one to come runs `all` first.
  /// `orders`: memory accesses before it come before those after it.
  void (*meet)(Thread *, const char *what, unsigned long mask, void (*all)(void *const *slots),
               bool orders);
  /// Bytes of shared memory are read or written by ordinary instructions of this thread.
  void (*readShared)(Thread *, unsigned long offset, unsigned bytes);
  void (*writeShared)(Thread *, unsigned long offset, unsigned bytes);
  /// Any other address: throws out of the launch unless a buffer has all the bytes.
  void (*checkGlobal)(Thread *, const void *, unsigned bytes, bool writes);
  void (*fail)(Thread *, const char *what);

  /// Barrier `id` of the work item, for `threads` threads (0: all). `waits` false: arrives only.
  void (*barrier)(Thread *, unsigned id, unsigned threads, bool waits);
  /// Barrier 0 of all threads; true where any of them says so.
  bool (*barrierOr)(Thread *, bool holds);
  /// All threads of the cluster.
  void (*clusterBarrier)(Thread *);
  /// Its halves for threads that only tell that they have come.
  void (*arriveAtCluster)(Thread *);
  void (*awaitCluster)(Thread *);

  // Barriers in shared memory that count arrivals and bytes ("mbarrier").
  void (*initBarrier)(Thread *, void *barrier, unsigned arrivals);
  /// Those that this thread has initialised are known to copies, products and other work items.
  void (*fenceBarriers)(Thread *);
  /// Expects `bytes` more of the current phase, then arrives `arrivals` times.
  void (*arrive)(Thread *, void *barrier, unsigned arrivals, unsigned bytes);
  /// Once at the barrier in the same place of another work item of the cluster.
  void (*arriveAtPeer)(Thread *, void *barrier, unsigned rank);
  /// Returns when the phase of that parity is over.
  void (*waitBarrier)(Thread *, void *barrier, unsigned parity);
  bool (*testBarrier)(Thread *, void *barrier, unsigned parity);

  // Counters in shared memory, of 32 bits, that only grow.
  void (*startCounter)(Thread *, void *counter);
  /// Whoever sees the sum sees what this thread did before.
  void (*raise)(Thread *, void *counter, unsigned by);
  /// Returns when the counter is `least` or more.
  void (*awaitCounter)(Thread *, void *counter, unsigned least);

  /// What launches before have written may be read from here on.
  void (*awaitLaunch)(Thread *);
  /// This thread tells other work items, by what it does next, that its own has stored its part.
  void (*countIn)(Thread *);

  // Copies that land later. Each thread has groups of its own.
  /// `given` of `bytes` bytes come from memory, the others are zero.
  void (*copyAsync)(Thread *, void *shared, const void *global, unsigned bytes, unsigned given);
  void (*commitCopies)(Thread *);
  /// All but the latest `most` groups have landed.
  void (*waitCopies)(Thread *, unsigned most);
  /// Arrives at the barrier when all copies of this thread so far have landed. `counted` false: the
  /// arrival is one more than the barrier was initialised for.
  void (*arriveAfterCopies)(Thread *, void *barrier, bool counted);
  /// By the asynchronous proxy; counts its bytes at the barrier.
  void (*copyBulk)(Thread *, void *shared, const void *global, unsigned bytes, void *barrier);
  /// From shared to global memory, in groups (`commitBulk`, `waitBulk`).
  void (*storeBulk)(Thread *, void *global, const void *shared, unsigned bytes);
  void (*commitBulk)(Thread *);
  void (*waitBulk)(Thread *, unsigned most, bool readsOnly);
  /// Ordinary writes before it are seen by the asynchronous proxy after it.
  void (*fenceProxy)(Thread *);
  /// The asynchronous proxy reads shared memory now.
  void (*readSharedAsync)(Thread *, unsigned long offset, unsigned bytes);

  // Tensor memory. One call of a warp: allocate, free, relinquish, wait. `pair`: of two work items
  // of a cluster, an even one and the next, which allocate and free together.
  void (*tensorAllocate)(Thread *, void *shared, unsigned columns, bool pair);
  void (*tensorFree)(Thread *, unsigned address, unsigned columns, bool pair);
  void (*tensorRelinquish)(Thread *, bool pair);
  /// One word of each lane; loaded ones come with `tensorTake` once the warp has waited.
  void (*tensorLoad)(Thread *, unsigned lane, unsigned column);
  void (*tensorStore)(Thread *, unsigned lane, unsigned column, unsigned value);
  void (*tensorWait)(Thread *, bool stores);
  void (*tensorTake)(Thread *, unsigned *values, unsigned count);
  /// Before or after what synchronises threads.
  void (*tensorFence)(Thread *, bool after);
  void (*tensorMultiply)(Thread *, const TensorProduct &);
  /// At the barriers in that place of the work items `ranks`, a bit each; 0: of this one.
  void (*tensorCommit)(Thread *, void *barrier, bool pair, unsigned ranks);

  // Products of four warps ("wgmma"). One call of a warp each.
  void (*groupFence)(Thread *);
  void (*groupMultiply)(Thread *, const GroupProduct &);
  void (*groupCommit)(Thread *);
  /// All groups but the latest `most` have ended; where these are none, `count` sums of each lane
  /// are handed over.
  void (*groupWait)(Thread *, unsigned most, float *const *sums, unsigned count);

  /// All threads of `together` warps that follow each other have `count` registers from here on;
  /// waits until as many are free. `what` names the instruction.
  void (*setRegisters)(Thread *, const char *what, unsigned count, unsigned together,
                       bool increases);
};

/// The part of a thread that kernels read. What changes hands at every switch comes last.
struct Thread {
  unsigned long (*words)[mostLanes]; ///< [2]: what lanes of this warp show each other
  void **slots;                      ///< [lanes]: their operands
  const Calls *calls;
  unsigned char *shared;
  unsigned long sharedBytes;
  unsigned long memory, pages;    ///< first address of global memory, and its size
  const unsigned char *pageState; ///< wholePage where a buffer has every byte
  const unsigned char *written;   ///< of lines: wholePage where some launch has written to it
  Dim index, block, blockSize, gridSize;
  unsigned rank;            ///< of the work item in its cluster
  unsigned long peerStride; ///< from the shared memory of one rank to that of the next
  unsigned lane, warp, lanes;
  unsigned turn;         ///< which of the two rows of `words` is next
  unsigned char *stored; ///< 1: the warp has written to global memory
};

/// Where the segment register GS points in a thread of the CPU that emulates.
struct Current {
  /// LLVM takes what is read at GS:0 for the address of GS:0 itself.
  unsigned long unused;
  Thread *thread; ///< the fibre that runs
  /// That fibres have executed (compiler/emulator/CountInstructions.h).
  unsigned long instructions;
};
inline constexpr unsigned char wholePage = 1;

#if defined(M3_EMULATED_TEXT)

#define M3EMU_INLINE inline __attribute__((always_inline))
/// For arithmetic that kernels have many times: they compile sooner. Calls of the emulator must be
/// inlined into the kernel's text, which reports name.
#define M3EMU_APART inline __attribute__((noinline))

/// The thread that runs.
M3EMU_INLINE Thread *self() {
  return (*(const Current __attribute__((address_space(256))) *)0).thread; // 256: GS
}

M3EMU_INLINE bool isShared(const Thread *t, const void *p) {
  return (unsigned long)p - (unsigned long)t->shared < t->sharedBytes;
}

template <bool writes> M3EMU_INLINE void access(const void *p, unsigned bytes) {
  Thread *t = self();
  const unsigned long offset = (unsigned long)p - (unsigned long)t->shared;
  if (offset < t->sharedBytes) {
    (writes ? t->calls->writeShared : t->calls->readShared)(t, offset, bytes);
    return;
  }
  if (writes)
    *t->stored = 1;
  const unsigned long at = (unsigned long)p - t->memory;
  // An aligned access lies in one page.
  if (__builtin_expect(at >= t->pages * pageBytes || at % bytes ||
                           (writes ? t->written[at / lineBytes] : t->pageState[at / pageBytes]) !=
                               wholePage,
                       false))
    t->calls->checkGlobal(t, p, bytes, writes);
}
M3EMU_INLINE void reading(const void *p, unsigned bytes) { access<false>(p, bytes); }
M3EMU_INLINE void writing(const void *p, unsigned bytes) { access<true>(p, bytes); }

/// An atomic operation, of global memory alone.
M3EMU_INLINE void updating(const void *p, unsigned bytes) {
  Thread *t = self();
  if (isShared(t, p))
    t->calls->fail(t, "an atomic operation of shared memory is not emulated");
  writing(p, bytes);
}

/// An instruction that the lanes of a warp do together: `all` gets every lane's operands.
template <class T, void (*all)(T *const *lanes)>
M3EMU_INLINE void together(const char *what, T &mine) {
  Thread *t = self();
  t->slots[t->lane] = &mine;
  t->calls->meet(t, what, ~0ul, [](void *const *slots) { all((T *const *)slots); }, false);
}

/// The value that lane `from(lane)` shows.
template <class T> M3EMU_INLINE T fromLane(const char *what, T value, unsigned from) {
  static_assert(sizeof(T) <= 8);
  Thread *t = self();
  const unsigned turn = t->turn;
  t->turn = turn ^ 1;
  __builtin_memcpy(&t->words[turn][t->lane], &value, sizeof value);
  t->calls->meet(t, what, ~0ul, nullptr, false);
  __builtin_memcpy(&value, &t->words[turn][from % t->lanes], sizeof value);
  return value;
}

/// Values of all lanes, in the order of lanes.
template <class F> M3EMU_INLINE void fromLanes(const char *what, unsigned long value, F each) {
  Thread *t = self();
  const unsigned turn = t->turn;
  t->turn = turn ^ 1;
  t->words[turn][t->lane] = value;
  t->calls->meet(t, what, ~0ul, nullptr, false);
  for (unsigned lane = 0; lane < t->lanes; ++lane)
    each(lane, t->words[turn][lane]);
}

template <class T, T... i> struct Numbers {};
template <class... P, unsigned long... i>
M3EMU_INLINE void callWith(void (*kernel)(P...), const unsigned long *values,
                           Numbers<unsigned long, i...>) {
  kernel((P)values[i]...);
}
/// Calls a kernel with its 64-bit parameters.
template <class... P> M3EMU_INLINE void call(void (*kernel)(P...), const unsigned long *values) {
  callWith(kernel, values, __make_integer_seq<Numbers, unsigned long, sizeof...(P)>());
}
/// How many it has.
template <class... P> constexpr unsigned parametersOf(void (*)(P...)) { return sizeof...(P); }

#endif

} // namespace m3emu
