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
#pragma once

#include "compiler/emulator/Cluster.h"

#include <deque>

namespace m3c::emulator {

class Cluster::TensorMemory {
public:
  static constexpr unsigned lanes = 128, unit = 32; ///< columns are given out in units

  TensorMemory(Cluster &cluster, unsigned columns);

  void begin();
  /// What is wrong when the work item ends now; empty: nothing.
  Complaint finish() const;
  /// Products land in the order in which they were started: `step` at random, `landSome` the next.
  void step();
  bool landSome();

  void allocate(FibreThread &thread, void *shared, unsigned count);
  void release(FibreThread &thread, unsigned address, unsigned count);
  void relinquish(FibreThread &thread);

  /// One word of this lane; what is loaded is handed over by `take`, after the warp has waited.
  void load(FibreThread &thread, unsigned lane, unsigned column);
  void store(FibreThread &thread, unsigned lane, unsigned column, uint32_t value);
  void wait(FibreThread &thread, bool stores);
  void take(FibreThread &thread, uint32_t *values, unsigned count);
  void fence(FibreThread &thread, bool after);

  void multiply(FibreThread &thread, const m3emu::TensorProduct &product);
  void commit(FibreThread &thread, const void *barrier);

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
    bool operator==(const Shape &) const = default;
    unsigned k() const { return wide ? 16 : 32; }
  };
  struct Operation {
    FibreThread *thread;
    bool isCommit;
    uint64_t barrier = 0;
    m3emu::TensorProduct product{};
    Shape shape{};
    uint32_t number = 0;
    std::vector<uint64_t> chunks = {};    ///< 16 bytes each of shared memory that it reads
    std::vector<uint64_t> a = {}, b = {}; ///< byte of each element, row by row; a empty: a word
  };

  Cell &cell(unsigned lane, unsigned column) { return cells[size_t(column) * lanes + lane]; }
  unsigned warps() const { return unsigned(cluster.warps.size()); }
  unsigned storesOf(unsigned warp) const { return warps() + 1 + 2 * warp; }
  unsigned loadsOf(unsigned warp) const { return storesOf(warp) + 1; }
  unsigned products() const { return 3 * warps() + 1; }
  WarpState &state(const FibreThread &thread) { return states[thread.home->index]; }
  const Knowledge &knowledgeOf(const FibreThread &thread) const {
    return thread.own ? *thread.own : thread.home->knowledge;
  }

  void checkPlace(FibreThread &thread, unsigned lane, unsigned column, const char *verb);
  void checkReach(FibreThread &thread, unsigned lane, unsigned column, const char *verb);
  /// The word's last writer is in order before this thread; `mine` products of this shape are.
  void checkWriter(FibreThread &thread, unsigned lane, unsigned column, const char *verb,
                   const Shape *mine);
  void checkReaders(FibreThread &thread, unsigned lane, unsigned column, const char *verb);

  Shape shapeOf(FibreThread &thread, const m3emu::TensorProduct &product) const;
  /// Lane and column of the words of an accumulator or a left operand.
  static unsigned laneOfRow(const Shape &shape, unsigned row) {
    return shape.m == 64 ? row / 16 * 32 + row % 16 : row;
  }
  std::vector<uint64_t> sharedOperand(FibreThread &thread, uint64_t descriptor, unsigned rows,
                                      const Shape &shape, bool contiguousRows, const char *side);
  void useAccumulator(FibreThread &thread, const Operation &operation);
  void useLeft(FibreThread &thread, const Operation &operation);
  void useShared(FibreThread &thread, Operation &operation);
  void start(Operation operation);
  void land(Operation &operation);
  void compute(Operation &operation);
  unsigned element(const Operation &operation, const std::vector<uint64_t> &places, unsigned row,
                   unsigned k) const;
  unsigned leftElement(const Operation &operation, unsigned row, unsigned k);

  Cluster &cluster;
  const unsigned columns;
  std::vector<Cell> cells;    ///< [column][lane]
  std::vector<uint8_t> owned; ///< [unit]: 0 free, 1 the first of an allocation, 2 another one
  bool relinquished = false;
  std::vector<WarpState> states;
  std::vector<std::deque<uint32_t>> loaded;        ///< by thread: on their way into registers
  std::vector<std::pair<Shape, unsigned>> started; ///< products: shape, warp
  std::deque<Operation> underWay;
};

} // namespace m3c::emulator
