// Entry points of the kernel families: each lowers one op or fused group of m3.
#pragma once

#include "passes/kernel/StepLowering.h"

namespace m3c::kernel {

mlir::LogicalResult lowerEmbed(mlir::Operation *op, StepLowering &step);
mlir::LogicalResult lowerRopeTable(mlir::Operation *op, StepLowering &step);
mlir::LogicalResult lowerNorm(mlir::Operation *op, StepLowering &step);
mlir::LogicalResult lowerGatherRows(mlir::Operation *op, StepLowering &step);
mlir::LogicalResult lowerProject(mlir::Operation *op, StepLowering &step);
mlir::LogicalResult lowerResidualProject(mlir::Operation *op, StepLowering &step);
mlir::LogicalResult lowerGateUp(mlir::Operation *op, StepLowering &step);
mlir::LogicalResult lowerQkvInsert(mlir::Operation *op, StepLowering &step);
mlir::LogicalResult lowerIndexTopk(mlir::Operation *op, StepLowering &step);
mlir::LogicalResult lowerSparseAttention(mlir::Operation *op, StepLowering &step);
mlir::LogicalResult lowerDenseAttention(mlir::Operation *op, StepLowering &step);
mlir::LogicalResult lowerNormRoute(mlir::Operation *op, StepLowering &step);
mlir::LogicalResult lowerExpertsShared(mlir::Operation *op, StepLowering &step);

//===- Single operations that a fusion would have taken
mlir::LogicalResult lowerAdd(mlir::Operation *op, StepLowering &step);
mlir::LogicalResult lowerConvert(mlir::Operation *op, StepLowering &step);
mlir::LogicalResult lowerSwiglu(mlir::Operation *op, StepLowering &step);
mlir::LogicalResult lowerQuantize(mlir::Operation *op, StepLowering &step);
mlir::LogicalResult lowerHeadNorm(mlir::Operation *op, StepLowering &step);
mlir::LogicalResult lowerRope(mlir::Operation *op, StepLowering &step);
mlir::LogicalResult lowerCacheWrite(mlir::Operation *op, StepLowering &step);
mlir::LogicalResult lowerIndexScore(mlir::Operation *op, StepLowering &step);
mlir::LogicalResult lowerBlockTopk(mlir::Operation *op, StepLowering &step);
mlir::LogicalResult lowerRoute(mlir::Operation *op, StepLowering &step);
mlir::LogicalResult lowerExperts(mlir::Operation *op, StepLowering &step);
mlir::LogicalResult lowerSharedExpert(mlir::Operation *op, StepLowering &step);

} // namespace m3c::kernel
