// Tensor memory of a work item (PTX ISA, "Tensor Memory"): 128 lanes of 32-bit columns, what is
// known of each word, and the products that read and write it by themselves.
//
// A word is in order for whoever uses it when the store, load or product that touched it before
//   * has been waited for: by tcgen05.wait in the warp that did it, of products by the barrier that
//   a
//     tcgen05.commit arrives at;
//   * and, where another warp did it or a product, the fences stand around what lies between:
//     before_thread_sync there, after_thread_sync here.
// Products of one thread and one shape follow each other on an accumulator by themselves.
//
// Two work items of a cluster, an even one and the next, may use their tensor memory as a pair
// (.cta_group::2): they allocate and free the same columns together, and a product that the even
// one starts reads and writes both. Such products are the even one's here too.
#pragma once

#include "compiler/emulator/Cluster.h"

#include <deque>

namespace m3c::emulator {

class Cluster::TensorMemory {
public:
  static constexpr unsigned lanes = 128, unit = 32; ///< columns are given out in units

  TensorMemory(Cluster &cluster, unsigned columns);

  /// Of the work item `rank` of its cluster.
  void begin(unsigned rank);
  /// What is wrong when the last thread of the work item ends now; empty: nothing.
  Complaint leave();
  /// What is wrong when the cluster ends now.
  Complaint finish() const;
  /// Products land in the order in which they were started: `step` at random, `landSome` the next.
  void step();
  bool landSome();

  void allocate(FibreThread &thread, void *shared, unsigned count, bool pair);
  void release(FibreThread &thread, unsigned address, unsigned count, bool pair);
  void relinquish(FibreThread &thread, bool pair);

  /// One word of this lane; what is loaded is handed over by `take`, after the warp has waited.
  void load(FibreThread &thread, unsigned lane, unsigned column);
  void store(FibreThread &thread, unsigned lane, unsigned column, uint32_t value);
  void wait(FibreThread &thread, bool stores);
  void take(FibreThread &thread, uint32_t *values, unsigned count);
  void fence(FibreThread &thread, bool after);

  void multiply(FibreThread &thread, const m3emu::TensorProduct &product);
  /// `ranks`: a bit for each work item whose barrier in that place is told; 0: this one's.
  void commit(FibreThread &thread, const void *barrier, bool pair, unsigned ranks);

private:
  /// A word. Stamps count a warp's waits; 0: never.
  struct Cell {
    uint32_t value = 0;
    uint32_t written = 0;         ///< by `writer`: a stamp, or the number of a product
    uint32_t readByProduct = 0;   ///< the last one
    uint16_t writer = 0;          ///< a warp; their number: a product
    std::array<uint32_t, 8> read; ///< by the warps that reach this lane
  };
  struct WarpState {
    uint32_t stamp = 1, storesDone = 0, loadsDone = 0;
    Knowledge known; ///< at the last fence after a synchronisation
  };
  /// What a matrix instruction reads and writes, as its descriptors say.
  struct Shape {
    unsigned m = 0, n = 0;
    bool wide = false; ///< elements of 16 bits
    bool pair = false;
    bool operator==(const Shape &) const = default;
    unsigned k() const { return wide ? 16 : 32; }
    unsigned items() const { return pair ? 2 : 1; }
    /// Of the left and right operand, in one work item.
    unsigned leftRows() const { return m / items(); }
    unsigned rightRows() const { return n / items(); }
  };
  struct Operation {
    FibreThread *thread;
    bool isCommit;
    std::vector<std::pair<unsigned, uint64_t>> barriers = {}; ///< of a commit: rank, byte
    m3emu::TensorProduct product{};
    Shape shape{};
    uint32_t number = 0;
    std::vector<uint64_t> chunks = {};    ///< 16 bytes each of shared memory that it reads
    std::vector<uint64_t> a = {}, b = {}; ///< byte of each element, row by row; a empty: a word
  };
  /// What a work item of a pair has come to, while the other one has not.
  struct Request {
    FibreThread *thread = nullptr;
    const char *what = nullptr; ///< "allocates", "frees"
    unsigned count = 0, address = 0;
  };

