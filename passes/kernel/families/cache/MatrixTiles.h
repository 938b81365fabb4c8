// Tiles of matrix instructions, tersely: for kernels that multiply cached pages.
#pragma once

#include "passes/kernel/families/cache/CachePages.h"

namespace m3c::kernel {

class MatrixTiles {
public:
  /// `onGrid`: queries lie on the E4M3 grid, as those of NVFP4 caches and all index queries do.
  MatrixTiles(KernelBuilder &kb, const MatrixUnit &unit, bool onGrid = true)
      : kb(kb), unit(unit), onGrid(onGrid), e4m3(unit.e4m3 && onGrid) {}

  /// Operands of products with values: FP16.
  tile::TileType left(int64_t k) { return left(k, kb.builder().getF16Type()); }
  tile::TileType right(int64_t k, int64_t columns) {
    return right(k, columns, kb.builder().getF16Type());
  }
  /// Operands of products of queries and keys.
  tile::TileType queries(int64_t dims) { return left(dims, keyElement()); }
  tile::TileType keys(int64_t dims, int64_t columns) { return right(dims, columns, keyElement()); }
  /// A left operand of queries in the order of registers: a box, and elements as views have them.
  llvm::SmallVector<int64_t> queryBox(int64_t dims);
  Type queryBits();
  /// An accumulator of `columns` columns in the order of registers, and of any number of slots.
  llvm::SmallVector<int64_t> accBox(int64_t columns, int64_t slots);
  tile::TileType acc(int64_t columns) { return acc(columns, kb.f32Type()); }
  tile::TileType acc(int64_t columns, Type element);
  tile::TileType rows(Type element);
  tile::TileType rows() { return rows(kb.f32Type()); }
  tile::TileType columns(int64_t count, Type element);

  Value fill(double value, tile::TileType type);
  Value iota(tile::TileType type);
  Value mma(Value a, Value b, int64_t columns) { return kb.mma(a, b, fill(0, acc(columns))); }
  /// Row-wise or column-wise largest of an accumulator.
  Value rowsMax(Value acc);
  Value columnsMax(Value acc);
  Value any(Value rows);
  /// BF16 or FP32 rows of a view [rows, dims] as an operand of queries; rows from `limit` on repeat
  /// the last.
  Value loadLeft(Value view, Value row, int64_t k, Value limit);
  /// Operands that hold a row of queries: one, or of FP32 queries on no grid two, whose products
  /// are added: the first eleven bits, and as many of what is left.
  int64_t queryParts(Value view) const;
  /// Shared memory for `count` left operands of queries of a view, with all parts.
  Value allocQueries(Value view, int64_t count, int64_t dims);
  /// As loadLeft, to place `number` of that memory; all parts back from there.
  void storeQueries(Value view, Value row, int64_t dims, Value limit, Value queries, Value number);
  llvm::SmallVector<Value> loadQueries(Value view, int64_t dims, Value queries, Value number);
  Value loadQueries(Value view, int64_t dims, Value queries, Value number, Value part);
  Value loadRight(Value view, Value row, int64_t k, int64_t columns, Value limit);
  Value toLeft(Value acc);
  /// Of a product with the keys of tile.load_cached, a row: which token each column is.
  Value tokensOfColumns();

  /// The warps of this role meet; where only all warps can, those of another role come as well.
  void barrierOfRole();
  void comeToBarrierOfOthers();

  KernelBuilder &kb;
  const MatrixUnit &unit;

private:
  const bool onGrid;
  const bool e4m3; ///< queries and keys are multiplied as E4M3 codes, else as FP16
  Type keyElement();
  tile::TileType left(int64_t k, Type element);
  tile::TileType right(int64_t k, int64_t columns, Type element);
  Value loadRows(Value view, Value row, llvm::ArrayRef<int64_t> sizes, Value limit,
                 tile::TileType type);
  /// Where a part of operand `number` begins in the memory for queries.
  llvm::SmallVector<Value> queryPlace(Value view, int64_t dims, Value number, Value part);
};

/// Warps of a role that meet whatever the other roles do: by the barrier of the role, or where
/// there is none by a gate.
class RoleMeeting {
public:
  RoleMeeting(MatrixTiles &m, int64_t warps) : m(m), warps(warps) {}
  void allocate();
  /// Meetings are numbered 0, 1, 2 …; stores to shared memory before one are seen after it.
  void meet(Value number);

private:
  MatrixTiles &m;
  int64_t warps;
  Value gates;
};

/// Warps that bring pages: one, or as many as the schedule says.
int64_t loadersOf(const Schedule &schedule);
/// The turns of a ring whose uses `groups` groups of warps take one after the other
/// (KernelBuilder::ring).
int64_t ringTurns(const MatrixUnit &unit, int64_t groups);
/// Refuses loaders that the phases of a ring's stages cannot tell apart: T-R8 counts on uses that
/// are started in order, which those of one loader are. So each stage is one loader's, and where
/// it is not one group's, a group's uses are one loader's as well.
mlir::LogicalResult checkLoaders(mlir::Location location, mlir::StringRef family,
                                 const Schedule &schedule, const MatrixUnit &unit, int64_t groups);

/// How the codes of an NVFP4 slot and their scales are multiplied, a schedule's `product`: by a
/// table of products; in registers, onto the E4M3 grid by an instruction for both or by way of
/// FP16; in registers, exact; codes alone, and the scale of sixteen dims comes onto their sum.
enum class CodeProduct { Table, Multiply, Detour, Exact, Groups };
CodeProduct productOf(const Schedule &schedule); // Table where it has none

/// One slot of a page in a stage of a ring, as operands.
class StagedSlot {
public:
  /// `table`: tile.code_table, where NVFP4 codes are multiplied by one.
  StagedSlot(MatrixTiles &m, const CachePages &cache, int64_t dims, Value stage, int64_t offset,
             CodeProduct product, Value table);
  /// Sixteen tokens from `token` on.
  Value keyRows(Value token) { return load(token, m.queries(dims), {}); }
  /// As many as a product has k.
  Value keyColumns(Value token) { return load(token, m.keys(dims, m.unit.k), {}); }
  /// Scores of sixteen tokens and `queries` (tile.load_groups), scales after the products.
  Value scores(Value token, Value queries);
  /// Those from `seen` on are zero.
  Value values(Value token, Value seen) { return load(token, m.right(m.unit.k, dims), seen); }
  /// Whether matrix instructions read such a cache.
  static bool serves(m3::CacheType type, int64_t dims);

private:
  Value load(Value token, tile::TileType type, Value seen);

  MatrixTiles &m;
  int64_t dims;
  CodeProduct product;
  tile::Format format;
  Value codes, scales, table;
};

} // namespace m3c::kernel
