#include "passes/kernel/KernelBuilder.h"

using namespace mlir;

namespace m3c::kernel {

static DictionaryAttr scheduleAttr(Builder &builder, const Schedule &schedule) {
  SmallVector<NamedAttribute> entries;
  for (const auto &[name, value] : schedule)
    entries.push_back(builder.getNamedAttr(name, builder.getI64IntegerAttr(value)));
  return builder.getDictionaryAttr(entries);
}

KernelBuilder::KernelBuilder(ModuleOp module, StringRef name, StringRef family,
                             const Schedule &schedule, ArrayRef<Type> parameters)
    : b(NameLoc::get(StringAttr::get(module.getContext(), name), module.getLoc()),
        module.getContext()) { // errors name the kernel
  b.setInsertionPointToEnd(module.getBody());
  op = tile::KernelOp::create(b, name, b.getFunctionType(parameters, {}), family,
                              scheduleAttr(b, schedule));
  useWarps(schedule);
  b.setInsertionPointToEnd(&op.getBody().front());
}

tile::KernelOp KernelBuilder::finish() {
  if (readsPeers)
    clusterBarrier(); // others may still read this one's shared memory
  tile::ReturnOp::create(b);
  return op;
}

//===- Types ----------------------------------------------------------------------------------===//

tile::TileType KernelBuilder::tile(int64_t rows, int64_t cols, Type element) {
  return tile::TileType::get(b.getContext(), rows, cols, element);
}
tile::TileType KernelBuilder::fragment(int64_t rows, int64_t cols, Type element,
                                       tile::Layout layout) {
  return tile::TileType::get(b.getContext(), rows, cols, element, layout);
}
tile::ViewType KernelBuilder::view(ArrayRef<int64_t> shape, Type element, tile::Space space) {
  return tile::ViewType::get(b.getContext(), shape, element, space);
}

//===- Warps ----------------------------------------------------------------------------------===//

void KernelBuilder::useWarps(const Schedule &schedule) {
  if (auto found = schedule.find("warps"); found != schedule.end())
    op.setWarps(found->second);
  if (auto found = schedule.find("cluster"); found != schedule.end() && found->second > 1)
    op.setCluster(found->second);
  if (auto found = schedule.find("residents"); found != schedule.end())
    op.setResidents(std::min<uint64_t>(found->second, op.getResidents().value_or(found->second)));
}

Value KernelBuilder::warpId() {
  return warps() > 1 ? tile::WarpIdOp::create(b, b.getIndexType()) : index(0);
}

void KernelBuilder::barrier(bool whole) {
  if (warps() > 1)
    tile::BarrierOp::create(b, whole);
}

void KernelBuilder::eachByWarp(Value lower, Value upper, function_ref<void(Value)> body) {
  forLoop(add(lower, warpId()), upper, warps(), body);
}

Value KernelBuilder::arriveLast(Value counters, Value index, Value expected) {
  return tile::ArriveOp::create(b, b.getI1Type(), counters, ValueRange{index}, expected);
}

void KernelBuilder::awaitLaunch() { tile::AwaitLaunchOp::create(b, StringAttr()); }
void KernelBuilder::allowLaunch() { tile::AllowLaunchOp::create(b, StringAttr()); }

Value KernelBuilder::clusterRank() {
  return cluster() > 1 ? tile::ClusterRankOp::create(b, b.getIndexType()) : index(0);
}

void KernelBuilder::clusterBarrier() {
  if (cluster() == 1)
    return barrier();
  tile::ClusterBarrierOp::create(b);
}

Value KernelBuilder::peer(Value buffer, Value rank) {
  if (cluster() == 1)
    return buffer;
  readsPeers = true;
  return tile::PeerOp::create(b, buffer.getType(), buffer, rank);
}

void KernelBuilder::eachByWarpOfCluster(Value lower, Value upper, function_ref<void(Value)> body) {
  if (cluster() == 1)
    return eachByWarp(lower, upper, body);
  // Neighbours go to different work items: rank + cluster · warp, the least such that is not below.
  int64_t stride = cluster() * warps();
  Value mine = add(clusterRank(), mul(warpId(), cluster()));
  Value ahead = rem(add(sub(mine, rem(lower, stride)), stride), stride);
  forLoop(add(lower, ahead), upper, stride, body);
}

//===- Scalars --------------------------------------------------------------------------------===//

Value KernelBuilder::index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }
Value KernelBuilder::f32(double value) {
  return arith::ConstantOp::create(b, b.getF32FloatAttr(float(value)));
}
Value KernelBuilder::i32(int64_t value) {
  return arith::ConstantOp::create(b, b.getI32IntegerAttr(int32_t(value)));
}

