// Builds the body of a `tile.kernel` tersely. Kernel families use it; it adds no decisions of its
// own.
#pragma once

#include "dialects/tile/Tile.h"
#include "passes/targets/common/Target.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace m3c::kernel {

using mlir::Type;
using mlir::Value;
using Values = llvm::SmallVector<Value>;

/// Who runs a role of `tile.roles`.
struct RoleThreads {
  int64_t warps;
  int64_t registers = 0; ///< of each thread; 0: those that the work item begins with
};

class KernelBuilder {
public:
  /// Opens a kernel at the end of `module`. `parameters` are view types or `index`.
  KernelBuilder(mlir::ModuleOp module, llvm::StringRef name, llvm::StringRef family,
                const Schedule &schedule, llvm::ArrayRef<Type> parameters);

  tile::KernelOp kernel() const { return op; }
  Value parameter(unsigned i) { return op.getBody().getArgument(i); }
  /// Ends the kernel.
  tile::KernelOp finish();

  mlir::ImplicitLocOpBuilder &builder() { return b; }

  //===- Types
  Type f32Type() { return b.getF32Type(); }
  Type i32Type() { return b.getI32Type(); }
  Type byteType() { return b.getI8Type(); }
  tile::TileType tile(int64_t rows, int64_t cols, Type element);
  tile::TileType tile(int64_t rows, int64_t cols) { return tile(rows, cols, f32Type()); }
  tile::TileType fragment(int64_t rows, int64_t cols, Type element, tile::Layout layout);
  tile::ViewType view(llvm::ArrayRef<int64_t> shape, Type element,
                      tile::Space space = tile::Space::Global);

  //===- Index and scalar arithmetic; constants are folded
  Value index(int64_t value);
  Value f32(double value);
  Value i32(int64_t value);
  Value add(Value a, Value b);
  Value sub(Value a, Value b);
  Value mul(Value a, Value b);
  Value mul(Value a, int64_t b) { return mul(a, index(b)); }
  Value add(Value a, int64_t b) { return add(a, index(b)); }
  Value div(Value a, int64_t b);
  Value rem(Value a, int64_t b);
  Value min(Value a, Value b);
  Value max(Value a, Value b);
  Value less(Value a, Value b);
  Value equal(Value a, Value b);
  Value atLeast(Value a, Value b);
  /// Conditions, in scalar regions too.
  Value both(Value a, Value b);
  Value either(Value a, Value b);
  /// An index as i32, for scalar regions.
  Value toI32(Value index);
  Value toIndex(Value number);
  /// ⌈a / b⌉ for non-negative a.
  Value ceilDiv(Value a, int64_t b) { return div(add(a, b - 1), b); }

  //===- Control flow
  void forLoop(Value lower, Value upper, int64_t step, llvm::function_ref<void(Value)> body,
               bool unroll = false);
  Values forLoop(Value lower, Value upper, int64_t step, mlir::ValueRange init,
                 llvm::function_ref<Values(Value, mlir::ValueRange)> body, bool unroll = false);
  void when(Value condition, llvm::function_ref<void()> then,
            llvm::function_ref<void()> otherwise = {});
  Values choose(Value condition, llvm::function_ref<Values()> then,
                llvm::function_ref<Values()> otherwise);
  void pipeline(Value lower, Value upper, int64_t step, llvm::function_ref<void(Value)> roles);
  void role(llvm::StringRef name, llvm::function_ref<void()> body);
  /// Roles beside each other: `bodies` makes them with the `role` below.
  void roles(llvm::function_ref<void()> bodies);
  void role(llvm::StringRef name, RoleThreads threads, llvm::function_ref<void()> body);

  //===- Warps of a work item
  /// As many warps as the schedule asks for, where it asks.
  void useWarps(const Schedule &schedule);
  int64_t warps() { return int64_t(op.getWarps().value_or(1)); }
  Value warpId();
  /// `whole`: of all warps of the work item, also within a role.
  void barrier(bool whole = false);
  /// Iterations lower … upper − 1, each by one warp.
  void eachByWarp(Value lower, Value upper, llvm::function_ref<void(Value)> body);

  /// True in the last of `expected` work items that come to a counter.
  Value arriveLast(Value counters, Value index, Value expected);

  /// Waits for the launch before this one.
  void awaitLaunch();
  /// Lets the next launch begin.
  void allowLaunch();

  //===- Work items of a cluster
  int64_t cluster() { return int64_t(op.getCluster().value_or(1)); }
  Value clusterRank();
  /// The barrier of the cluster, where there is one, else of the work item.
  void clusterBarrier();
  /// A shared buffer of the work item `rank` of the cluster.
  Value peer(Value buffer, Value rank);
  /// Iterations lower … upper − 1, each by one warp of the cluster. Which one depends on the
  /// iteration's number alone, so a later loop finds in shared memory what an earlier one left.
  void eachByWarpOfCluster(Value lower, Value upper, llvm::function_ref<void(Value)> body);

