// Pieces that several families share.
#pragma once

#include "passes/kernel/StepLowering.h"

namespace m3c::kernel {

//===- Parameter types
/// counts: [4] of i32 (rows, sequences, logit rows, page-table row length).
tile::ViewType countsType(mlir::MLIRContext *context);
/// A list of 32-bit integers.
tile::ViewType listType(mlir::MLIRContext *context);
/// [rows, width], of f32 unless an element type is given.
tile::ViewType rowsType(mlir::MLIRContext *context, int64_t width, Type element = {});
/// Rows of an m3 tensor as they are stored.
tile::ViewType rowsType(Value tensor);
/// [width] of f32.
tile::ViewType vectorType(mlir::MLIRContext *context, int64_t width);
/// Untyped bytes: the cache pool.
tile::ViewType bytesType(mlir::MLIRContext *context);

/// Last dimension of a tensor.
int64_t widthOf(Value tensor);

/// Calls `body` for every column chunk of a row; the last chunk may be narrower.
void eachChunk(KernelBuilder &kb, int64_t width, int64_t chunk,
               llvm::function_ref<void(Value col, int64_t cols)> body);
/// The same, each chunk by one of the warps that share the row.
void eachChunkByWarp(KernelBuilder &kb, int64_t width, int64_t chunk,
                     llvm::function_ref<void(Value col, int64_t cols)> body);

/// How kernels that work row by row go through `width` columns: chunk (columns at once) and warps
/// that share a row; without choices 16 and one. `handedBits`: of an element of what is handed on.
Schedule rowSchedule(StepLowering &step, int64_t width, int64_t handedBits);
Schedule rowSchedule(StepLowering &step, int64_t width, Type element);
/// Bits of an element that an operation hands on: the fewest of its results'. Where they are 32,
/// targets keep the order of additions of the CPU's kernels.
int64_t handedBits(mlir::Operation *op);
int64_t chunkOf(const Schedule &rowSchedule);

/// 1 / √(Σ v² / width + eps), the factor of an RMS norm.
Value normScale(KernelBuilder &kb, Value squareSum, int64_t width, double eps);
/// y[yRow] = Gemma RMS norm of x[xRow]: x · rsqrt(mean(x²) + eps) · (1 + w). Views of f32 or BF16
/// codes, `y` perhaps split (storeRow).
void emitNormRow(KernelBuilder &kb, Value x, Value xRow, Value weight, Value y, Value yRow,
                 int64_t width, double eps);
/// The same by all warps of the work item, `chunk` columns at once, in registers: the squares of
/// each warp are summed first, then the warps in their order. Chunks and warps divide the width
/// evenly.
void emitNormRowByWarps(KernelBuilder &kb, Value x, Value xRow, Value weight, Value y, Value yRow,
                        int64_t width, double eps, int64_t chunk);

/// Rotates dimensions of the first and the second half of the rotated ones by their cosines and
/// sines, tiles of equal columns.
std::pair<Value, Value> emitRotated(KernelBuilder &kb, Value first, Value second, Value cos,
                                    Value sin);
/// Rotates the first dimensions of a head in place (NeoX half split): `head[row]` by the cosines
/// and sines of `table[tableRow]`, which holds rotary/2 of each. All are f32.
void emitRotate(KernelBuilder &kb, Value head, Value row, Value table, Value tableRow,
                int64_t rotary);

/// Clamped SwiGLU of two tiles of the same shape (docs/model.md).
Value emitSwiglu(KernelBuilder &kb, Value gate, Value up, double alpha, double limit);

/// z of gate and up panels: acc holds pairs of [gate panel, up panel], or with `apart` all gate
/// panels, then all up panels (`Product::pairs`); `store` gets outputs from that one of the acc on.
/// The global scales are null where the encoding has none.
void emitPairedSwiglu(KernelBuilder &kb, Value acc, bool apart, Value gateScale, Value upScale,
                      double alpha, double limit,
                      llvm::function_ref<void(Value z, int64_t output)> store);

/// The operand of `fused` behind an argument of its body.
Value outerValue(m3::FusedOp fused, Value inner);

} // namespace m3c::kernel
