// Passes on the `plan` dialect.
#ifndef M3C_PASSES_PLAN_PASSES_TD
#define M3C_PASSES_PLAN_PASSES_TD

include "mlir/Pass/PassBase.td"

def PlanScheduleLaunches : Pass<"plan-schedule-launches", "::m3c::planir::BucketOp"> {
  let summary = "Orders launches by dataflow so that few arena bytes are live at once";
  let description = [{
    Derives dependencies from the accesses of launches, taps and the output, then emits launches one
    by one: of those whose dependencies are met, the one that adds the fewest live bytes (sizes are
    compared at 64 blocks), the earliest where equal. Launches that touch the cache pool keep their
    order unless both only read. Values move to the front; a tap stands right after the last
    launch that it depends on. The result is stable: running the pass again changes nothing.
  }];
  let statistics = [
    Statistic<"moved", "moved", "launches at another place than before">,
    Statistic<"peakBefore", "peak-bytes-before", "most bytes live at once before, at 64 blocks">,
    Statistic<"peakAfter", "peak-bytes-after", "most bytes live at once after, at 64 blocks">
  ];
}

def PlanAssignArena : Pass<"plan-assign-arena", "::m3c::planir::BucketOp"> {
  let summary = "Gives every buffer a place in the arena, sharing bytes between disjoint live ranges";
  let description = [{
    A buffer lives from its first write to its last read. Buffers are placed from large to small at
    the lowest place, a multiple of 64 bytes, at which they overlap no placed buffer that is live at
    the same time. Those of fixed size lie below those that grow with the count of blocks; offsets
    of the latter are affine in it, and one lies wholly before the other for every count. Buffers
    that nothing touches are erased.
  }];
  let statistics = [
    Statistic<"bytesBefore", "bytes-before", "bytes of all buffers, without the part per block">,
    Statistic<"bytesAfter", "bytes-after", "bytes of the arena, without the part per block">,
    Statistic<"perBlockBefore", "per-block-before", "bytes per block of all buffers">,
    Statistic<"perBlockAfter", "per-block-after", "bytes per block of the arena">
  ];
}

def PlanVerifyLiveRanges : Pass<"plan-verify-live-ranges", "::m3c::planir::BucketOp"> {
  let summary = "Replays the launches and checks that no buffer is overwritten while it is needed";
  let description = [{
    Walks the launches in order and remembers which buffers hold their value. A write to a buffer
    takes the value from every other buffer that shares a byte with it for some count of blocks; a
    read of a buffer without its value is an error that names both launches. Computes no live
    ranges, so it checks plan-assign-arena independently.
  }];
  let statistics = [Statistic<"reads", "reads", "reads of arena buffers that were checked">];
}

#endif