Value KernelBuilder::add(Value x, Value y) { return b.createOrFold<arith::AddIOp>(x, y); }
Value KernelBuilder::sub(Value x, Value y) { return b.createOrFold<arith::SubIOp>(x, y); }
Value KernelBuilder::mul(Value x, Value y) { return b.createOrFold<arith::MulIOp>(x, y); }
Value KernelBuilder::div(Value x, int64_t y) { return b.createOrFold<arith::DivSIOp>(x, index(y)); }
Value KernelBuilder::rem(Value x, int64_t y) { return b.createOrFold<arith::RemSIOp>(x, index(y)); }
Value KernelBuilder::min(Value x, Value y) { return b.createOrFold<arith::MinSIOp>(x, y); }
Value KernelBuilder::max(Value x, Value y) { return b.createOrFold<arith::MaxSIOp>(x, y); }
Value KernelBuilder::less(Value x, Value y) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, x, y);
}
Value KernelBuilder::equal(Value x, Value y) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, x, y);
}
Value KernelBuilder::atLeast(Value x, Value y) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::sge, x, y);
}
Value KernelBuilder::both(Value x, Value y) { return arith::AndIOp::create(b, x, y); }
Value KernelBuilder::either(Value x, Value y) { return arith::OrIOp::create(b, x, y); }
Value KernelBuilder::toI32(Value index) {
  return arith::IndexCastOp::create(b, b.getI32Type(), index);
}
Value KernelBuilder::toIndex(Value number) {
  return arith::IndexCastOp::create(b, b.getIndexType(), number);
}

Value KernelBuilder::addf(Value x, Value y) { return arith::AddFOp::create(b, x, y); }
Value KernelBuilder::subf(Value x, Value y) { return arith::SubFOp::create(b, x, y); }
Value KernelBuilder::mulf(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
Value KernelBuilder::divf(Value x, Value y) { return arith::DivFOp::create(b, x, y); }
Value KernelBuilder::maxf(Value x, Value y) { return arith::MaxNumFOp::create(b, x, y); }
Value KernelBuilder::minf(Value x, Value y) { return arith::MinNumFOp::create(b, x, y); }
Value KernelBuilder::expf(Value x) { return math::ExpOp::create(b, x); }
Value KernelBuilder::exp2f(Value x) { return math::Exp2Op::create(b, x); }
Value KernelBuilder::fmaf(Value x, Value y, Value z) { return math::FmaOp::create(b, x, y, z); }
Value KernelBuilder::maxOrNan(Value x, Value y) { return arith::MaximumFOp::create(b, x, y); }
Value KernelBuilder::sqrtf(Value x) { return math::SqrtOp::create(b, x); }
Value KernelBuilder::selectf(Value condition, Value x, Value y) {
  return arith::SelectOp::create(b, condition, x, y);
}
Value KernelBuilder::lessf(Value x, Value y) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, y);
}
Value KernelBuilder::equalf(Value x, Value y) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, x, y);
}
Value KernelBuilder::isNan(Value x) { return math::IsNaNOp::create(b, x); }
Value KernelBuilder::round(Value x, tile::Format format) {
  return tile::RoundOp::create(b, b.getF32Type(), x, format);
}

//===- Control flow ---------------------------------------------------------------------------===//

void KernelBuilder::forLoop(Value lower, Value upper, int64_t step, function_ref<void(Value)> body,
                            bool unroll) {
  forLoop(
      lower, upper, step, {},
      [&](Value i, ValueRange) {
        body(i);
        return Values{};
      },
      unroll);
}

Values KernelBuilder::forLoop(Value lower, Value upper, int64_t step, ValueRange init,
                              function_ref<Values(Value, ValueRange)> body, bool unroll) {
  auto loop = scf::ForOp::create(b, lower, upper, index(step), init);
  if (unroll)
    loop->setAttr("unroll", b.getUnitAttr());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Values results = body(loop.getInductionVar(), loop.getRegionIterArgs());
  b.setInsertionPointToEnd(loop.getBody());
  if (!loop.getBody()->mightHaveTerminator())
    scf::YieldOp::create(b, results);
  return Values(loop.getResults().begin(), loop.getResults().end());
}

void KernelBuilder::when(Value condition, function_ref<void()> then,
                         function_ref<void()> otherwise) {
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/bool(otherwise));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  then();
  if (otherwise) {
    b.setInsertionPointToStart(branch.elseBlock());
    otherwise();
  }
}

