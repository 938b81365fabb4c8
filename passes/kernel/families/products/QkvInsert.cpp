// Family "qkv_insert": projections of queries, keys, values, index queries and index key in one
// product, whose epilogue works head by head: norm, rotation, rounding, and the write to the paged
// cache.
#include "passes/kernel/families/products/QkvInsert.h"
#include "passes/kernel/Families.h"
#include "passes/kernel/families/Common.h"
#include "passes/kernel/families/products/HeadEpilogue.h"
#include "passes/kernel/products/SharedProduct.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace m3c::kernel {
namespace {

enum class Role { Query, Key, Value, IndexQuery, IndexKey };

/// Heads of one projection.
struct Section {
  Role role;
  m3::ProjectOp project;
  m3::HeadNormOp norm;     ///< null for values
  m3::RopeOp rope;         ///< null for values
  m3::QuantizeOp quantize; ///< null where the value is used as it is
  mlir::Value result;      ///< m3 result of the group for queries, null for cached lanes
  int64_t heads = 0;

  /// For kernel names: how each step's value is rounded.
  std::string spellElements() const {
    auto [first, second, third, fourth] = std::tuple(project, norm, rope, quantize);
    SmallVector<Type> elements = {storedElement(first->getResult(0))};
    for (Operation *op : {second.getOperation(), third.getOperation(), fourth.getOperation()})
      if (op)
        elements.push_back(storedElement(op->getResult(0)));
    return kernel::spellElements(elements);
  }
};

struct QkvShape : HeadShape {
  llvm::SmallVector<Section> sections;
  Type element;       ///< of the rows
  int64_t handedBits; ///< of an element of the queries
  uint64_t pageBytes, slotBytes;
  m3::RopeOp rope; ///< of one of the sections
};

/// Follows a written or returned value back to its projection.
Section traceSection(Role role, mlir::Value value) {
  Section section{role, {}, {}, {}, {}, {}, 0};
  for (Operation *op = value.getDefiningOp(); op;) {
    if (auto quantize = dyn_cast<m3::QuantizeOp>(op))
      section.quantize = quantize;
    else if (auto rope = dyn_cast<m3::RopeOp>(op))
      section.rope = rope;
    else if (auto norm = dyn_cast<m3::HeadNormOp>(op))
      section.norm = norm;
    else if (auto project = dyn_cast<m3::ProjectOp>(op)) {
      section.project = project;
      break;
    }
    op = op->getOperand(0).getDefiningOp();
  }
  return section;
}

bool isCached(Role role) {
  return role == Role::Key || role == Role::Value || role == Role::IndexKey;
}

/// Parameters: counts, positions, sequence of row, page table, x [rows,K], rotary table, weight…,
/// then per section: norm weight (not for values), and the query buffer or the pool at the layer's
/// first slot.
SmallVector<Type> parameterTypes(MLIRContext *context, const QkvShape &shape,
                                 const PackedWeight &weight, const Schedule &schedule) {
  SmallVector<Type> types = {countsType(context),
                             listType(context),
                             listType(context),
                             listType(context),
                             multipliedType(context, weight, schedule, shape.element),
                             rowsType(context, shape.rotary)};
  llvm::append_range(types, weightParameterTypes(context, weight));
  for (const Section &section : shape.sections) {
    if (section.role != Role::Value)
      types.push_back(vectorType(context, shape.headDim));
    types.push_back(isCached(section.role) ? bytesType(context) : rowsType(section.result));
  }
  return types;
}

/// Work item: a head × a block of rows.
class QkvKernel {
public:
  QkvKernel(KernelBuilder &kb, const QkvShape &shape, const PackedWeight &weight,
            const Schedule &schedule)
      : kb(kb), shape(shape), schedule(schedule), panels(schedule.at("panels")),
        panelsPerHead(shape.headDim / panelOutputs),
        chunk(HeadEpilogue::fitChunk(schedule.at("chunk"), shape)), next(6),
        view(bindWeight(kb, weight, next)), zero(kb.index(0)),
        rows(kb.loadIndex(kb.parameter(0), {zero})), item(kb.blockId(tile::Axis::X)),
        block(kb, schedule, rows) {}

  void emit() {
    if (schedule.count("one_tile"))
      return heads();
    kb.when(kb.less(block.begin, block.end), [&] { heads(); });
  }

private:
  void heads() {
    if (usesFragments(schedule) && panels == panelsPerHead &&
        HeadEpilogue::staysInRegisters(shape, chunk))
      return headsInRegisters();
    headsInMemory();
  }

