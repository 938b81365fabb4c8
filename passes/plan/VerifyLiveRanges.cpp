// plan-verify-live-ranges: replays the launches over the bytes of the arena.
#include "passes/plan/Passes.h"

using namespace mlir;

namespace m3c {

#define GEN_PASS_DEF_PLANVERIFYLIVERANGES
#include "passes/plan/Passes.h.inc"

namespace {

// Which buffers hold the value last written to them, and what took it away.
class Replay {
public:
  explicit Replay(planir::BucketOp bucket) {
    for (auto buffer : bucket.getBody().front().getOps<planir::BufferOp>())
      if (buffer.getOffset())
        states[buffer.getResult()] = {planir::arenaRange(buffer, bucket.getRows())};
  }

  LogicalResult read(Operation &op, Value value) {
    auto name = value.getDefiningOp<planir::BufferOp>().getName();
    auto found = states.find(value);
    if (found == states.end())
      return op.emitOpError("reads \"") << name << "\", which has no place in the arena";
    if (found->second.holds)
      return success();
    InFlightDiagnostic error = op.emitOpError("reads \"") << name << "\" after its bytes ";
    if (!found->second.overwrittenBy)
      return error << "were never written";
    error << "were overwritten";
    error.attachNote(found->second.overwrittenBy->getLoc()) << "by this launch";
    return error;
  }

  void write(Operation &op, Value value) {
    auto found = states.find(value);
    if (found == states.end())
      return;
    for (auto &[other, state] : states)
      if (other != value && state.holds &&
          planir::overlapsForSomeBlocks(state.range, found->second.range)) {
        state.holds = false;
        state.overwrittenBy = &op;
      }
    found->second.holds = true;
  }

private:
  struct State {
    planir::ArenaRange range;
    bool holds = false;
    Operation *overwrittenBy = nullptr;
  };
  llvm::DenseMap<Value, State> states;
};

class PlanVerifyLiveRanges final : public impl::PlanVerifyLiveRangesBase<PlanVerifyLiveRanges> {
  void runOnOperation() override {
    Replay replay(getOperation());
    for (Operation &op : getOperation().getBody().front())
      if (failed(visit(replay, op)))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }

  LogicalResult visit(Replay &replay, Operation &op) {
    if (isa<planir::TapOp, planir::OutputOp>(op)) {
      ++reads;
      return replay.read(op, op.getOperand(0));
    }
    auto launch = dyn_cast<planir::LaunchOp>(op);
    if (!launch)
      return success();
    SmallVector<Value> written;
    for (auto [i, argument] : llvm::enumerate(launch.getArguments())) {
      if (!isa<planir::BufferType>(argument.getType()))
        continue;
      if (launch.writes(i))
        written.push_back(argument);
      reads += launch.reads(i);
      if (launch.reads(i) && failed(replay.read(op, argument)))
        return failure();
    }
    for (Value value : written)
      replay.write(op, value);
    // While it runs, a launch's outputs must not take the bytes of its other arguments.
    for (Value argument : launch.getArguments())
      if (isa<planir::BufferType>(argument.getType()) && failed(replay.read(op, argument)))
        return failure();
    return success();
  }
};

} // namespace
} // namespace m3c