Values KernelBuilder::choose(Value condition, function_ref<Values()> then,
                             function_ref<Values()> otherwise) {
  auto region = [&](function_ref<Values()> body) {
    return [this, body](OpBuilder &nested, Location) {
      OpBuilder::InsertionGuard guard(b);
      b.restoreInsertionPoint(nested.saveInsertionPoint());
      Values values = body();
      scf::YieldOp::create(b, values);
    };
  };
  auto branch = scf::IfOp::create(b, condition, region(then), region(otherwise));
  return Values(branch.getResults().begin(), branch.getResults().end());
}

void KernelBuilder::pipeline(Value lower, Value upper, int64_t step,
                             function_ref<void(Value)> roles) {
  auto pipeline = tile::PipelineOp::create(b, lower, upper, index(step));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&pipeline.getBody().front());
  roles(pipeline.getBody().getArgument(0));
}

void KernelBuilder::role(StringRef name, function_ref<void()> body) {
  auto role = tile::RoleOp::create(b, name);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&role.getBody().front());
  body();
}

void KernelBuilder::roles(function_ref<void()> bodies) {
  auto roles = tile::RolesOp::create(b);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&roles.getBody().emplaceBlock());
  bodies();
}

void KernelBuilder::role(StringRef name, RoleThreads threads, function_ref<void()> body) {
  auto role = tile::RoleOp::create(b, name);
  role.setWarps(threads.warps);
  if (threads.registers) {
    role.setRegisters(threads.registers);
    if (!op.getResidents()) // how many a thread begins with follows from them
      op.setResidents(1);
  }
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&role.getBody().front());
  body();
}

//===- Memory ---------------------------------------------------------------------------------===//

Value KernelBuilder::blockId(tile::Axis axis) {
  Value id = tile::BlockIdOp::create(b, b.getIndexType(), axis);
  return axis == tile::Axis::X && cluster() > 1 ? div(id, cluster()) : id;
}
Value KernelBuilder::alloc(ArrayRef<int64_t> shape, Type element) {
  return tile::AllocOp::create(b, view(shape, element, tile::Space::Shared), IntegerAttr());
}
Value KernelBuilder::ring(int64_t stages, ArrayRef<int64_t> shape, Type element, int64_t releases,
                          int64_t turns) {
  auto number = [&](bool has, int64_t value) {
    return has ? b.getI64IntegerAttr(value) : IntegerAttr();
  };
  return tile::RingOp::create(b, tile::RingType::get(b.getContext(), stages, shape, element),
                              number(releases, releases), number(stages % turns, turns),
                              IntegerAttr());
}
static Type stageOf(Value ring) { return cast<tile::RingType>(ring.getType()).getStageType(); }
Value KernelBuilder::acquire(Value ring, Value use) {
  return tile::AcquireOp::create(b, stageOf(ring), ring, use);
}
void KernelBuilder::commit(Value ring, Value use) { tile::CommitOp::create(b, ring, use); }
Value KernelBuilder::wait(Value ring, Value use) {
  return tile::WaitOp::create(b, stageOf(ring), ring, use);
}
void KernelBuilder::release(Value ring, Value use) { tile::ReleaseOp::create(b, ring, use); }
void KernelBuilder::fillStage(Value ring, Value use, Value view, ValueRange indices) {
  tile::FillStageOp::create(b, ring, use, view, indices, StringAttr());
}
Value KernelBuilder::gather(Value view, Value index, Value numbers) {
  auto type = cast<tile::TileType>(numbers.getType());
  Type element = cast<tile::ViewType>(view.getType()).getElement();
  return tile::GatherOp::create(
      b, fragment(type.getRows(), type.getCols(), element, type.getLayout()), view, index, numbers);
}

Value KernelBuilder::load(Value view, ValueRange indices, ArrayRef<int64_t> sizes, int64_t rows,
                          int64_t cols) {
  Type element = cast<tile::ViewType>(view.getType()).getElement();
  return tile::LoadOp::create(b, tile(rows, cols, element), view, indices, sizes);
}
void KernelBuilder::store(Value tile, Value view, ValueRange indices, ArrayRef<int64_t> sizes,
                          Value limit) {
  tile::StoreOp::create(b, tile, view, indices, limit, sizes);
}
Value KernelBuilder::loadF32(Value view, ValueRange indices, ArrayRef<int64_t> sizes, int64_t rows,
                             int64_t cols) {
  Value stored = load(view, indices, sizes, rows, cols);
  if (cast<tile::ViewType>(view.getType()).getElement().isF32())
    return stored;
  return tile::DecodeOp::create(b, tile(rows, cols), stored, tile::Format::BF16, StringAttr());
}
Value KernelBuilder::codesFor(Value view, Value value) {
  if (cast<tile::ViewType>(view.getType()).getElement().isF32())
    return value;
  auto type = cast<tile::TileType>(value.getType());
  return tile::EncodeOp::create(b, tile(type.getRows(), type.getCols(), b.getI16Type()), value,
                                tile::Format::BF16, StringAttr());
}
void KernelBuilder::storeF32(Value tile, Value view, ValueRange indices, ArrayRef<int64_t> sizes,
                             Value limit) {
  store(codesFor(view, tile), view, indices, sizes, limit);
}
Value KernelBuilder::loadScalar(Value view, ValueRange indices, Type type) {
  return tile::LoadScalarOp::create(b, type, view, indices);
}
Value KernelBuilder::loadScalar(Value view, ValueRange indices) {
  return loadScalar(view, indices, cast<tile::ViewType>(view.getType()).getElement());
}
void KernelBuilder::storeScalar(Value value, Value view, ValueRange indices) {
  tile::StoreScalarOp::create(b, value, view, indices);
}
Value KernelBuilder::reinterpret(Value bytes, Value byteOffset, tile::ViewType type) {
  return tile::ReinterpretOp::create(b, type, bytes, byteOffset);
}

