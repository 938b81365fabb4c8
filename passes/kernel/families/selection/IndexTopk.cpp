// Family "index_topk": block scores of the index queries, then the k best blocks of each row.
#include "passes/kernel/Families.h"
#include "passes/kernel/families/Common.h"
#include "passes/kernel/families/cache/CachePages.h"
#include "passes/kernel/families/selection/IndexMatrix.h"
#include "passes/kernel/families/selection/IndexTensor.h"
#include "passes/kernel/families/selection/SelectBlocks.h"
#include "passes/kernel/families/selection/SelectWarps.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

namespace m3c::kernel {

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

namespace {

/// Block scores of one layer: asks for a schedule and launches the kernel that it is for.
class IndexScoreLowering {
public:
  IndexScoreLowering(StepLowering &step, m3::IndexScoreOp op, RowBuffer query)
      : step(step), op(op), query(query), cache(step, op.getCache().getType()),
        shape{cache.type.getKvHeads(), cache.type.getIndexDim(), 0, 0, 0},
        schedule(step.schedule("index_score", problem())), tensor(schedule.count("tensor_stages")),
        matrix(schedule.count("consumers")) {}

  /// The buffer of the scores.
  FailureOr<Value> lower() {
    if ((matrix || tensor) && failed(checkScoreColumns(step.module.getLoc(), shape, step.rows,
                                                       schedule, step.chip.matrix)))
      return failure();
    if (matrix && !tensor &&
        failed(checkLoaders(step.module.getLoc(), "index_score", schedule, step.chip.matrix,
                            schedule.at("consumers"))))
      return failure();
    tile::KernelOp built = kernel();
    // Whole vectors are read at the end of the last row, by several warps whole chunks.
    bool byWarps = topkSchedule(step, 1).count("warps");
    Value scores = step.scratch("block_scores", 0, step.rows * shape.heads * 4,
                                byWarps ? selectChunk * 4 : 64);
    SmallVector<LaunchArgument> arguments = BatchRows::arguments(step);
    arguments.append({{query.buffer, planir::Access::Read},
                      {step.pool(cache.indexOffsets[op.getLayer()]), planir::Access::Read},
                      {scores, planir::Access::Write}});
    step.launch(built, arguments, grid(), formatv("layers.{0}.index_score", op.getLayer()).str());
    return scores;
  }

private:
  Schedule problem() {
    const bool serves =
        shape.heads <= step.chip.matrix.columns && StagedSlot::serves(cache.type, shape.dims);
    Schedule problem = {{"heads", shape.heads},
                        {"dims", shape.dims},
                        {"page_bytes", cache.indexSlotBytes},
                        {"cache_bits", cache.bits()},
                        {"activation_bits", query.element.getIntOrFloatBitWidth()},
                        {"matrix", serves},
                        {"tensor", serves && tensorScoresServe(shape, cache.type, op.getQuery())}};
    if (std::optional<int64_t> asked = step.overrideOf("index_score.all_rows"))
      problem["all_rows"] = *asked;
    return problem;
  }

  tile::KernelOp kernel() {
    std::string name = formatv("index_score_{0}_{1}x{2}{3}{4}", cache.spell(), shape.heads,
                               shape.dims, spellElements(query.element), spell(schedule));
    return step.kernel(name, [&] {
      KernelBuilder kb(step.module, name, "index_score", schedule, parameters());
      if (tensor)
        emitTensorScores(kb, cache, shape, schedule);
      else if (matrix)
        emitMatrixScores(kb, cache, shape, schedule, step.chip.matrix);
      else
        emitPlainScores(kb, cache, shape, schedule);
      return kb.finish();
    });
  }

  SmallVector<Type> parameters() {
    MLIRContext *context = step.module.getContext();
    constexpr int64_t any = ShapedType::kDynamic;
    auto view = [&](ArrayRef<int64_t> sizes, Type element) {
      return tile::ViewType::get(context, sizes, element, tile::Space::Global);
    };
    SmallVector<int64_t> queries = {any, shape.heads, shape.dims};
    if (matrix || tensor)
      queries = {any, shape.dims};
    SmallVector<Type> types = BatchRows::parameterTypes(context);
    types.append({view(queries, query.element), view({any}, IntegerType::get(context, 8)),
                  view({any}, Float32Type::get(context))});
    return types;
  }

  /// Tiles of rows, or all rows, × parts of the blocks.
  SmallVector<planir::GridDim> grid() {
    int64_t rows = sharesAllRows(schedule) ? step.rows
                   : tensor                ? schedule.at("columns") / shape.heads
                   : matrix                ? matrixScoreRows(shape, step.chip.matrix)
                                           : schedule.at("rows");
    planir::GridDim parts = {0, matrix || tensor ? 0 : schedule.at("blocks_per_item")};
    if (matrix || tensor)
      parts.count = schedule.at("parts");
    if (tensor && schedule.at("pair")) // a cluster of two each
      parts.count = llvm::divideCeil(parts.count, 2);
    return {{int64_t(llvm::divideCeil(step.rows, rows)), 0}, parts};
  }

  StepLowering &step;
  m3::IndexScoreOp op;
  const RowBuffer query;
  const CachePages cache;
  const IndexShape shape;
  const Schedule schedule;
  const bool tensor, matrix; ///< which kernel the schedule is for; neither: the plain one
};

} // namespace

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
    emitSelection(kb, shape, schedule.count("warps"));
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
  RowBuffer query = step.rowsOf(outerValue(fused, score.getQuery()));
  FailureOr<Value> scores = IndexScoreLowering(step, score, query).lower();
  if (failed(scores))
    return failure();
  emitBlockTopk(step, topk, score.getLayer(), *scores, fused.getOutputs()[0]);
  return success();
}

LogicalResult lowerIndexScore(Operation *op, StepLowering &step) {
  auto score = cast<m3::IndexScoreOp>(op);
  FailureOr<Value> scores = IndexScoreLowering(step, score, step.rowsOf(score.getQuery())).lower();
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
