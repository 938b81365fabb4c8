// Family "index_topk": block scores of the index queries, then the k best blocks of each row.
#include "passes/kernel/Families.h"
#include "passes/kernel/Product.h"
#include "passes/kernel/families/CachePages.h"
#include "passes/kernel/families/Common.h"
#include "passes/kernel/families/matrix/IndexMatrix.h"
#include "passes/kernel/families/matrix/SelectWarps.h"
#include "passes/kernel/families/tensor/IndexTensor.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace m3c::kernel {
namespace {

constexpr float lowest = -std::numeric_limits<float>::infinity();

//===- Scores ---------------------------------------------------------------------------------===//

/// Parameters: batch rows, index queries [rows, heads, dims], pool (at the layer's index slot),
/// scores [rows · heads · page-table row length]. Work item: a tile of rows × a chunk of blocks.
/// Without a ring the codes pass through registers once, for one row; with it a stage of keys is
/// dequantised for all rows of the tile.
class ScoreKernel {
public:
  ScoreKernel(KernelBuilder &kb, const CachePages &cache, const IndexShape &shape,
              const Schedule &schedule)
      : kb(kb), cache(cache), shape(shape), tileRows(schedule.at("rows")),
        keys(schedule.at("keys")), heads(dividing(shape.heads, schedule.at("heads"))),
        chunk(schedule.at("chunk")), stages(schedule.at("ring")), lanes(schedule.at("lanes")),
        blocksPerItem(schedule.at("blocks_per_item")), batch(kb), query(kb.parameter(4)),
        pool(kb.parameter(5)), scores(kb.parameter(6)) {}

  void emit() {
    best = kb.alloc({tileRows * shape.heads, keys}, kb.f32Type());
    ordered = kb.alloc({tileRows * shape.heads, shape.dims}, kb.f32Type());
    if (stages)
      ring = kb.ring(stages, {chunk, shape.dims}, kb.f32Type());
    Value begin = kb.mul(kb.blockId(tile::Axis::X), tileRows);
    Value end = kb.min(kb.add(begin, tileRows), batch.rows);
    Value firstBlock = kb.mul(kb.blockId(tile::Axis::Y), blocksPerItem);
    batch.eachRun(begin, end, tileRows, [&](Value first, Value last) {
      Value position = batch.lastPosition(first, last);
      Value blocks = kb.add(kb.div(position, m3::blockTokens), 1);
      Value lastBlock = kb.min(kb.add(firstBlock, blocksPerItem), blocks);
      kb.when(kb.less(firstBlock, lastBlock), [&] {
        if (!stages) // each page then brings the next one
          slotOf(first, firstBlock).bringAhead(kb.index(0), m3::blockTokens);
        orderQueries(first, last);
      });
      kb.forLoop(firstBlock, lastBlock, 1,
                 [&](Value block) { scoreBlock(first, last, position, block); });
    });
  }

private:
  void orderQueries(Value first, Value last) {
    eachRowHead(first, last, [&](Value row, Value head, Value slot) {
      kb.forLoop(kb.index(0), kb.index(shape.dims), 16, [&](Value d) {
        kb.store(loadInSlotOrder(kb, cache, query, {row, head, d}, {1, 1, 16}), ordered, {slot, d},
                 {1, 16});
      });
    });
  }

  /// The index keys of a block of a row's sequence.
  SlotReader slotOf(Value row, Value block) {
    Value offset = kb.mul(batch.page(row, block), cache.pageBytes);
    return SlotReader(kb, cache, Slot::Keys, shape.dims, pool, offset);
  }

  void scoreBlock(Value first, Value last, Value position, Value block) {
    eachRowHead(first, last, [&](Value, Value, Value slot) {
      kb.store(kb.fill(lowest, 1, keys), best, {slot, kb.index(0)}, {1, keys});
    });
    SlotReader slot = slotOf(first, block);
    if (stages) {
      scoreStages(first, last, position, block, slot);
    } else {
      // Pages lie anywhere: the next one is fetched while this one is computed.
      Value after = kb.min(kb.add(block, 1), kb.div(position, m3::blockTokens));
      SlotReader next = slotOf(first, after);
      scoreKeys(
          first, last, block, kb.index(0), m3::blockTokens,
          [&](Value key, Value group) { return directKeys(kb, slot, key, group, keys, lanes); },
          [&](Value key) { next.bringAhead(key, keys); });
    }
    eachRowHead(first, last, [&](Value row, Value head, Value slot) {
      Value own = kb.div(batch.position(row), m3::blockTokens);
      kb.when(kb.atLeast(own, block), [&] {
        Value at = kb.add(kb.mul(kb.add(kb.mul(row, shape.heads), head), batch.tableLength), block);
        kb.storeScalar(largest(slot), scores, {at});
      });
    });
  }

