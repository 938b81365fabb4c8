#pragma once

#include "passes/kernel/StepLowering.h"

namespace m3c::kernel {

/// Whether an operation is a group "qkv_rope_insert" all of whose products multiply FP32 rows in
/// two parts: its rows are best made so (SplitRows.h).
bool readsSplitRows(mlir::Operation *op, StepLowering &step);

} // namespace m3c::kernel
