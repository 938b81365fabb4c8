// The work plan (passes/targets/common/WorkPlan.h) as arithmetic of a kernel.
#pragma once

#include "passes/kernel/KernelBuilder.h"

namespace m3c::kernel {

/// Tiles begin … end − 1 of a request.
struct EmittedShare {
  Value begin, end;
};

/// shareOf(count, parts, part); all are indices, parts at least 1.
EmittedShare emitShare(KernelBuilder &kb, Value count, Value parts, Value part);

/// stretchOf(count, parts, part) and partOf(count, parts, tile), of parts that all have tiles.
EmittedShare emitStretch(KernelBuilder &kb, Value count, Value parts, Value part);
Value emitPartOf(KernelBuilder &kb, Value count, Value parts, Value tile);

/// flatParts(most, requests, alike), of at least one request.
Value emitFlatParts(KernelBuilder &kb, int64_t most, Value requests, Value alike);

/// How many of `parts` have tiles: min(count, parts).
Value emitUsedParts(KernelBuilder &kb, Value count, Value parts);

/// planWork: the number of the share that `part` has of a request, where `first` is the part that
/// has its first one; and that of the next request, after one with `count` tiles.
Value emitShareNumber(KernelBuilder &kb, Value parts, Value part, Value first);
Value emitNextFirst(KernelBuilder &kb, Value parts, Value first, Value count);

} // namespace m3c::kernel
