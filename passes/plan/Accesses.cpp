#include "passes/plan/Accesses.h"

using namespace mlir;

namespace m3c {

bool isAction(Operation &op) { return isa<planir::LaunchOp, planir::TapOp, planir::OutputOp>(op); }

static void addUse(SmallVector<ResourceUse> &uses, Value resource, bool reads, bool writes) {
  for (ResourceUse &use : uses)
    if (use.resource == resource) {
      use.reads |= reads;
      use.writes |= writes;
      return;
    }
  uses.push_back({resource, reads, writes});
}

SmallVector<ResourceUse> resourceUses(Operation &action) {
  SmallVector<ResourceUse> uses;
  if (auto launch = dyn_cast<planir::LaunchOp>(action)) {
    for (auto [i, argument] : llvm::enumerate(launch.getArguments())) {
      if (isa<planir::BufferType>(argument.getType()))
        addUse(uses, argument, launch.reads(i), launch.writes(i));
      else if (argument.getDefiningOp<planir::PoolOp>())
        addUse(uses, Value(), launch.reads(i), launch.writes(i));
    }
  } else {
    for (Value operand : action.getOperands())
      addUse(uses, operand, true, false);
  }
  return uses;
}

int64_t nominalBytes(planir::BufferOp buffer, int64_t rows) {
  return buffer.bytesWithoutBlocks(rows) + nominalBlocks * buffer.getBlockBytes();
}

int64_t peakLiveBytes(planir::BucketOp bucket) {
  llvm::DenseMap<Value, Operation *> lastUse;
  for (Operation &op : bucket.getBody().front())
    if (isAction(op))
      for (const ResourceUse &use : resourceUses(op))
        if (use.resource)
          lastUse[use.resource] = &op;
  llvm::DenseSet<Value> live;
  int64_t bytes = 0, peak = 0;
  auto size = [&](Value value) {
    return nominalBytes(value.getDefiningOp<planir::BufferOp>(), bucket.getRows());
  };
  for (Operation &op : bucket.getBody().front()) {
    if (!isAction(op))
      continue;
    SmallVector<ResourceUse> uses = resourceUses(op);
    for (const ResourceUse &use : uses)
      if (use.resource && live.insert(use.resource).second)
        bytes += size(use.resource);
    peak = std::max(peak, bytes);
    for (const ResourceUse &use : uses)
      if (use.resource && lastUse[use.resource] == &op)
        bytes -= size(use.resource);
  }
  return peak;
}

} // namespace m3c