  Cell &cell(unsigned lane, unsigned column) { return cells[size_t(column) * lanes + lane]; }
  unsigned warps() const { return unsigned(cluster.warps.size()); }
  unsigned storesOf(unsigned warp) const { return warps() + 1 + 2 * warp; }
  unsigned loadsOf(unsigned warp) const { return storesOf(warp) + 1; }
  unsigned products() { return 3 * warps() + 1 + starter().rank; }
  /// Of a warp of any work item, which its own one keeps.
  static WarpState &state(const FibreThread &thread) {
    return thread.cluster->items[thread.home->rank].tensor->states[thread.home->index];
  }
  const Knowledge &knowledgeOf(const FibreThread &thread) const {
    return thread.own ? *thread.own : thread.home->knowledge;
  }

  // Of pairs.
  /// All instructions of a kernel are of one work item, or of pairs.
  void useGroup(FibreThread &thread, bool pair);
  TensorMemory &peer() { return *cluster.items[rank ^ 1].tensor; }
  /// Whose thread starts the products that read and write here.
  TensorMemory &starter() {
    return cluster.tensorGroup == 2 ? *cluster.items[rank & ~1u].tensor : *this;
  }
  /// The tensor memories that a product of this one has to do with.
  TensorMemory &member(unsigned part) { return part ? peer() : *this; }
  /// Waits for the other work item of the pair to come to the same; true in the one that is last,
  /// which goes on for both until it calls `joined`.
  bool joinsPeer(FibreThread &thread, Request request);
  void joined();
  size_t placeFor(FibreThread &thread, unsigned count, bool pair);
  void give(size_t first, size_t count);
  void checkFree(FibreThread &thread, unsigned address, unsigned count);

  void checkPlace(FibreThread &thread, unsigned lane, unsigned column, const char *verb);
  void checkReach(FibreThread &thread, unsigned lane, unsigned column, const char *verb);
  /// The word's last writer is in order before this thread; `mine` products of this shape are.
  void checkWriter(FibreThread &thread, unsigned lane, unsigned column, const char *verb,
                   const Shape *mine);
  void checkReaders(FibreThread &thread, unsigned lane, unsigned column, const char *verb);

  Shape shapeOf(FibreThread &thread, const m3emu::TensorProduct &product) const;
  /// Lane of a row of an accumulator or a left operand, within its work item.
  static unsigned laneOfRow(const Shape &shape, unsigned row) {
    return shape.m == 64 ? row / 16 * 32 + row % 16 : row;
  }
  /// Where a sum is: which of the work items, lane, column behind the first.
  struct Place {
    unsigned part, lane, column;
  };
  static Place placeOf(const Shape &shape, unsigned row, unsigned column);
  const unsigned char *sharedOf(const FibreThread &thread, unsigned part) const {
    return thread.shared + part * thread.peerStride;
  }
  std::vector<uint64_t> sharedOperand(FibreThread &thread, uint64_t descriptor, unsigned rows,
                                      const Shape &shape, bool contiguousRows, const char *side);
  void useAccumulator(FibreThread &thread, const Operation &operation);
  void useLeft(FibreThread &thread, const Operation &operation, unsigned part);
  void useShared(FibreThread &thread, Operation &operation);
  void start(Operation operation);
  void land(Operation &operation);
  void compute(Operation &operation);
  unsigned element(const Operation &operation, const std::vector<uint64_t> &places, unsigned part,
                   unsigned row, unsigned k) const;
  /// Whether it reads or writes memory of that work item.
  bool concerns(const Operation &operation, unsigned of) const;
  void commitFails(const Operation &operation, const std::string &why);
  unsigned leftElement(const Operation &operation, unsigned row, unsigned k);

  Cluster &cluster;
  const unsigned columns;
  unsigned rank = 0;
  Request request;            ///< of this work item, which waits for its peer
  unsigned granted = 0;       ///< to it, when the peer has come
  std::vector<Cell> cells;    ///< [column][lane]
  std::vector<uint8_t> owned; ///< [unit]: 0 free, 1 the first of an allocation, 2 another one
  bool relinquished = false;
  std::vector<WarpState> states;
  std::vector<std::deque<uint32_t>> loaded;        ///< by thread: on their way into registers
  std::vector<std::pair<Shape, unsigned>> started; ///< products: shape, warp
  std::deque<Operation> underWay;
};

} // namespace m3c::emulator
