#include "passes/kernel/families/cache/MatrixTiles.h"

using namespace mlir;

namespace m3c::kernel {

Type MatrixTiles::keyElement() {
  if (e4m3)
    return Float8E4M3FNType::get(kb.builder().getContext());
  return kb.builder().getF16Type();
}
tile::TileType MatrixTiles::left(int64_t k, Type element) {
  return kb.fragment(16, k, element, tile::Layout::MmaA);
}
tile::TileType MatrixTiles::right(int64_t k, int64_t columns, Type element) {
  return kb.fragment(k, columns, element, tile::Layout::MmaB);
}

SmallVector<int64_t> MatrixTiles::queryBox(int64_t dims) {
  int64_t k = e4m3 ? unit.k8 : unit.k;
  return {dims / k, unit.lanes, 16 * k / unit.lanes};
}
Type MatrixTiles::queryBits() { return e4m3 ? kb.byteType() : Type(kb.builder().getI16Type()); }
SmallVector<int64_t> MatrixTiles::accBox(int64_t columns, int64_t slots) {
  return {slots, columns / unit.columns, unit.lanes, 4};
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
  if (cast<tile::ViewType>(view.getType()).getElement().isF32())
    return tile::LoadOp::create(kb.builder(), type, view, ValueRange{row, kb.index(0)}, limit,
                                sizes);
  auto stored =
      kb.fragment(type.getRows(), type.getCols(), kb.builder().getBF16Type(), type.getLayout());
  Value rows =
      tile::LoadOp::create(kb.builder(), stored, view, ValueRange{row, kb.index(0)}, limit, sizes);
  return tile::ToOperandOp::create(kb.builder(), type, rows);
}
Value MatrixTiles::loadLeft(Value view, Value row, int64_t k, Value limit) {
  return loadRows(view, row, {16, k}, limit, queries(k));
}
int64_t MatrixTiles::queryParts(Value view) const {
  return !onGrid && cast<tile::ViewType>(view.getType()).getElement().isF32() ? 2 : 1;
}
Value MatrixTiles::allocQueries(Value view, int64_t count, int64_t dims) {
  SmallVector<int64_t> box = queryBox(dims);
  return kb.alloc({count * queryParts(view) * box[0], box[1], box[2]}, queryBits());
}
SmallVector<Value> MatrixTiles::queryPlace(Value view, int64_t dims, Value number, Value part) {
  const int64_t steps = queryBox(dims)[0], parts = queryParts(view);
  Value first = kb.mul(number, parts * steps);
  return {parts > 1 ? kb.add(first, kb.mul(part, steps)) : first, kb.index(0), kb.index(0)};
}
void MatrixTiles::storeQueries(Value view, Value row, int64_t dims, Value limit, Value queries,
                               Value number) {
  const int64_t parts = queryParts(view);
  for (int64_t part = 0; part < parts; ++part) {
    Value q = parts == 1
                  ? loadLeft(view, row, dims, limit)
                  : Value(tile::LoadOp::create(kb.builder(), left(dims, kb.builder().getF16Type()),
                                               view, ValueRange{row, kb.index(0)}, limit,
                                               ArrayRef<int64_t>{16, dims},
                                               kb.builder().getI64IntegerAttr(part)));
    kb.store(q, queries, queryPlace(view, dims, number, kb.index(part)), queryBox(dims));
  }
}
SmallVector<Value> MatrixTiles::loadQueries(Value view, int64_t dims, Value queries, Value number) {
  SmallVector<Value> parts;
  for (int64_t part = 0; part < queryParts(view); ++part)
    parts.push_back(loadQueries(view, dims, queries, number, kb.index(part)));
  return parts;
}
Value MatrixTiles::loadQueries(Value view, int64_t dims, Value queries, Value number, Value part) {
  return tile::LoadOp::create(kb.builder(), this->queries(dims), queries,
                              queryPlace(view, dims, number, part), queryBox(dims));
}
Value MatrixTiles::loadRight(Value view, Value row, int64_t k, int64_t columns, Value limit) {
  return loadRows(view, row, {columns, k}, limit, keys(k, columns));
}
Value MatrixTiles::toLeft(Value acc) {
  return tile::ToOperandOp::create(kb.builder(), left(unit.k), acc);
}

Value MatrixTiles::tokensOfColumns() {
  auto type = columns(unit.k, kb.i32Type());
  // Four lanes share a row. Lane q has `each` columns of a group, and of k it has those from
  // each · groups · q on, which are its tokens but for their order.
  const int64_t each = unit.columns / 4, groups = unit.k / unit.columns;
  return kb.map(iota(type), type, [&](ValueRange args) {
    auto &b = kb.builder();
    auto bits = [&](int64_t from, int64_t values) {
      Value shifted =
          arith::ShRSIOp::create(b, args[0], kb.i32(int64_t(llvm::Log2_64(uint64_t(from)))));
      return Value(arith::AndIOp::create(b, shifted, kb.i32(values - 1)));
    };
    Value q = bits(each, 4), group = bits(unit.columns, groups), within = bits(1, each);
    Value place = arith::OrIOp::create(b, arith::MulIOp::create(b, group, kb.i32(each)), within);
    Value turned = arith::XOrIOp::create(b, place, arith::AndIOp::create(b, q, kb.i32(unit.turn)));
    Value first = arith::MulIOp::create(b, q, kb.i32(each * groups));
    return Value(arith::OrIOp::create(b, first, turned));
  });
}

void MatrixTiles::barrierOfRole() { kb.barrier(/*whole=*/!unit.roleBarriers); }
void MatrixTiles::comeToBarrierOfOthers() {
  if (!unit.roleBarriers)
    kb.barrier(/*whole=*/true);
}

void RoleMeeting::allocate() {
  auto &b = m.kb.builder();
  if (!m.unit.roleBarriers)
    gates = tile::GatesOp::create(b, tile::GatesType::get(b.getContext(), 1), uint64_t(warps),
                                  uint64_t(1), IntegerAttr());
}

void RoleMeeting::meet(Value number) {
  auto &b = m.kb.builder();
  if (m.unit.roleBarriers)
    return m.kb.barrier();
  tile::GateSignalOp::create(b, gates, tile::Gate::Full, number);
  tile::GateWaitOp::create(b, gates, tile::Gate::Full, number);
}

int64_t ringTurns(const MatrixUnit &unit, int64_t groups) { return unit.countsUses ? 1 : groups; }

LogicalResult checkLoaders(Location location, StringRef family, const Schedule &schedule,
                           const MatrixUnit &unit, int64_t groups) {
  int64_t loaders = loadersOf(schedule), stages = schedule.at("stages");
  if (unit.countsUses)
    return success();
  if (stages % loaders == 0 && (stages % groups == 0 || groups % loaders == 0))
    return success();
  return emitError(location)
         << family << " with loaders=" << loaders << ", stages=" << stages << " and " << groups
         << " groups that multiply in turn: stages "
         << "are a multiple of the loaders, and of the groups or these of the loaders; "
         << "change them by --schedule";
}

int64_t loadersOf(const Schedule &schedule) {
  auto found = schedule.find("loaders");
  return found == schedule.end() ? 1 : found->second;
}

//===- Slots ----------------------------------------------------------------------------------===//

CodeProduct productOf(const Schedule &schedule) {
  auto found = schedule.find("product");
  return found == schedule.end() ? CodeProduct::Table : CodeProduct(found->second);
}

bool StagedSlot::serves(m3::CacheType type, int64_t dims) {
  bool grid = type.getKv() == m3::CacheStorage::NVFP4 && type.getGrid() == m3::CacheGrid::E4M3;
  return dims == 128 && (grid || type.getKv() == m3::CacheStorage::FP8);
}

StagedSlot::StagedSlot(MatrixTiles &m, const CachePages &cache, int64_t dims, Value stage,
                       int64_t offset, CodeProduct product, Value table)
    : m(m), dims(dims), product(product), table(table) {
  KernelBuilder &kb = m.kb;
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
  auto &b = m.kb.builder();
  constexpr StringLiteral names[] = {"", "multiply", "detour", "exact", ""};
  StringRef name = scales ? names[size_t(product)] : "";
  return tile::LoadCachedOp::create(b, type, codes, scales, scales ? table : Value(), token, seen,
                                    format, name.empty() ? StringAttr() : b.getStringAttr(name),
                                    StringAttr());
}

Value StagedSlot::scores(Value token, Value queries) {
  int64_t columns = cast<tile::TileType>(queries.getType()).getCols();
  return tile::MmaGroupsOp::create(m.kb.builder(), m.acc(columns), codes, scales, token, queries,
                                   StringAttr());
}

} // namespace m3c::kernel
