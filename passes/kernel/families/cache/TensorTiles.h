// Tensor memory, gates and rows that lanes hold, tersely: for kernels that multiply there.
#pragma once

#include "passes/kernel/families/cache/MatrixTiles.h"

namespace m3c::kernel {

/// Lanes of tensor memory, rows of a product, tokens of a page.
inline constexpr int64_t tensorLanes = 128;
/// Warps that reach all of them.
inline constexpr int64_t laneWarps = 4;
/// Columns that hold the keys of a page: four E4M3 in each.
inline constexpr int64_t keyColumns = 32;

/// Roles of a kernel that multiplies there, from warp 0 on: one with the lanes of the sums, one
/// that dequantises, a warp that multiplies and one that brings pages. Registers are changed by
/// four warps together: with budgets the latter two are in one role, `feed`, of four warps, two of
/// them idle.
struct TensorRoles {
  /// Choices of `schedule`: `sums` + "_registers", `dequantise_registers`, `feed_registers`.
  TensorRoles(const Schedule &schedule, const char *sums);

  int64_t warps() const { return 2 * laneWarps + (feedRegisters ? laneWarps : 2); }
  void emit(KernelBuilder &kb, llvm::function_ref<void()> emitSums,
            llvm::function_ref<void()> dequantise, llvm::function_ref<void()> multiply,
            llvm::function_ref<void()> load) const;

  const char *sums;
  int64_t sumsRegisters, dequantiseRegisters, feedRegisters;
};

class TensorTiles {
public:
  /// `product`: how codes of slots are multiplied by their scales, Multiply or Detour; `pair`:
  /// matrix products are of the two work items of a cluster.
  TensorTiles(KernelBuilder &kb, CodeProduct product, bool pair = false)
      : kb(kb), pair(pair), product(product) {}

  //===- Memory and gates
  /// At least `columns`.
  Value memory(int64_t columns);
  void free(Value memory) { tile::TensorFreeOp::create(kb.builder(), memory); }
  Value part(Value memory, Value column, int64_t columns, Type element);
  /// Signals that come from warps count for each of a pair.
  Value gates(int64_t stages, int64_t fills, int64_t drains);
  void wait(tile::Gate side, Value gates, Value use) {
    tile::GateWaitOp::create(kb.builder(), gates, side, use);
  }
  /// `alone`: one warp of the role, not each.
  void signal(tile::Gate side, Value gates, Value use, bool alone = false) {
    tile::GateSignalOp::create(kb.builder(), gates, side, use, alone);
  }
  void commit(tile::Gate side, Value gates, Value use) {
    tile::GateCommitOp::create(kb.builder(), gates, side, use);
  }

  //===- Products
  void multiply(Value left, Value right, Value sums, Value accumulate) {
    tile::TensorMmaOp::create(kb.builder(), left, right, sums, accumulate, mlir::StringAttr(),
                              pair);
  }
  /// Codes and scales of a slot that lies at byte `offset` of a stage.
  std::pair<Value, Value> slot(Value stage, int64_t offset);
  void keys(std::pair<Value, Value> slot, Value part);
  void values(std::pair<Value, Value> slot, Value limit, Value operand);

  //===- Tiles
  tile::TileType rows(int64_t columns, Type element);
  tile::TileType rows(int64_t columns) { return rows(columns, kb.f32Type()); }
  /// One row that every lane has.
  tile::TileType row(int64_t columns, Type element);
  tile::TileType row(int64_t columns) { return row(columns, kb.f32Type()); }
  Value fill(double value, tile::TileType type);
  Value load(Value part);
  void store(Value rows, Value part);
  Value laneNumbers();
  Value reduce(tile::ReduceKind kind, Value rows);
  Value loadRow(Value view, mlir::ValueRange indices, tile::TileType type);
  void storeLanes(Value rows, Value view, mlir::ValueRange indices);

  KernelBuilder &kb;
  const bool pair;

private:
  llvm::StringRef spellProduct() const;

  CodeProduct product;
};

/// Whether products of tensor memory read such a cache, NVFP4 whose values are E4M3, 128 dims, with
/// such queries: E4M3 values.
bool tensorServes(m3::CacheType cache, int64_t dims, Value query);

} // namespace m3c::kernel