  void scoreStages(Value first, Value last, Value position, Value block, SlotReader &slot) {
    kb.pipeline(kb.index(0), visibleKeys(kb, position, block), chunk, [&](Value token) {
      kb.role("dequantise", [&] {
        slot.fill(token, chunk, kb.acquire(ring));
        kb.commit(ring);
      });
      kb.role("score", [&] {
        Value stage = kb.wait(ring);
        scoreKeys(first, last, block, token, chunk, [&](Value key, Value group) {
          return stagedKeys(kb, stage, key, group, keys, lanes);
        });
        kb.release(ring);
      });
    });
  }

  void eachRowHead(Value first, Value last, function_ref<void(Value, Value, Value)> body) {
    kb.forLoop(first, last, 1, [&](Value row) {
      kb.forLoop(kb.index(0), kb.index(shape.heads), 1,
                 [&](Value head) { body(row, head, slotOf(first, row, head)); });
    });
  }
  Value slotOf(Value first, Value row, Value head) {
    return kb.add(kb.mul(kb.sub(row, first), shape.heads), head);
  }

  /// The running maximum of every row and head over `count` keys from `token` on; `perKeys` is
  /// called before each step.
  void scoreKeys(Value first, Value last, Value block, Value token, int64_t count, KeySource source,
                 function_ref<void(Value)> perKeys = {}) {
    const int64_t width = heads * keys, box[] = {heads, keys};
    Value lane = kb.iota(width);
    kb.forLoop(first, last, 1, [&](Value row) {
      Value visible = kb.sub(visibleKeys(kb, batch.position(row), block), token);
      Value limit = kb.min(visible, kb.index(count));
      kb.forLoop(kb.index(0), kb.index(shape.heads), heads, [&](Value head) {
        Value slot = slotOf(first, row, head);
        Value running = kb.load(best, {slot, kb.index(0)}, box, 1, width);
        running = kb.forLoop(kb.index(0), limit, keys, running, [&](Value key, ValueRange carried) {
          if (perKeys)
            perKeys(key);
          Value dots = emitDots(kb, source, key, keys, ordered, slot, heads, lanes);
          Value seen = kb.toI32(kb.sub(limit, key));
          return Values{kb.map({dots, carried[0], lane}, 1, width, [&](ValueRange args) {
            // Larger, or not a number: NaN stays, as no comparison with it holds.
            Value wins = kb.either(kb.lessf(args[1], args[0]), kb.isNan(args[0]));
            Value column = arith::AndIOp::create(kb.builder(), args[2], kb.i32(keys - 1));
            return kb.selectf(kb.both(kb.less(column, seen), wins), args[0], args[1]);
          })};
        })[0];
        kb.store(running, best, {slot, kb.index(0)}, box);
      });
    });
  }

  /// Of the lanes of one row and head; NaN if any lane is.
  Value largest(Value slot) {
    Value lanes = kb.load(best, {slot, kb.index(0)}, {1, keys}, 1, keys);
    Value nans = kb.map(lanes, 1, keys, [&](ValueRange args) {
      return kb.selectf(kb.isNan(args[0]), kb.f32(1.0), kb.f32(0.0));
    });
    Value anyNan = kb.extract(kb.reduce(tile::ReduceKind::Max, nans), 0, 0);
    Value value = kb.extract(kb.reduce(tile::ReduceKind::Max, lanes), 0, 0);
    return kb.selectf(kb.lessf(kb.f32(0.0), anyNan), kb.f32(std::nanf("")), value);
  }

  KernelBuilder &kb;
  const CachePages &cache;
  const IndexShape &shape;
  const int64_t tileRows, keys, heads, chunk, stages, lanes, blocksPerItem;
  BatchRows batch;
  Value query, pool, scores, best, ordered, ring;
};

//===- Selection ------------------------------------------------------------------------------===//

/// Parameters: batch rows, scores, selection [rows, heads, k]. Work item: one row and head.
///
/// Scores become integers of the same order (NaN below all). One pass over the blocks keeps the k
/// largest in a sorted list; a block is looked at again only if its integer exceeds the k-th. A
/// second pass writes the ids above the k-th, and of those equal to it the first ones.
class SelectKernel {
public:
  SelectKernel(KernelBuilder &kb, const IndexShape &shape, bool byWarps)
      : kb(kb), shape(shape), byWarps(byWarps), padded((shape.k + lanes - 1) / lanes * lanes),
        batch(kb), scores(kb.parameter(4)), selection(kb.parameter(5)),
        keys{kb, scores, {}, {}, shape.init, shape.local} {}