  //===- Memory
  /// Along x the cluster's number, where there are clusters.
  Value blockId(tile::Axis axis);
  Value alloc(llvm::ArrayRef<int64_t> shape, Type element);
  /// With `releases` a ring that copies fill; its uses are numbered. Its consumers are `turns`
  /// groups of warps, which take the uses in turn.
  Value ring(int64_t stages, llvm::ArrayRef<int64_t> shape, Type element, int64_t releases = 0,
             int64_t turns = 1);
  Value acquire(Value ring, Value use = {});
  void commit(Value ring, Value use = {});
  Value wait(Value ring, Value use = {});
  void release(Value ring, Value use = {});
  void fillStage(Value ring, Value use, Value view, mlir::ValueRange indices);
  /// Elements of a one-dimensional view from `index` on, at the numbers in a tile.
  Value gather(Value view, Value index, Value numbers);
  Value load(Value view, mlir::ValueRange indices, llvm::ArrayRef<int64_t> sizes, int64_t rows,
             int64_t cols);
  void store(Value tile, Value view, mlir::ValueRange indices, llvm::ArrayRef<int64_t> sizes,
             Value limit = {});
  /// FP32 values of a view of f32, or of one of i16 that holds BF16 codes; a store rounds.
  Value loadF32(Value view, mlir::ValueRange indices, llvm::ArrayRef<int64_t> sizes, int64_t rows,
                int64_t cols);
  void storeF32(Value tile, Value view, mlir::ValueRange indices, llvm::ArrayRef<int64_t> sizes,
                Value limit = {});
  /// An FP32 tile as the elements of a view, rounded to BF16 codes where it holds those.
  Value codesFor(Value view, Value tile);
  Value loadScalar(Value view, mlir::ValueRange indices, Type type);
  Value loadScalar(Value view, mlir::ValueRange indices);
  Value loadIndex(Value view, mlir::ValueRange indices) {
    return loadScalar(view, indices, b.getIndexType());
  }
  void storeScalar(Value value, Value view, mlir::ValueRange indices);
  Value reinterpret(Value bytes, Value byteOffset, tile::ViewType type);

  //===- Tiles
  Value fill(double value, int64_t rows, int64_t cols);
  Value fill(Value value, int64_t rows, int64_t cols);
  /// The region receives one scalar per operand and returns the scalar result.
  Value map(mlir::ValueRange inputs, int64_t rows, int64_t cols,
            llvm::function_ref<Value(mlir::ValueRange)> body);
  Value map(mlir::ValueRange inputs, tile::TileType type,
            llvm::function_ref<Value(mlir::ValueRange)> body);
  Value iota(int64_t cols);
  Value reduce(tile::ReduceKind kind, Value input);
  /// The sum of the columns before each, of one row of i32.
  Value scan(Value input);
  /// view[places[i]] = value[i] where places[i] ≥ 0.
  void scatter(Value value, Value places, Value view, mlir::ValueRange indices);
  /// Sums of the rows as lanes of one row.
  Value sumLanes(Value input);
  Value extract(Value tile, int64_t row, int64_t col);
  Value slice(Value tile, int64_t row, int64_t col, int64_t rows, int64_t cols);
  Value reshape(Value tile, int64_t rows, int64_t cols);
  Value transpose(Value tile);
  Value stack(mlir::ValueRange tiles);
  Value mma(Value a, Value b, Value acc);
  Value fma(Value a, Value b, Value acc);

  //===- FP32 scalars, inside or outside a region
  Value addf(Value a, Value b);
  Value subf(Value a, Value b);
  Value mulf(Value a, Value b);
  Value divf(Value a, Value b);
  Value maxf(Value a, Value b);
  Value minf(Value a, Value b);
  Value expf(Value a);
  Value exp2f(Value a);
  Value fmaf(Value a, Value b, Value c);
  /// NaN if one of them is.
  Value maxOrNan(Value a, Value b);
  Value sqrtf(Value a);
  Value selectf(Value condition, Value a, Value b);
  Value lessf(Value a, Value b);
  Value equalf(Value a, Value b);
  Value isNan(Value a);
  Value round(Value a, tile::Format format);
  /// Every element of a tile to the nearest BF16 value, as FP32.
  Value roundedToBf16(Value tile);

private:
  mlir::ImplicitLocOpBuilder b;
  tile::KernelOp op;
  bool readsPeers = false;
};

} // namespace m3c::kernel
