// The invariants of a bucket: order of writes and reads, and disjoint places in the arena.
#include "dialects/plan/Plan.h"

#include <limits>

using namespace mlir;
using namespace m3c::planir;

namespace m3c::planir {

ArenaRange arenaRange(BufferOp buffer, int64_t rows) {
  int64_t offset = *buffer.getOffset(), scale = *buffer.getBlocksScale();
  return {offset, scale, offset + buffer.bytesWithoutBlocks(rows), scale + buffer.getBlockBytes()};
}

// Narrows [low, high] to the integers x for which a + b·x < 0.
static void narrowToNegative(int64_t a, int64_t b, int64_t &low, int64_t &high) {
  if (b == 0) {
    if (a >= 0)
      high = low - 1;
  } else if (b > 0) { // x < -a / b
    high = std::min(high, llvm::divideFloorSigned(-a - 1, b));
  } else { // x > a / -b
    low = std::max(low, llvm::divideFloorSigned(a, -b) + 1);
  }
}

bool overlapsForSomeBlocks(const ArenaRange &a, const ArenaRange &b) {
  int64_t low = 1, high = std::numeric_limits<int64_t>::max();
  narrowToNegative(a.begin - b.end, a.beginScale - b.endScale, low, high);
  narrowToNegative(b.begin - a.end, b.beginScale - a.endScale, low, high);
  // An empty range overlaps nothing.
  narrowToNegative(a.begin - a.end, a.beginScale - a.endScale, low, high);
  narrowToNegative(b.begin - b.end, b.beginScale - b.endScale, low, high);
  return low <= high;
}

} // namespace m3c::planir

namespace {

// The steps (positions of ops in the bucket) at which a buffer holds something that is needed.
struct Live {
  BufferOp buffer;
  int64_t first = -1, last = -1;
};

class BucketVerifier {
public:
  explicit BucketVerifier(BucketOp bucket) : bucket(bucket) {}

  LogicalResult run() {
    for (Operation &op : bucket.getBody().front()) {
      ++step;
      if (failed(visit(op)))
        return failure();
    }
    return checkArena();
  }

private:
  LogicalResult visit(Operation &op) {
    if (auto buffer = dyn_cast<BufferOp>(op)) {
      index[buffer.getResult()] = live.size();
      live.push_back({buffer});
      return success();
    }
    if (auto launch = dyn_cast<LaunchOp>(op))
      return visitLaunch(launch);
    if (auto tap = dyn_cast<TapOp>(op)) {
      if (!launched)
        return tap.emitOpError("tap-after-launch: no launch stands before it");
      return read(op, tap.getBuffer());
    }
    if (auto output = dyn_cast<OutputOp>(op))
      return read(op, output.getLogits());
    if (!isa<WeightOp, PoolOp, BatchOp, ScalarOp>(op))
      return op.emitOpError("is not an operation of a bucket");
    return success();
  }

  LogicalResult visitLaunch(LaunchOp launch) {
    launched = true;
    for (auto [i, argument] : llvm::enumerate(launch.getArguments()))
      if (isa<BufferType>(argument.getType()) && launch.reads(i) && failed(read(*launch, argument)))
        return failure();
    for (auto [i, argument] : llvm::enumerate(launch.getArguments()))
      if (isa<BufferType>(argument.getType()) && launch.writes(i))
        write(argument);
    return success();
  }

  LogicalResult read(Operation &op, Value value) {
    Live &range = live[index.lookup(value)];
    if (range.first < 0)
      return op.emitOpError("written-before-read: nothing wrote \"")
             << range.buffer.getName() << "\" before this";
    range.last = step;
    return success();
  }

  void write(Value value) {
    Live &range = live[index.lookup(value)];
    if (range.first < 0)
      range.first = step;
    range.last = step;
  }

  LogicalResult checkArena() {
    if (!bucket.getArenaBytes())
      return success();
    ArenaRange arena{0, 0, *bucket.getArenaBytes(), *bucket.getArenaBytesPerBlock()};
    for (Live &a : live) {
      if (!a.buffer.getOffset())
        return a.buffer.emitOpError("arena-disjoint: has no offset, but the bucket has an arena");
      ArenaRange range = arenaRange(a.buffer, bucket.getRows());
      // Inside for one block and growing no faster than the arena: inside for any count.
      if (range.endScale > arena.endScale ||
          range.end + range.endScale > arena.end + arena.endScale)
        return a.buffer.emitOpError("arena-disjoint: \"")
               << a.buffer.getName() << "\" ends outside the arena";
      for (Live &b : live)
        if (&b != &a && b.first >= 0 && a.first >= 0 && a.first <= b.last && b.first <= a.last &&
            overlapsForSomeBlocks(range, arenaRange(b.buffer, bucket.getRows())))
          return a.buffer.emitOpError("arena-disjoint: \"")
                 << a.buffer.getName() << "\" and \"" << b.buffer.getName()
                 << "\" are live together and overlap";
    }
    return success();
  }

  BucketOp bucket;
  SmallVector<Live> live;
  llvm::DenseMap<Value, size_t> index;
  int64_t step = -1;
  bool launched = false;
};

} // namespace

LogicalResult BucketOp::verifyRegions() {
  Block &block = getBody().front();
  if (block.empty() || !isa<OutputOp>(block.back()))
    return emitOpError("ends with plan.output");
  return BucketVerifier(*this).run();
}