  void emit() {
    row = kb.blockId(tile::Axis::X);
    head = kb.blockId(tile::Axis::Y);
    kb.when(kb.less(row, batch.rows), [&] {
      keys.base = kb.mul(kb.add(kb.mul(row, shape.heads), head), batch.tableLength);
      blocks = keys.blocks = kb.add(kb.div(batch.position(row), m3::blockTokens), 1);
      at = kb.mul(kb.add(kb.mul(row, shape.heads), head), shape.k);
      if (byWarps)
        return emitSelectByWarps(keys, shape.k, selection, at, [&] { byOneWarp(); });
      byOneWarp();
    });
  }

private:
  static constexpr int64_t lanes = 16;
  static constexpr int64_t none = SelectionKeys::none, forced = SelectionKeys::forced;

  Value constant(int64_t value) { return kb.i32(value); }

  void byOneWarp() {
    // list[0] is above everything, list[1 … k] the largest so far, descending.
    list = kb.alloc({padded + lanes}, kb.i32Type());
    group = kb.alloc({lanes}, kb.i32Type());
    writeIds(findThreshold());
  }

  Value keysOf(Value first) { return keys.of(first, 1, lanes); }

  /// The k-th largest integer, `none` if there are fewer blocks.
  Value findThreshold() {
    kb.storeScalar(constant(forced), list, {kb.index(0)});
    for (int64_t i = 0; i < padded; i += lanes)
      kb.store(kb.fill(constant(none), 1, lanes), list, {kb.index(i + 1)}, {lanes});
    return kb.forLoop(kb.index(0), blocks, lanes, constant(none),
                      [&](Value first, ValueRange carried) {
                        Value keys = keysOf(first);
                        Value top = kb.extract(kb.reduce(tile::ReduceKind::Max, keys), 0, 0);
                        return kb.choose(
                            kb.less(carried[0], top), [&] { return insert(keys, carried[0]); },
                            [&] { return Values{carried[0]}; });
                      })[0];
  }

  /// Inserts the integers of a group that exceed the k-th; the new k-th.
  Values insert(Value keys, Value threshold) {
    kb.store(keys, group, {kb.index(0)}, {lanes});
    return kb.forLoop(kb.index(0), kb.index(lanes), 1, threshold, [&](Value i, ValueRange carried) {
      Value key = kb.loadScalar(group, {i});
      return kb.choose(
          kb.less(carried[0], key),
          [&] {
            insertOne(key);
            return Values{kb.loadScalar(list, {kb.index(shape.k)})};
          },
          [&] { return Values{carried[0]}; });
    });
  }

  /// list[i] = max(list[i], min(list[i−1], key)), the last elements first.
  void insertOne(Value key) {
    for (int64_t i = padded - lanes; i >= 0; i -= lanes) {
      Value here = kb.load(list, {kb.index(i + 1)}, {lanes}, 1, lanes);
      Value before = kb.load(list, {kb.index(i)}, {lanes}, 1, lanes);
      Value moved = kb.map({here, before}, kb.tile(1, lanes, kb.i32Type()),
                           [&](ValueRange args) { return kb.max(args[0], kb.min(args[1], key)); });
      kb.store(moved, list, {kb.index(i + 1)}, {lanes});
    }
  }

  /// Ids in ascending order, then −1.
  void writeIds(Value threshold) {
    Value above = kb.forLoop(kb.index(1), kb.index(shape.k + 1), 1, kb.index(0),
                             [&](Value i, ValueRange carried) {
                               Value higher = kb.less(threshold, kb.loadScalar(list, {i}));
                               return Values{kb.selectf(higher, kb.add(carried[0], 1), carried[0])};
                             })[0];
    Value equals = kb.sub(kb.index(shape.k), above); // how many of the equal ones fit
    Value begin = kb.index(0);
    Values written = kb.forLoop(
        kb.index(0), blocks, lanes, {begin, equals}, [&](Value first, ValueRange carried) {
          Value keys = keysOf(first);
          Value top = kb.extract(kb.reduce(tile::ReduceKind::Max, keys), 0, 0);
          return kb.choose(
              kb.less(top, threshold), [&] { return Values{carried[0], carried[1]}; },
              [&] { return writeGroup(keys, first, threshold, carried[0], carried[1]); });
        });
    kb.forLoop(written[0], kb.index(shape.k), 1,
               [&](Value i) { kb.storeScalar(kb.index(-1), selection, {kb.add(at, i)}); });
  }

