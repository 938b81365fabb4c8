#include "passes/kernel/families/matrix/MatrixTiles.h"

using namespace mlir;

namespace m3c::kernel {

tile::TileType MatrixTiles::left(int64_t k) {
  return kb.fragment(16, k, kb.builder().getF16Type(), tile::Layout::MmaA);
}
tile::TileType MatrixTiles::right(int64_t k, int64_t columns) {
  return kb.fragment(k, columns, kb.builder().getF16Type(), tile::Layout::MmaB);
}
tile::TileType MatrixTiles::acc(int64_t columns, Type element) {
  return kb.fragment(16, columns, element, tile::Layout::MmaAcc);
}
tile::TileType MatrixTiles::rows(Type element) {
  return kb.fragment(16, 1, element, tile::Layout::MmaRows);
}
tile::TileType MatrixTiles::columns(int64_t count, Type element) {
  return kb.fragment(1, count, element, tile::Layout::MmaColumns);
}

Value MatrixTiles::fill(double value, tile::TileType type) {
  return tile::FillOp::create(kb.builder(), type, kb.f32(value));
}
Value MatrixTiles::iota(tile::TileType type) { return tile::IotaOp::create(kb.builder(), type); }
Value MatrixTiles::rowsMax(Value acc) {
  return tile::ReduceOp::create(kb.builder(), rows(), tile::ReduceKind::Max, acc);
}
Value MatrixTiles::columnsMax(Value acc) {
  int64_t count = cast<tile::TileType>(acc.getType()).getCols();
  return tile::ReduceOp::create(kb.builder(), columns(count, kb.f32Type()),
                                tile::ReduceKind::MaxOrNan, acc);
}
Value MatrixTiles::any(Value rows) {
  return tile::AnyOp::create(kb.builder(), kb.builder().getI1Type(), rows);
}

Value MatrixTiles::loadRows(Value view, Value row, ArrayRef<int64_t> sizes, Value limit,
                            tile::TileType type) {
  auto stored =
      kb.fragment(type.getRows(), type.getCols(), kb.builder().getBF16Type(), type.getLayout());
  Value rows =
      tile::LoadOp::create(kb.builder(), stored, view, ValueRange{row, kb.index(0)}, limit, sizes);
  return tile::ToOperandOp::create(kb.builder(), type, rows);
}
Value MatrixTiles::loadLeft(Value view, Value row, int64_t k, Value limit) {
  return loadRows(view, row, {16, k}, limit, left(k));
}
Value MatrixTiles::loadRight(Value view, Value row, int64_t k, int64_t columns, Value limit) {
  return loadRows(view, row, {columns, k}, limit, right(k, columns));
}
Value MatrixTiles::toLeft(Value acc) {
  return tile::ToOperandOp::create(kb.builder(), left(16), acc);
}

//===- Slots ----------------------------------------------------------------------------------===//

bool StagedSlot::serves(m3::CacheType type, int64_t dims) {
  bool grid = type.getKv() == m3::CacheStorage::NVFP4 && type.getGrid() == m3::CacheGrid::E4M3;
  return dims == 128 && (grid || type.getKv() == m3::CacheStorage::FP8);
}

StagedSlot::StagedSlot(KernelBuilder &kb, const CachePages &cache, int64_t dims, Value stage,
                       int64_t offset, Value table)
    : kb(kb), dims(dims), table(table) {
  bool packed = cache.type.getKv() == m3::CacheStorage::NVFP4;
  format = packed ? tile::Format::E2M1 : tile::Format::E4M3;
  auto part = [&](int64_t at, ArrayRef<int64_t> shape) {
    return kb.reinterpret(stage, kb.index(offset + at),
                          kb.view(shape, kb.byteType(), tile::Space::Shared));
  };
  codes = part(0, {m3::blockTokens, packed ? dims / 2 : dims});
  if (packed)
    scales = part(m3::blockTokens * dims / 2, {m3::blockTokens * dims / 16});
}

Value StagedSlot::load(Value token, tile::TileType type, Value seen) {
  return tile::LoadCachedOp::create(kb.builder(), type, codes, scales, scales ? table : Value(),
                                    token, seen, format, StringAttr());
}

} // namespace m3c::kernel