//===- Tiles ----------------------------------------------------------------------------------===//

Value KernelBuilder::fill(double value, int64_t rows, int64_t cols) {
  return fill(f32(value), rows, cols);
}
Value KernelBuilder::fill(Value value, int64_t rows, int64_t cols) {
  return tile::FillOp::create(b, tile(rows, cols, value.getType()), value);
}

Value KernelBuilder::map(ValueRange inputs, int64_t rows, int64_t cols,
                         function_ref<Value(ValueRange)> body) {
  return map(inputs, tile(rows, cols), body);
}

Value KernelBuilder::map(ValueRange inputs, tile::TileType type,
                         function_ref<Value(ValueRange)> body) {
  auto map = tile::MapOp::create(b, type, inputs);
  Block &block = map.getBody().emplaceBlock();
  for (Value input : inputs)
    block.addArgument(cast<tile::TileType>(input.getType()).getElement(), b.getLoc());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&block);
  tile::YieldOp::create(b, body(block.getArguments()));
  return map;
}

Value KernelBuilder::roundedToBf16(Value tile) {
  return map(tile, cast<tile::TileType>(tile.getType()),
             [&](ValueRange args) { return round(args[0], tile::Format::BF16); });
}

Value KernelBuilder::iota(int64_t cols) {
  return tile::IotaOp::create(b, tile(1, cols, i32Type()));
}
Value KernelBuilder::scan(Value input) { return tile::ScanOp::create(b, input.getType(), input); }
void KernelBuilder::scatter(Value value, Value places, Value view, ValueRange indices) {
  tile::ScatterOp::create(b, value, places, view, indices);
}
Value KernelBuilder::sumLanes(Value input) {
  auto type = cast<tile::TileType>(input.getType());
  return tile::ReduceOp::create(b, tile(1, type.getRows(), type.getElement()),
                                tile::ReduceKind::Add, input);
}
Value KernelBuilder::reduce(tile::ReduceKind kind, Value input) {
  auto type = cast<tile::TileType>(input.getType());
  return tile::ReduceOp::create(b, tile(type.getRows(), 1, type.getElement()), kind, input);
}
Value KernelBuilder::extract(Value tile, int64_t row, int64_t col) {
  return tile::ExtractOp::create(b, cast<tile::TileType>(tile.getType()).getElement(), tile, row,
                                 col);
}
Value KernelBuilder::slice(Value input, int64_t row, int64_t col, int64_t rows, int64_t cols) {
  Type element = cast<tile::TileType>(input.getType()).getElement();
  return tile::SliceOp::create(b, tile(rows, cols, element), input, row, col);
}
Value KernelBuilder::reshape(Value input, int64_t rows, int64_t cols) {
  Type element = cast<tile::TileType>(input.getType()).getElement();
  return tile::ReshapeOp::create(b, tile(rows, cols, element), input);
}
Value KernelBuilder::transpose(Value input) {
  auto type = cast<tile::TileType>(input.getType());
  return tile::TransposeOp::create(b, tile(type.getCols(), type.getRows(), type.getElement()),
                                   input);
}
Value KernelBuilder::stack(ValueRange inputs) {
  auto type = cast<tile::TileType>(inputs.front().getType());
  int64_t rows = type.getRows() * int64_t(inputs.size());
  return tile::StackOp::create(b, tile(rows, type.getCols(), type.getElement()), inputs);
}
Value KernelBuilder::mma(Value x, Value y, Value acc) {
  return tile::MmaOp::create(b, acc.getType(), x, y, acc, tile::Side::B, StringAttr());
}
Value KernelBuilder::fma(Value x, Value y, Value acc) {
  return tile::FmaOp::create(b, acc.getType(), x, y, acc, StringAttr());
}

} // namespace m3c::kernel
