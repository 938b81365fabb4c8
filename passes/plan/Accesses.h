// What the operations of a bucket read and write, as the passes need it.
#pragma once

#include "dialects/plan/Plan.h"

namespace m3c {

/// Sizes that depend on the count of blocks are compared at this one.
inline constexpr int64_t nominalBlocks = 64;

/// One use of a resource by a launch, tap or output. The resource is the buffer's value, or for the
/// cache pool the null value.
struct ResourceUse {
  mlir::Value resource;
  bool reads = false, writes = false;
};

/// True for operations that do something at a point in time: launches, taps, the output.
bool isAction(mlir::Operation &op);

/// The arena buffers and the pool that `action` uses, each once. Weights and batch arrays never
/// change during a step and are left out.
llvm::SmallVector<ResourceUse> resourceUses(mlir::Operation &action);

/// Bytes of a buffer at `nominalBlocks`.
int64_t nominalBytes(planir::BufferOp buffer, int64_t rows);

/// The most bytes of `bucket` that are live at once, at `nominalBlocks`.
int64_t peakLiveBytes(planir::BucketOp bucket);

} // namespace m3c
