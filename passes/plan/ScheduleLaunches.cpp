// plan-schedule-launches: dataflow order with few live bytes.
#include "passes/plan/Accesses.h"
#include "passes/plan/Passes.h"

using namespace mlir;

namespace m3c {

#define GEN_PASS_DEF_PLANSCHEDULELAUNCHES
#include "passes/plan/Passes.h.inc"

namespace {

struct Node {
  Operation *op;
  SmallVector<ResourceUse> uses;
  SmallVector<unsigned> successors;
  unsigned waitsFor = 0; // predecessors not yet emitted
};

class Scheduler {
public:
  explicit Scheduler(planir::BucketOp bucket) : rows(bucket.getRows()) {
    for (Operation &op : bucket.getBody().front())
      if (isAction(op))
        nodes.push_back({&op, resourceUses(op), {}, 0});
    connect();
  }

  /// Indices of the actions in their new order.
  SmallVector<unsigned> run() {
    SmallVector<unsigned> order;
    llvm::SmallVector<unsigned> ready;
    for (unsigned i = 0; i < nodes.size(); ++i)
      if (nodes[i].waitsFor == 0)
        ready.push_back(i);
    while (!ready.empty()) {
      auto best = ready.begin();
      for (auto it = ready.begin(); it != ready.end(); ++it)
        if (before(*it, *best))
          best = it;
      unsigned chosen = *best;
      ready.erase(best);
      order.push_back(chosen);
      retire(chosen);
      for (unsigned next : nodes[chosen].successors)
        if (--nodes[next].waitsFor == 0)
          ready.push_back(next);
    }
    return order;
  }

private:
  // An edge for every pair of uses of one resource of which at least one writes, reduced to the
  // last writer and the readers since.
  void connect() {
    struct State {
      int writer = -1;
      SmallVector<unsigned> readers;
    };
    llvm::DenseMap<Value, State> states;
    for (unsigned i = 0; i < nodes.size(); ++i)
      for (const ResourceUse &use : nodes[i].uses) {
        State &state = states[use.resource];
        if (state.writer >= 0)
          addEdge(state.writer, i);
        if (use.writes) {
          for (unsigned reader : state.readers)
            addEdge(reader, i);
          state = {int(i), {}};
        } else {
          state.readers.push_back(i);
        }
        if (use.resource)
          ++usesLeft[use.resource];
      }
    // The output ends the bucket.
    for (unsigned i = 0; i + 1 < nodes.size(); ++i)
      addEdge(i, nodes.size() - 1);
  }

  void addEdge(unsigned from, unsigned to) {
    if (from == to || llvm::is_contained(nodes[from].successors, to))
      return;
    nodes[from].successors.push_back(to);
    ++nodes[to].waitsFor;
  }

  // Bytes that become live less bytes that die when node `i` runs next.
  int64_t liveGrowth(unsigned i) const {
    int64_t bytes = 0;
    for (const ResourceUse &use : nodes[i].uses) {
      if (!use.resource)
        continue;
      int64_t size = nominalBytes(use.resource.getDefiningOp<planir::BufferOp>(), rows);
      if (!live.contains(use.resource))
        bytes += size;
      if (usesLeft.lookup(use.resource) == 1)
        bytes -= size;
    }
    return bytes;
  }

  bool before(unsigned a, unsigned b) const {
    bool tapA = isa<planir::TapOp>(nodes[a].op), tapB = isa<planir::TapOp>(nodes[b].op);
    if (tapA != tapB)
      return tapA;
    int64_t growthA = liveGrowth(a), growthB = liveGrowth(b);
    return growthA != growthB ? growthA < growthB : a < b;
  }

  void retire(unsigned i) {
    for (const ResourceUse &use : nodes[i].uses)
      if (use.resource) {
        live.insert(use.resource);
        --usesLeft[use.resource];
      }
  }

  int64_t rows;
  SmallVector<Node> nodes;
  llvm::DenseMap<Value, unsigned> usesLeft;
  llvm::DenseSet<Value> live;
};

class PlanScheduleLaunches final : public impl::PlanScheduleLaunchesBase<PlanScheduleLaunches> {
  void runOnOperation() override {
    planir::BucketOp bucket = getOperation();
    peakBefore.updateMax(peakLiveBytes(bucket));
    SmallVector<Operation *> actions;
    for (Operation &op : bucket.getBody().front())
      if (isAction(op))
        actions.push_back(&op);
    SmallVector<unsigned> order = Scheduler(bucket).run();
    for (auto [place, index] : llvm::enumerate(order)) {
      moved += place != index && isa<planir::LaunchOp>(actions[index]);
      actions[index]->moveBefore(&bucket.getBody().front(), bucket.getBody().front().end());
    }
    peakAfter.updateMax(peakLiveBytes(bucket));
  }
};

} // namespace
} // namespace m3c
