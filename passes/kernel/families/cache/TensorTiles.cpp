#include "passes/kernel/families/cache/TensorTiles.h"

#include <bit>

using namespace mlir;

namespace m3c::kernel {

TensorRoles::TensorRoles(const Schedule &schedule, const char *sums)
    : sums(sums), sumsRegisters(choiceOf(schedule, (std::string(sums) + "_registers").c_str())),
      dequantiseRegisters(choiceOf(schedule, "dequantise_registers")),
      feedRegisters(choiceOf(schedule, "feed_registers")) {}

void TensorRoles::emit(KernelBuilder &kb, function_ref<void()> emitSums,
                       function_ref<void()> dequantise, function_ref<void()> multiply,
                       function_ref<void()> load) const {
  kb.roles([&] {
    kb.role(sums, {laneWarps, sumsRegisters}, emitSums);
    kb.role("dequantise", {laneWarps, dequantiseRegisters}, dequantise);
    if (!feedRegisters) {
      kb.role("multiply", {1}, multiply);
      kb.role("load", {1}, load);
      return;
    }
    kb.role("feed", {laneWarps, feedRegisters}, [&] {
      auto isWarp = [&](int64_t number) { return kb.equal(kb.warpId(), kb.index(number)); };
      kb.when(isWarp(2 * laneWarps), multiply, [&] { kb.when(isWarp(2 * laneWarps + 1), load); });
    });
  });
}

Value TensorTiles::memory(int64_t columns) {
  int64_t given = std::max<int64_t>(32, int64_t(std::bit_ceil(uint64_t(columns))));
  return tile::TensorMemoryOp::create(
      kb.builder(), kb.view({tensorLanes, given}, kb.i32Type(), tile::Space::Tensor), IntegerAttr(),
      pair);
}

Value TensorTiles::part(Value memory, Value column, int64_t columns, Type element) {
  return tile::TensorPartOp::create(
      kb.builder(), kb.view({tensorLanes, columns}, element, tile::Space::Tensor), memory, column);
}

Value TensorTiles::gates(int64_t stages, int64_t fills, int64_t drains) {
  return tile::GatesOp::create(kb.builder(),
                               tile::GatesType::get(kb.builder().getContext(), stages),
                               uint64_t(fills), uint64_t(drains), IntegerAttr(), pair);
}

std::pair<Value, Value> TensorTiles::slot(Value stage, int64_t offset) {
  constexpr int64_t dims = 128, codeBytes = m3::blockTokens * dims / 2;
  auto part = [&](int64_t at, ArrayRef<int64_t> shape) {
    return kb.reinterpret(stage, kb.index(at), kb.view(shape, kb.byteType(), tile::Space::Shared));
  };
  return {part(offset, {m3::blockTokens, dims / 2}),
          part(offset + codeBytes, {m3::blockTokens * dims / 16})};
}

StringRef TensorTiles::spellProduct() const {
  // The verifier takes two of them.
  static constexpr StringLiteral names[] = {"table", "multiply", "detour", "exact", "groups"};
  return names[size_t(product)];
}
void TensorTiles::keys(std::pair<Value, Value> slot, Value part) {
  tile::TensorKeysOp::create(kb.builder(), slot.first, slot.second, spellProduct(), part,
                             StringAttr());
}
void TensorTiles::values(std::pair<Value, Value> slot, Value limit, Value operand) {
  tile::OperandValuesOp::create(kb.builder(), slot.first, slot.second, spellProduct(), limit,
                                operand, StringAttr());
}

tile::TileType TensorTiles::rows(int64_t columns, Type element) {
  return kb.fragment(32, columns, element, tile::Layout::LaneRows);
}
tile::TileType TensorTiles::row(int64_t columns, Type element) {
  return kb.fragment(1, columns, element, tile::Layout::LaneRows);
}
Value TensorTiles::fill(double value, tile::TileType type) {
  return tile::FillOp::create(kb.builder(), type, kb.f32(value));
}
Value TensorTiles::load(Value part) {
  auto view = cast<tile::ViewType>(part.getType());
  return tile::TensorLoadOp::create(kb.builder(), rows(view.getShape()[1]), part, StringAttr());
}
void TensorTiles::store(Value rows, Value part) {
  tile::TensorStoreOp::create(kb.builder(), rows, part, StringAttr());
}
Value TensorTiles::laneNumbers() {
  return tile::LaneNumbersOp::create(kb.builder(), rows(1, kb.i32Type()));
}
Value TensorTiles::reduce(tile::ReduceKind kind, Value rows) {
  int64_t columns = cast<tile::TileType>(rows.getType()).getCols();
  return tile::ReduceLanesOp::create(kb.builder(), kb.tile(1, columns), kind, rows);
}
Value TensorTiles::loadRow(Value view, ValueRange indices, tile::TileType type) {
  return tile::LoadRowOp::create(kb.builder(), type, view, indices);
}
void TensorTiles::storeLanes(Value rows, Value view, ValueRange indices) {
  tile::StoreLanesOp::create(kb.builder(), rows, view, indices);
}

bool tensorServes(m3::CacheType cache, int64_t dims, Value query) {
  auto storage =
      dyn_cast_if_present<m3::StorageAttr>(cast<RankedTensorType>(query.getType()).getEncoding());
  return storage && storage.getGrid() == m3::Grid::E4M3 && dims == 128 &&
         cache.getKv() == m3::CacheStorage::NVFP4 && cache.getGrid() == m3::CacheGrid::E4M3;
}

} // namespace m3c::kernel
