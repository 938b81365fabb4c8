// One slot of a cache page: 128 tokens of one lane (docs/plan-format.md has the layouts).
#pragma once

#include "dialects/m3/M3.h"
#include "passes/kernel/KernelBuilder.h"

namespace m3c::kernel {

/// Stores FP32 dimensions of a token, rounded as the storage says: tiles of 1x16 or of several such
/// from group `firstGroup` of 16 on. All are rounded before the first is stored. `offset` is the
/// slot's byte offset in `pool`; `values`: the slot holds values, whose NVFP4 scales are
/// interleaved in groups of four tokens.
void storeSlotGroups(KernelBuilder &kb, m3::CacheStorage storage, int64_t dims, Value pool,
                     Value offset, Value token, int64_t firstGroup, mlir::ValueRange tiles,
                     bool values);

/// Byte index of an NVFP4 scale behind the codes of a slot.
Value scaleIndex(KernelBuilder &kb, int64_t dims, Value token, Value group, bool values);

} // namespace m3c::kernel
