// Tiles of matrix instructions, tersely: for kernels that multiply cached pages.
#pragma once

#include "passes/kernel/families/CachePages.h"

namespace m3c::kernel {

/// Tokens that one operand holds.
inline constexpr int64_t operandTokens = 16;

class MatrixTiles {
public:
  explicit MatrixTiles(KernelBuilder &kb) : kb(kb) {}

  tile::TileType left(int64_t k);
  tile::TileType right(int64_t k, int64_t columns);
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
  /// BF16 rows of a view [rows, dims] as an FP16 operand; rows from `limit` on repeat the last.
  Value loadLeft(Value view, Value row, int64_t k, Value limit);
  Value loadRight(Value view, Value row, int64_t k, int64_t columns, Value limit);
  Value toLeft(Value acc);

  KernelBuilder &kb;

private:
  Value loadRows(Value view, Value row, llvm::ArrayRef<int64_t> sizes, Value limit,
                 tile::TileType type);
};

/// One slot of a page in a stage of a ring, as operands.
class StagedSlot {
public:
  /// `table`: tile.code_table, NVFP4 only.
  StagedSlot(KernelBuilder &kb, const CachePages &cache, int64_t dims, Value stage, int64_t offset,
             Value table);
  /// Sixteen tokens from `token` on.
  Value keyRows(Value token) { return load(token, MatrixTiles(kb).left(dims), {}); }
  Value keyColumns(Value token) {
    return load(token, MatrixTiles(kb).right(dims, operandTokens), {});
  }
  /// Those from `seen` on are zero.
  Value values(Value token, Value seen) {
    return load(token, MatrixTiles(kb).right(operandTokens, dims), seen);
  }
  /// Whether matrix instructions read such a cache.
  static bool serves(m3::CacheType type, int64_t dims);

private:
  Value load(Value token, tile::TileType type, Value seen);

  KernelBuilder &kb;
  int64_t dims;
  tile::Format format;
  Value codes, scales, table;
};

} // namespace m3c::kernel
