// Family "qkv_insert": projections of queries, keys, values, index queries and index key in one
// product, whose epilogue works head by head: norm, rotation, rounding, and the write to the paged
// cache.
#include "passes/kernel/Families.h"
#include "passes/kernel/families/Common.h"
#include "passes/kernel/families/cache/CacheSlots.h"
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
  std::string spellElements() {
    SmallVector<Type> elements = {storedElement(project->getResult(0))};
    for (Operation *op : {norm.getOperation(), rope.getOperation(), quantize.getOperation()})
      if (op)
        elements.push_back(storedElement(op->getResult(0)));
    return kernel::spellElements(elements);
  }
};

struct QkvShape {
  llvm::SmallVector<Section> sections;
  m3::CacheType cache;
  int64_t headDim, rotary;
  Type element; ///< of the rows
  uint64_t pageBytes, slotBytes;
  double eps;
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

/// What happens to one head of one row once its sums are there: all in registers, in pieces of
/// `chunk` dimensions.
class HeadEpilogue {
public:
  /// The sums are a row of `head` (shared, [rows, headDim]).
  HeadEpilogue(KernelBuilder &kb, const QkvShape &shape, int64_t chunk, Value head, Value local,
               Value row)
      : kb(kb), shape(shape), chunk(chunk), head(head), local(local), row(row) {
    pieces = loadPieces(head, local);
  }

  /// The sums are a tile [1, headDim]; only for shapes that `staysInRegisters`.
  HeadEpilogue(KernelBuilder &kb, const QkvShape &shape, int64_t chunk, Value sums, Value row)
      : kb(kb), shape(shape), chunk(chunk), row(row) {
    for (int64_t d = 0; d < shape.headDim; d += chunk)
      pieces.push_back(kb.slice(sums, 0, d, 1, chunk));
  }

  static bool staysInRegisters(const QkvShape &shape, int64_t chunk) {
    return shape.rotary / 2 % chunk == 0;
  }

  void scale(Value factor) {
    eachPiece([&](Value v) { return kb.mulf(v, factor); });
  }

  void norm(Value weight) {
    Value squares = kb.fill(0.0, 1, chunk);
    for (Value piece : pieces)
      squares = kb.fma(piece, piece, squares);
    Value sum = kb.extract(kb.reduce(tile::ReduceKind::Add, squares), 0, 0);
    Value factor = normScale(kb, sum, shape.headDim, shape.eps);
    for (auto [i, piece] : llvm::enumerate(pieces)) {
      Value w = kb.load(weight, {kb.index(int64_t(i) * chunk)}, {chunk}, 1, chunk);
      piece = kb.map({piece, w}, 1, chunk, [&](ValueRange args) {
        return kb.mulf(kb.mulf(args[0], factor), kb.addf(args[1], kb.f32(1.0)));
      });
    }
  }

  void rotate(Value table) {
    int64_t half = shape.rotary / 2;
    if (!staysInRegisters(shape, chunk))
      return rotateInMemory(table);
    int64_t count = half / chunk; // pieces
    auto part = [&](int64_t dim) {
      return kb.load(table, {row, kb.index(dim)}, {1, chunk}, 1, chunk);
    };
    for (int64_t i = 0; i < count; ++i)
      std::tie(pieces[size_t(i)], pieces[size_t(count + i)]) =
          emitRotated(kb, pieces[size_t(i)], pieces[size_t(count + i)], part(i * chunk),
                      part(half + i * chunk));
  }

  /// Rounds the head as the type of the value that it now is says.
  void roundTo(mlir::Value tensor) {
    if (!storedElement(tensor).isF32())
      eachPiece([&](Value v) { return kb.round(v, tile::Format::BF16); });
  }

  /// Writes the head to columns of a query buffer, on the E4M3 grid if asked for.
  void storeQuery(Value query, Value headIndex, bool onGrid) {
    if (onGrid)
      eachPiece(
          [&](Value v) { return kb.round(kb.round(v, tile::Format::BF16), tile::Format::E4M3); });
    for (auto [i, piece] : llvm::enumerate(pieces)) {
      Value col = kb.add(kb.mul(headIndex, shape.headDim), int64_t(i) * chunk);
      kb.storeF32(piece, query, {row, col}, {1, chunk});
    }
  }

