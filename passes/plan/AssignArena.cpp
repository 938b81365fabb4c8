// plan-assign-arena: offsets in the arena by first fit, large buffers first.
#include "passes/plan/Accesses.h"
#include "passes/plan/Passes.h"

using namespace mlir;

namespace m3c {

#define GEN_PASS_DEF_PLANASSIGNARENA
#include "passes/plan/Passes.h.inc"

namespace {

constexpr int64_t alignment = 64; // bytes: a cache line, and the widest vector

int64_t alignUp(int64_t bytes) { return llvm::divideCeil(uint64_t(bytes), alignment) * alignment; }

// A buffer with its live range in positions of actions, its size rounded up, and its place.
struct Item {
  planir::BufferOp buffer;
  size_t order = 0; // in the text
  int64_t first = -1, last = -1;
  int64_t bytes = 0, perBlock = 0;
  int64_t offset = 0, scale = 0;

  int64_t end() const { return offset + bytes; }
  int64_t endScale() const { return scale + perBlock; }
  bool liveWith(const Item &other) const { return first <= other.last && other.first <= last; }
  // Wholly below `other` for every count of blocks.
  bool below(const Item &other) const { return end() <= other.offset && endScale() <= other.scale; }
};

SmallVector<Item> collectItems(planir::BucketOp bucket) {
  SmallVector<Item> items;
  llvm::DenseMap<Value, size_t> index;
  int64_t position = 0;
  for (Operation &op : bucket.getBody().front()) {
    if (auto buffer = dyn_cast<planir::BufferOp>(op)) {
      index[buffer.getResult()] = items.size();
      Item item{buffer, items.size()};
      item.bytes = alignUp(buffer.bytesWithoutBlocks(bucket.getRows()));
      item.perBlock = alignUp(buffer.getBlockBytes());
      items.push_back(item);
    }
    if (!isAction(op))
      continue;
    for (const ResourceUse &use : resourceUses(op))
      if (use.resource) {
        Item &item = items[index.lookup(use.resource)];
        item.first = item.first < 0 ? position : item.first;
        item.last = position;
      }
    ++position;
  }
  return items;
}

// Places `item` at the lowest of the ends of `conflicts` (and the base) at which it is wholly below
// or above each of them.
void place(Item &item, int64_t base, ArrayRef<const Item *> conflicts) {
  SmallVector<std::pair<int64_t, int64_t>> candidates = {{base, 0}};
  std::pair<int64_t, int64_t> top = {base, 0};
  for (const Item *other : conflicts) {
    candidates.push_back({other->end(), other->endScale()});
    top = {std::max(top.first, other->end()), std::max(top.second, other->endScale())};
  }
  candidates.push_back(top); // always fits
  llvm::sort(candidates, [](auto a, auto b) {
    return std::pair(a.second, a.first) < std::pair(b.second, b.first);
  });
  for (auto [offset, scale] : candidates) {
    item.offset = offset;
    item.scale = scale;
    if (offset >= base && llvm::all_of(conflicts, [&](const Item *other) {
          return item.below(*other) || other->below(item);
        }))
      return;
  }
}

class PlanAssignArena final : public impl::PlanAssignArenaBase<PlanAssignArena> {
  void runOnOperation() override {
    planir::BucketOp bucket = getOperation();
    SmallVector<Item> items = collectItems(bucket);
    llvm::erase_if(items, [](Item &item) {
      if (item.first >= 0)
        return false;
      item.buffer.erase();
      return true;
    });
    llvm::sort(items, [](const Item &a, const Item &b) {
      bool growsA = a.perBlock > 0, growsB = b.perBlock > 0;
      if (growsA != growsB)
        return growsB;
      return std::tie(b.perBlock, b.bytes, a.order) < std::tie(a.perBlock, a.bytes, b.order);
    });
    int64_t fixedEnd = 0, end = 0, endScale = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      Item &item = items[i];
      SmallVector<const Item *> conflicts;
      for (size_t j = 0; j < i; ++j)
        if (items[j].liveWith(item) && (items[j].perBlock > 0) == (item.perBlock > 0))
          conflicts.push_back(&items[j]);
      place(item, item.perBlock > 0 ? fixedEnd : 0, conflicts);
      fixedEnd = item.perBlock > 0 ? fixedEnd : std::max(fixedEnd, item.end());
      end = std::max(end, item.end());
      endScale = std::max(endScale, item.endScale());
      bytesBefore += item.bytes;
      perBlockBefore += item.perBlock;
    }
    write(bucket, items, end, endScale);
  }

  void write(planir::BucketOp bucket, ArrayRef<Item> items, int64_t end, int64_t endScale) {
    for (Item item : items) {
      item.buffer.setOffset(item.offset);
      item.buffer.setBlocksScale(item.scale);
    }
    bucket.setArenaBytes(end);
    bucket.setArenaBytesPerBlock(endScale);
    bytesAfter += end;
    perBlockAfter += endScale;
  }
};

} // namespace
} // namespace m3c