  /// A warp that has a row's sums of a whole head goes on with them.
  void headsInRegisters() {
    product(zero, [&](Value acc, Value row) {
      finishRow(row, [&] { return HeadEpilogue(kb, shape, chunk, acc, row); });
    });
  }

  void headsInMemory() {
    int64_t tileRows = schedule.at("rows");
    int64_t blockRows = schedule.count("one_tile") ? tileRows : schedule.at("row_block");
    int64_t headRows = llvm::divideCeil(blockRows, tileRows) * tileRows;
    Value head = kb.alloc({headRows, shape.headDim}, kb.f32Type());
    auto addPart = [&](Value part) {
      product(part, [&](Value acc, Value row) {
        auto type = cast<tile::TileType>(acc.getType());
        kb.store(acc, head, {kb.sub(row, block.begin), kb.mul(part, panelOutputs)},
                 {type.getRows(), type.getCols()});
      });
    };
    if (panels == panelsPerHead) // may wait for the launch before, which no loop may
      addPart(zero);
    else
      kb.forLoop(zero, kb.index(panelsPerHead), panels, addPart);
    kb.barrier();
    kb.eachByWarpOfCluster(block.begin, block.end, [&](Value row) {
      finishRow(
          row, [&] { return HeadEpilogue(kb, shape, chunk, head, kb.sub(row, block.begin), row); });
    });
  }

  void product(Value part, Epilogue epilogue) {
    Value panel = kb.add(kb.mul(item, panelsPerHead), part);
    emitProduct(kb, {view, kb.parameter(4), block.begin, block.end, panel, {}, schedule}, epilogue);
  }

  /// Where a row's token lies in the cache.
  struct Place {
    Value token, pageOffset;
  };
  Place placeOf(Value row) {
    Value position = kb.loadIndex(kb.parameter(1), {row});
    Value sequence = kb.loadIndex(kb.parameter(2), {row});
    Value stride = kb.loadIndex(kb.parameter(0), {kb.index(3)});
    Value page = kb.loadIndex(
        kb.parameter(3), {kb.add(kb.mul(sequence, stride), kb.div(position, m3::blockTokens))});
    Value token = kb.rem(position, m3::blockTokens);
    return {token, kb.mul(page, int64_t(shape.pageBytes))};
  }

  /// What becomes of a row of the work item's head: `begin` gives its sums.
  void finishRow(Value row, function_ref<HeadEpilogue()> begin) {
    Place place = placeOf(row);
    int64_t firstHead = 0;
    unsigned parameter = next;
    for (auto [index, section] : llvm::enumerate(shape.sections)) {
      Value norm = section.role == Role::Value ? Value() : kb.parameter(parameter++);
      Value target = kb.parameter(parameter++);
      Value inSection = kb.sub(item, kb.index(firstHead));
      // Heads of this section: firstHead ≤ item < firstHead + heads.
      Value past = kb.less(item, kb.index(firstHead + section.heads));
      Value from = kb.less(kb.index(firstHead - 1), item);
      kb.when(arith::AndIOp::create(kb.builder(), past, from), [&, index = index] {
        HeadEpilogue epilogue = begin();
        if (view.global)
          epilogue.scale(kb.loadScalar(view.global, {kb.index(index)}));
        finishHead(epilogue, section, norm, target, inSection, place);
      });
      firstHead += section.heads;
    }
  }

  void finishHead(HeadEpilogue &epilogue, const Section &section, Value norm, Value target,
                  Value inSection, const Place &place) {
    auto [project, headNorm, rope] = std::tuple(section.project, section.norm, section.rope);
    epilogue.roundTo(project.getResult());
    if (norm) {
      epilogue.norm(norm);
      epilogue.roundTo(headNorm.getResult());
      epilogue.rotate(kb.parameter(5));
      epilogue.roundTo(rope.getResult());
    }
    if (!isCached(section.role))
      return epilogue.storeQuery(target, inSection, bool(section.quantize));
    // K and V slots of a head alternate; the index key has a slot of its own.
    Value slot = section.role == Role::IndexKey ? kb.index(0) : kb.mul(inSection, 2);
    if (section.role == Role::Value)
      slot = kb.add(slot, 1);
    Value offset = kb.add(place.pageOffset, kb.mul(slot, int64_t(shape.slotBytes)));
    epilogue.storeSlot(target, offset, place.token, section.role == Role::Value);
  }