  /// Writes the head to a slot of the row's page.
  void storeSlot(Value pool, Value slotOffset, Value token, bool values) {
    storeSlotGroups(kb, shape.cache.getKv(), shape.headDim, pool, slotOffset, token, 0, pieces,
                    values);
  }

  /// The largest part of `chunk` that cuts a head evenly; groups of 16 dimensions are quantised.
  static int64_t fitChunk(int64_t chunk, const QkvShape &shape) {
    while (shape.headDim % chunk)
      chunk /= 2;
    return chunk;
  }

private:
  Values loadPieces(Value from, Value at) {
    Values loaded;
    for (int64_t d = 0; d < shape.headDim; d += chunk)
      loaded.push_back(kb.load(from, {at, kb.index(d)}, {1, chunk}, 1, chunk));
    return loaded;
  }

  void eachPiece(llvm::function_ref<Value(Value)> function) {
    for (Value &piece : pieces)
      piece = kb.map(piece, 1, chunk, [&](ValueRange args) { return function(args[0]); });
  }

  /// Where pieces do not end at the half of the rotated dimensions.
  void rotateInMemory(Value table) {
    for (auto [i, piece] : llvm::enumerate(pieces))
      kb.store(piece, head, {local, kb.index(int64_t(i) * chunk)}, {1, chunk});
    emitRotate(kb, head, local, table, row, shape.rotary);
    pieces = loadPieces(head, local);
  }

  KernelBuilder &kb;
  const QkvShape &shape;
  const int64_t chunk;
  Value head, local, row;
  Values pieces;
};

bool isCached(Role role) {
  return role == Role::Key || role == Role::Value || role == Role::IndexKey;
}

/// Parameters: counts, positions, sequence of row, page table, x [rows,K], rotary table, weight…,
/// then per section: norm weight (not for values), and the query buffer or the pool at the layer's
/// first slot.
tile::KernelOp buildQkv(StepLowering &step, StringRef name, const QkvShape &shape,
                        const PackedWeight &weight, const Schedule &schedule) {
  MLIRContext *context = step.module.getContext();
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
  KernelBuilder kb(step.module, name, "qkv_insert", schedule, types);
  unsigned next = 6;
  WeightView view = bindWeight(kb, weight, next);
  Value x = kb.parameter(4), table = kb.parameter(5), zero = kb.index(0);
  Value rows = kb.loadIndex(kb.parameter(0), {zero});
  Value item = kb.blockId(tile::Axis::X);
  auto [rowBegin, rowEnd] = RowBlock(kb, schedule, rows);
  int64_t tileRows = schedule.at("rows"), panels = schedule.at("panels");
  int64_t headRows =
      llvm::divideCeil(schedule.count("one_tile") ? tileRows : schedule.at("row_block"), tileRows) *
      tileRows;
  int64_t panelsPerHead = shape.headDim / panelOutputs;
  int64_t chunk = HeadEpilogue::fitChunk(schedule.at("chunk"), shape);
  auto finishRow = [&](Value row, function_ref<HeadEpilogue()> begin) {
    Value position = kb.loadIndex(kb.parameter(1), {row});
    Value sequence = kb.loadIndex(kb.parameter(2), {row});
    Value stride = kb.loadIndex(kb.parameter(0), {kb.index(3)});
    Value page = kb.loadIndex(
        kb.parameter(3), {kb.add(kb.mul(sequence, stride), kb.div(position, m3::blockTokens))});
    Value token = kb.rem(position, m3::blockTokens);
    Value pageOffset = kb.mul(page, int64_t(shape.pageBytes));
    int64_t firstHead = 0;
    unsigned parameter = next;
    for (auto [index, section] : llvm::enumerate(shape.sections)) {
      Value norm = section.role == Role::Value ? Value() : kb.parameter(parameter++);
      Value target = kb.parameter(parameter++);
      Value inSection = kb.sub(item, kb.index(firstHead));
      auto [project, headNorm, rope] = std::tuple(section.project, section.norm, section.rope);
      auto body = [&] {
        HeadEpilogue epilogue = begin();
        if (view.global)
          epilogue.scale(kb.loadScalar(view.global, {kb.index(index)}));
        epilogue.roundTo(project.getResult());
        if (norm) {
          epilogue.norm(norm);
          epilogue.roundTo(headNorm.getResult());
          epilogue.rotate(table);
          epilogue.roundTo(rope.getResult());
        }
        if (!isCached(section.role)) {
          epilogue.storeQuery(target, inSection, bool(section.quantize));
          return;
        }
        // K and V slots of a head alternate; the index key has a slot of its own.
        Value slot = section.role == Role::IndexKey ? kb.index(0) : kb.mul(inSection, 2);
        if (section.role == Role::Value)
          slot = kb.add(slot, 1);
        Value offset = kb.add(pageOffset, kb.mul(slot, int64_t(shape.slotBytes)));
        epilogue.storeSlot(target, offset, token, section.role == Role::Value);
      };
      // Heads of this section: firstHead ≤ item < firstHead + heads.
      Value past = kb.less(item, kb.index(firstHead + section.heads));
      Value from = kb.less(kb.index(firstHead - 1), item);
      kb.when(arith::AndIOp::create(kb.builder(), past, from), body);
      firstHead += section.heads;
    }
  };
  auto product = [&](Value part, Epilogue epilogue) {
    Value panel = kb.add(kb.mul(item, panelsPerHead), part);
    emitProduct(kb, {view, x, rowBegin, rowEnd, panel, {}, schedule}, epilogue);
  };
  auto headsInMemory = [&] {
    Value head = kb.alloc({headRows, shape.headDim}, kb.f32Type());
    auto addPart = [&](Value part) {
      product(part, [&](Value acc, Value row) {
        auto type = cast<tile::TileType>(acc.getType());
        kb.store(acc, head, {kb.sub(row, rowBegin), kb.mul(part, panelOutputs)},
                 {type.getRows(), type.getCols()});
      });
    };
    if (panels == panelsPerHead) // may wait for the launch before, which no loop may
      addPart(zero);
    else
      kb.forLoop(zero, kb.index(panelsPerHead), panels, addPart);
    kb.barrier();
    kb.eachByWarpOfCluster(rowBegin, rowEnd, [&](Value row) {
      finishRow(row,
                [&] { return HeadEpilogue(kb, shape, chunk, head, kb.sub(row, rowBegin), row); });
    });
  };
  // A warp that has a row's sums of a whole head goes on with them.
  auto headsInRegisters = [&] {
    product(zero, [&](Value acc, Value row) {
      finishRow(row, [&] { return HeadEpilogue(kb, shape, chunk, acc, row); });
    });
  };
  auto heads = [&] {
    if (usesFragments(schedule) && panels == panelsPerHead &&
        HeadEpilogue::staysInRegisters(shape, chunk))
      headsInRegisters();
    else
      headsInMemory();
  };
  if (schedule.count("one_tile"))
    heads();
  else
    kb.when(kb.less(rowBegin, rowEnd), heads);
  return kb.finish();
}

} // namespace