  Values writeGroup(Value keys, Value first, Value threshold, Value written, Value equals) {
    kb.store(keys, group, {kb.index(0)}, {lanes});
    Value end = kb.min(kb.index(lanes), kb.sub(blocks, first));
    Values init = {written, equals};
    return kb.forLoop(kb.index(0), end, 1, init, [&](Value i, ValueRange carried) {
      Value key = kb.loadScalar(group, {i});
      Value isEqual = kb.equal(key, threshold);
      Value takes =
          kb.either(kb.less(threshold, key), kb.both(isEqual, kb.less(kb.index(0), carried[1])));
      return kb.choose(
          takes,
          [&] {
            kb.storeScalar(kb.add(first, i), selection, {kb.add(at, carried[0])});
            Value left = kb.selectf(isEqual, kb.add(carried[1], -1), carried[1]);
            return Values{kb.add(carried[0], 1), left};
          },
          [&] { return Values{carried[0], carried[1]}; });
    });
  }

  KernelBuilder &kb;
  const IndexShape &shape;
  const bool byWarps;
  const int64_t padded; ///< k, in whole vectors
  BatchRows batch;
  Value scores, selection, row, head, list, group, at, blocks;
  SelectionKeys keys;
};

} // namespace

/// Of the choice of blocks; with "warps" several share a list.
static Schedule topkSchedule(StepLowering &step, int64_t k) {
  Schedule schedule = step.schedule("block_topk", {{"k", k}});
  std::optional<int64_t> byWarps = step.overrideOf("block_topk.by_warps");
  if (!byWarps || !schedule.count("warps"))
    return schedule;
  if (!*byWarps)
    return {{"by_warps", 0}};
  schedule["by_warps"] = 1;
  return schedule;
}

/// Launches the scores of `op` for the queries in `query`; gives their buffer.
static FailureOr<Value> emitIndexScore(StepLowering &step, m3::IndexScoreOp op, RowBuffer query) {
  CachePages cache(step, op.getCache().getType());
  IndexShape shape = {cache.type.getKvHeads(), cache.type.getIndexDim(), 0, 0, 0};
  MLIRContext *context = step.module.getContext();
  Type f32 = Float32Type::get(context);
  constexpr int64_t any = ShapedType::kDynamic;
  auto view = [&](ArrayRef<int64_t> sizes, Type element) {
    return tile::ViewType::get(context, sizes, element, tile::Space::Global);
  };
  bool matrix =
      shape.heads <= step.chip.matrix.columns && StagedSlot::serves(cache.type, shape.dims);
  Schedule schedule = step.schedule(
      "index_score", {{"heads", shape.heads},
                      {"dims", shape.dims},
                      {"page_bytes", cache.indexSlotBytes},
                      {"cache_bits", cache.bits()},
                      {"activation_bits", query.element.getIntOrFloatBitWidth()},
                      {"matrix", matrix},
                      {"tensor", matrix && tensorScoresServe(shape, cache.type, op.getQuery())}});
  const bool tensor = schedule.count("tensor_stages");
  matrix = schedule.count("consumers");
  std::string name = formatv("index_score_{0}_{1}x{2}{3}{4}", cache.spell(), shape.heads,
                             shape.dims, spellElements(query.element), spell(schedule));
  if (matrix && !tensor &&
      failed(checkLoaders(step.module.getLoc(), "index_score", schedule, step.chip.matrix,
                          schedule.at("consumers"))))
    return failure();
  tile::KernelOp kernel = step.kernel(name, [&] {
    SmallVector<Type> types = BatchRows::parameterTypes(context);
    SmallVector<int64_t> queries = {any, shape.heads, shape.dims};
    if (matrix || tensor)
      queries = {any, shape.dims};
    types.append({view(queries, query.element), view({any}, IntegerType::get(context, 8)),
                  view({any}, f32)});
    KernelBuilder kb(step.module, name, "index_score", schedule, types);
    if (tensor)
      emitTensorScores(kb, cache, shape, schedule);
    else if (matrix)
      emitMatrixScores(kb, cache, shape, schedule, step.chip.matrix);
    else
      ScoreKernel(kb, cache, shape, schedule).emit();
    return kb.finish();
  });
  // Whole vectors are read at the end of the last row, by several warps whole chunks.
  bool byWarps = topkSchedule(step, 1).count("warps");
  Value scores =
      step.scratch("block_scores", 0, step.rows * shape.heads * 4, byWarps ? selectChunk * 4 : 64);
  SmallVector<LaunchArgument> arguments = BatchRows::arguments(step);
  arguments.append({{query.buffer, planir::Access::Read},
                    {step.pool(cache.indexOffsets[op.getLayer()]), planir::Access::Read},
                    {scores, planir::Access::Write}});
  int64_t rows = tensor   ? schedule.at("columns") / shape.heads
                 : matrix ? matrixScoreRows(shape, step.chip.matrix)
                          : schedule.at("rows");
  int64_t tiles = llvm::divideCeil(step.rows, rows);
  planir::GridDim parts = {0, matrix || tensor ? 0 : schedule.at("blocks_per_item")};
  if (matrix || tensor)
    parts.count = schedule.at("parts");
  if (tensor && schedule.at("pair")) // a cluster of two each
    parts.count = llvm::divideCeil(parts.count, 2);
  step.launch(kernel, arguments, {{tiles, 0}, parts},
              formatv("layers.{0}.index_score", op.getLayer()).str());
  return scores;
}