  KernelBuilder &kb;
  const QkvShape &shape;
  const Schedule &schedule;
  const int64_t panels, panelsPerHead, chunk;
  unsigned next; ///< parameter behind the weight's
  const WeightView view;
  Value zero, rows, item;
  const RowBlock block;
};

/// The group's projections, and what each value goes through.
FailureOr<QkvShape> traceGroup(m3::FusedOp fused, StepLowering &step) {
  Block &body = fused.getBody().front();
  auto write = *body.getOps<m3::CacheWriteOp>().begin();
  auto cacheOp = *step.module.getOps<planir::CacheOp>().begin();
  QkvShape shape;
  shape.handedBits = handedBits(fused);
  shape.cache = cast<m3::CacheType>(write.getCache().getType());
  shape.headDim = shape.cache.getHeadDim();
  shape.pageBytes = cacheOp.getPageBytes();
  shape.slotBytes = cacheOp.getSlotBytes();
  auto yield = cast<m3::YieldOp>(body.getTerminator());
  for (auto [i, value] : llvm::enumerate(yield.getResults())) {
    Section section = traceSection(i == 0 ? Role::Query : Role::IndexQuery, value);
    section.result = fused.getOutputs()[i];
    shape.sections.push_back(section);
  }
  shape.sections.push_back(traceSection(Role::Key, write.getKeys()));
  shape.sections.push_back(traceSection(Role::Value, write.getValues()));
  if (write.getIndexKeys())
    shape.sections.push_back(traceSection(Role::IndexKey, write.getIndexKeys()));
  for (Section &section : shape.sections) {
    if (!section.project || (section.role != Role::Value && (!section.norm || !section.rope)))
      return fused->emitError(
          "the group lacks a projection, norm or rotation of its queries or keys");
    section.heads = widthOf(section.project.getResult()) / shape.headDim;
    if (section.rope)
      shape.rope = section.rope;
    if (section.norm)
      shape.eps = section.norm.getEps().convertToDouble();
  }
  if (write.getIndexKeys() && shape.cache.getIndexDim() != shape.headDim)
    return fused->emitError("index keys are ")
           << shape.cache.getIndexDim() << " wide, heads " << shape.headDim
           << "; this kernel family needs them equal";
  shape.rotary = widthOf(shape.rope.getTable());
  m3::ProjectOp first = shape.sections[0].project;
  shape.element = storedElement(outerValue(fused, first.getX()));
  return shape;
}

/// The group by the encoding of its weights, each a launch.
SmallVector<QkvShape> byEncoding(const QkvShape &all, StepLowering &step) {
  llvm::MapVector<int, QkvShape> shapes;
  for (const Section &section : all.sections) {
    m3::ProjectOp project = section.project;
    int encoding = int(step.weightOp(project.getWeight()).weightType().getEncoding());
    auto [shape, isNew] = shapes.try_emplace(encoding, all);
    if (isNew)
      shape->second.sections.clear();
    shape->second.sections.push_back(section);
  }
  return llvm::to_vector(llvm::make_second_range(shapes));
}

SmallVector<m3::WeightOp> weightsOf(const QkvShape &shape, StepLowering &step) {
  SmallVector<m3::WeightOp> weights;
  for (const Section &section : shape.sections) {
    m3::ProjectOp project = section.project;
    weights.push_back(step.weightOp(project.getWeight()));
  }
  return weights;
}

Schedule scheduleOf(const QkvShape &shape, StepLowering &step) {
  Schedule problem = productProblem(weightsOf(shape, step), shape.element, shape.handedBits);
  problem[sharedRowsForm] = shape.headDim == 64 || shape.headDim == 128; // one work item has it
  return step.schedule("qkv_insert", problem);
}

/// The launch for the sections of `shape`, which share a storage encoding.
class QkvLowering {
public:
  QkvLowering(StepLowering &step, const QkvShape &shape, RowBuffer x, Value table, int64_t layer)
      : step(step), shape(shape), x(x), table(table), layer(layer),
        label(formatv("layers.{0}.qkv_insert", layer)) {}