/// m3.fused "qkv_rope_insert"(n, table, cache, batch): the queries (and index queries).
LogicalResult lowerQkvInsert(Operation *op, StepLowering &step) {
  auto fused = cast<m3::FusedOp>(op);
  Block &body = fused.getBody().front();
  auto write = *body.getOps<m3::CacheWriteOp>().begin();
  auto cacheOp = *step.module.getOps<planir::CacheOp>().begin();
  int64_t layer = write.getLayer();

  QkvShape all;
  all.cache = cast<m3::CacheType>(write.getCache().getType());
  all.headDim = all.cache.getHeadDim();
  all.pageBytes = cacheOp.getPageBytes();
  all.slotBytes = cacheOp.getSlotBytes();
  auto yield = cast<m3::YieldOp>(body.getTerminator());
  for (auto [i, value] : llvm::enumerate(yield.getResults())) {
    Section section = traceSection(i == 0 ? Role::Query : Role::IndexQuery, value);
    section.result = fused.getOutputs()[i];
    all.sections.push_back(section);
  }
  all.sections.push_back(traceSection(Role::Key, write.getKeys()));
  all.sections.push_back(traceSection(Role::Value, write.getValues()));
  if (write.getIndexKeys())
    all.sections.push_back(traceSection(Role::IndexKey, write.getIndexKeys()));
  m3::RopeOp rope;
  for (Section &section : all.sections) {
    if (!section.project || (section.role != Role::Value && (!section.norm || !section.rope)))
      return op->emitError("the group lacks a projection, norm or rotation of its queries or keys");
    section.heads = widthOf(section.project.getResult()) / all.headDim;
    if (section.rope)
      rope = section.rope;
    if (section.norm)
      all.eps = section.norm.getEps().convertToDouble();
  }
  if (write.getIndexKeys() && all.cache.getIndexDim() != all.headDim)
    return op->emitError("index keys are ")
           << all.cache.getIndexDim() << " wide, heads " << all.headDim
           << "; this kernel family needs them equal";
  all.rotary = widthOf(rope.getTable());
  RowBuffer x = step.rowsOf(outerValue(fused, all.sections[0].project.getX()));
  all.element = x.element;
  Value table = step.bufferOf(outerValue(fused, rope.getTable()));

  // One launch per storage encoding; checkpoints as published need one.
  llvm::MapVector<int, SmallVector<Section>> byEncoding;
  for (const Section &section : all.sections) {
    m3::ProjectOp project = section.project;
    byEncoding[int(step.weightOp(project.getWeight()).weightType().getEncoding())].push_back(
        section);
  }
  for (auto &[encoding, sections] : byEncoding) {
    QkvShape shape = all;
    shape.sections = sections;
    SmallVector<m3::WeightOp> weights;
    std::string spelled;
    int64_t heads = 0;
    for (Section &section : sections) {
      weights.push_back(step.weightOp(section.project.getWeight()));
      spelled += formatv("_{0}{1}{2}{3}", "qkvij"[int(section.role)], section.heads,
                         section.quantize ? "r" : "", section.spellElements());
      heads += section.heads;
    }
    std::string weightName =
        formatv("layers.{0}.qkv_{1}", layer, m3::stringifyEncoding(m3::Encoding(encoding)));
    Schedule problem = productProblem(weights, shape.element);
    problem[sharedRowsForm] = shape.headDim == 64 || shape.headDim == 128; // one work item has it
    Schedule schedule = step.schedule("qkv_insert", problem);
    FailureOr<PackedWeight> weight = step.pack(weightName, weights, false, usesFragments(schedule));
    if (failed(weight))
      return failure();
    schedule.emplace("row_block", step.rows);
    schedule.emplace("chunk", 16);
    PackedWeight oneHead = *weight;
    oneHead.panels = shape.headDim / panelOutputs;
    schedule = fitSchedule(schedule, oneHead, 1, step.rows);
    if (schedule.at("panels") == oneHead.panels)
      noteOneTile(schedule, step.rows);
    std::string name =
        formatv("qkv_insert_{0}{1}_dim{2}_{3}_page{4}{5}{6}", spell(*weight), spelled,
                shape.headDim, m3::stringifyCacheStorage(shape.cache.getKv()), shape.pageBytes,
                spellElements(shape.element), spell(schedule));
    tile::KernelOp kernel =
        step.kernel(name, [&] { return buildQkv(step, name, shape, *weight, schedule); });
    SmallVector<LaunchArgument> arguments;
    for (planir::BatchArray array :
         {planir::BatchArray::Counts, planir::BatchArray::Positions,
          planir::BatchArray::SequenceOfRow, planir::BatchArray::PageTable})
      arguments.push_back({step.batch(array), planir::Access::Read});
    arguments.push_back({multipliedRows(step, x.buffer, *weight, schedule, 0,
                                        formatv("layers.{0}.qkv_insert", layer).str()),
                         planir::Access::Read});
    arguments.push_back({table, planir::Access::Read});
    addWeightArguments(step, *weight, arguments);
    for (Section &section : sections) {
      if (section.norm)
        arguments.push_back({step.weight(step.vector(step.weightOp(section.norm.getWeight()))),
                             planir::Access::Read});
      if (section.role == Role::IndexKey)
        arguments.push_back(
            {step.pool(cacheOp.getIndexOffsets()[layer]), planir::Access::ReadWrite});
      else if (isCached(section.role))
        arguments.push_back({step.pool(cacheOp.getKvOffsets()[layer]), planir::Access::ReadWrite});
      else
        arguments.push_back({step.makeBuffer(section.result, "query"), planir::Access::Write});
    }
    SmallVector<planir::GridDim> grid = productGrid(schedule, 0, step.rows);
    grid[0] = {heads, 0};
    step.launch(kernel, arguments, grid, formatv("layers.{0}.qkv_insert", layer).str());
  }
  return success();
}

} // namespace m3c::kernel