/// Launches the choice of blocks by `scores` into a new buffer for `result`.
static void emitBlockTopk(StepLowering &step, m3::BlockTopkOp op, int64_t layer, Value scores,
                          Value result) {
  MLIRContext *context = step.module.getContext();
  int64_t heads = cast<RankedTensorType>(result.getType()).getDimSize(1);
  IndexShape shape = {heads, 0, int64_t(op.getK()), int64_t(op.getInit()), int64_t(op.getLocal())};
  Schedule schedule = topkSchedule(step, shape.k);
  std::string name = formatv("block_topk_{0}x{1}_{2}_{3}{4}", shape.heads, shape.k, shape.init,
                             shape.local, spell(schedule));
  tile::KernelOp kernel = step.kernel(name, [&] {
    constexpr int64_t any = ShapedType::kDynamic;
    SmallVector<Type> types = BatchRows::parameterTypes(context);
    types.append(
        {tile::ViewType::get(context, {any}, Float32Type::get(context), tile::Space::Global),
         tile::ViewType::get(context, {any}, IntegerType::get(context, 32), tile::Space::Global)});
    KernelBuilder kb(step.module, name, "block_topk", schedule, types);
    SelectKernel(kb, shape, schedule.count("warps")).emit();
    return kb.finish();
  });
  Value selection = step.makeBuffer(result, "selected_blocks");
  SmallVector<LaunchArgument> arguments = BatchRows::arguments(step);
  arguments.append({{scores, planir::Access::Read}, {selection, planir::Access::Write}});
  step.launch(kernel, arguments, {{step.rows, 0}, {shape.heads, 0}},
              formatv("layers.{0}.block_topk", layer).str());
  step.tap(planir::TapKind::Blocks, layer, shape.heads * shape.k * 4, selection);
}

/// m3.fused "index_topk"(index queries, cache, batch) -> selection.
LogicalResult lowerIndexTopk(Operation *op, StepLowering &step) {
  auto fused = cast<m3::FusedOp>(op);
  Block &body = fused.getBody().front();
  auto score = *body.getOps<m3::IndexScoreOp>().begin();
  auto topk = *body.getOps<m3::BlockTopkOp>().begin();
  FailureOr<Value> scores =
      emitIndexScore(step, score, step.rowsOf(outerValue(fused, score.getQuery())));
  if (failed(scores))
    return failure();
  emitBlockTopk(step, topk, score.getLayer(), *scores, fused.getOutputs()[0]);
  return success();
}

LogicalResult lowerIndexScore(Operation *op, StepLowering &step) {
  auto score = cast<m3::IndexScoreOp>(op);
  FailureOr<Value> scores = emitIndexScore(step, score, step.rowsOf(score.getQuery()));
  if (failed(scores))
    return failure();
  step.bind(score.getScores(), *scores);
  return success();
}

LogicalResult lowerBlockTopk(Operation *op, StepLowering &step) {
  auto topk = cast<m3::BlockTopkOp>(op);
  auto score = topk.getScores().getDefiningOp<m3::IndexScoreOp>();
  if (!score)
    return op->emitError("its scores are not those of m3.index_score");
  emitBlockTopk(step, topk, score.getLayer(), step.bufferOf(topk.getScores()), topk.getBlocks());
  return success();
}

} // namespace m3c::kernel