  LogicalResult lower() {
    if (failed(choose()))
      return failure();
    tile::KernelOp built = kernel();
    SmallVector<LaunchArgument> launched = arguments();
    SmallVector<planir::GridDim> grid = productGrid(schedule, 0, step.rows);
    grid[0] = {0, 0};
    for (const Section &section : shape.sections)
      grid[0].count += section.heads;
    step.launch(built, launched, grid, label);
    return success();
  }

private:
  /// Packs the weight and fits the schedule to it.
  LogicalResult choose() {
    SmallVector<m3::WeightOp> weights = weightsOf(shape, step);
    schedule = scheduleOf(shape, step);
    std::string name = formatv("layers.{0}.qkv_{1}", layer,
                               m3::stringifyEncoding(weights[0].weightType().getEncoding()));
    FailureOr<PackedWeight> packed = step.pack(name, weights, false, usesFragments(schedule));
    if (failed(packed))
      return failure();
    weight = *packed;
    schedule.emplace("row_block", step.rows);
    schedule.emplace("chunk", 16);
    PackedWeight oneHead = weight;
    oneHead.panels = shape.headDim / panelOutputs;
    schedule = fitSchedule(schedule, oneHead, 1, step.rows);
    if (schedule.at("panels") == oneHead.panels)
      noteOneTile(schedule, step.rows);
    return success();
  }

  tile::KernelOp kernel() {
    std::string sections;
    for (const Section &section : shape.sections)
      sections += formatv("_{0}{1}{2}{3}", "qkvij"[int(section.role)], section.heads,
                          section.quantize ? "r" : "", section.spellElements());
    std::string name =
        formatv("qkv_insert_{0}{1}_dim{2}_{3}_page{4}{5}{6}", spell(weight), sections,
                shape.headDim, m3::stringifyCacheStorage(shape.cache.getKv()), shape.pageBytes,
                spellElements(shape.element), spell(schedule));
    return step.kernel(name, [&] {
      KernelBuilder kb(step.module, name, "qkv_insert", schedule,
                       parameterTypes(step.module.getContext(), shape, weight, schedule));
      QkvKernel(kb, shape, weight, schedule).emit();
      return kb.finish();
    });
  }

  SmallVector<LaunchArgument> arguments() {
    SmallVector<LaunchArgument> arguments;
    for (planir::BatchArray array :
         {planir::BatchArray::Counts, planir::BatchArray::Positions,
          planir::BatchArray::SequenceOfRow, planir::BatchArray::PageTable})
      arguments.push_back({step.batch(array), planir::Access::Read});
    arguments.push_back(
        {multipliedRows(step, x, weight, schedule, 0, label), planir::Access::Read});
    arguments.push_back({table, planir::Access::Read});
    addWeightArguments(step, weight, arguments);
    auto cache = *step.module.getOps<planir::CacheOp>().begin();
    for (const Section &section : shape.sections) {
      if (m3::HeadNormOp norm = section.norm)
        arguments.push_back(
            {step.weight(step.vector(step.weightOp(norm.getWeight()))), planir::Access::Read});
      if (section.role == Role::IndexKey)
        arguments.push_back({step.pool(cache.getIndexOffsets()[layer]), planir::Access::ReadWrite});
      else if (isCached(section.role))
        arguments.push_back({step.pool(cache.getKvOffsets()[layer]), planir::Access::ReadWrite});
      else
        arguments.push_back({step.makeBuffer(section.result, "query"), planir::Access::Write});
    }
    return arguments;
  }

  StepLowering &step;
  const QkvShape &shape;
  const RowBuffer x;
  const Value table;
  const int64_t layer;
  const std::string label;
  Schedule schedule;
  PackedWeight weight;
};

} // namespace

bool readsSplitRows(Operation *op, StepLowering &step) {
  auto fused = dyn_cast<m3::FusedOp>(op);
  if (!fused || fused.getKind() != "qkv_rope_insert")
    return false;
  FailureOr<QkvShape> all = traceGroup(fused, step);
  if (failed(all))
    return false;
  return llvm::all_of(byEncoding(*all, step), [&](const QkvShape &shape) {
    return isOn(scheduleOf(shape, step), splitRowsForm);
  });
}

/// m3.fused "qkv_rope_insert"(n, table, cache, batch): the queries (and index queries). One launch
/// per storage encoding; checkpoints as published need one.
LogicalResult lowerQkvInsert(Operation *op, StepLowering &step) {
  auto fused = cast<m3::FusedOp>(op);
  FailureOr<QkvShape> all = traceGroup(fused, step);
  if (failed(all))
    return failure();
  RowBuffer x = step.rowsOf(outerValue(fused, all->sections[0].project.getX()));
  Value table = step.bufferOf(outerValue(fused, all->rope.getTable()));
  int64_t layer = (*fused.getBody().front().getOps<m3::CacheWriteOp>().begin()).getLayer();
  for (const QkvShape &shape : byEncoding(*all, step))
    if (failed(QkvLowering(step, shape, x, table, layer).lower()))
      return failure();
  return success();
}

} // namespace m3c::kernel
