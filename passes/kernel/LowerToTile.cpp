#include "passes/kernel/Passes.h"

#include "passes/graph/Passes.h"
#include "passes/kernel/StepLowering.h"
#include "passes/kernel/families/cache/MatrixTiles.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace m3c::kernel {
#define GEN_PASS_DEF_LOWERTOTILE
#include "passes/kernel/Passes.h.inc"

namespace {

constexpr int64_t mostRows = 65536; // of a bucket, as in m3c compile --buckets

struct LowerToTilePass : impl::LowerToTileBase<LowerToTilePass> {
  using LowerToTileBase::LowerToTileBase;

  void runOnOperation() override {
    if (failed(run()))
      signalPassFailure();
  }

  LogicalResult run() {
    ModuleOp module = getOperation();
    auto [target, row] = findChip(module, chip);
    if (!target)
      return failure();
    func::FuncOp function;
    for (auto candidate : module.getOps<func::FuncOp>())
      if (candidate->hasAttr(m3::stepAttr))
        function = candidate;
    if (!function)
      return module.emitError("no function of the module is marked as a step (")
             << m3::stepAttr << ")";
    if (failed(checkStep(function)))
      return failure();
    for (auto weight : module.getOps<m3::WeightOp>())
      if (weight.getParts().empty())
        return weight.emitError("has no parts: the recipe of a weight buffer needs the checkpoint "
                                "tensors that it is made of");
    Schedule choices;
    if (failed(readOverrides(choices)))
      return failure();

    OpBuilder builder(module.getContext());
    builder.setInsertionPointToEnd(module.getBody());
    makeCache(function, builder);
    auto program = planir::ProgramOp::create(builder, module.getLoc(), function.getSymName());
    if (program.getBody().empty())
      program.getBody().emplaceBlock();
    SmallVector<int64_t> rows(buckets.begin(), buckets.end());
    if (auto formed = module->getAttrOfType<DenseI64ArrayAttr>(graph::bucketsAttr);
        rows.empty() && formed)
      rows.assign(formed.asArrayRef().begin(), formed.asArrayRef().end());
    if (rows.empty())
      return module.emitError("no bucket of rows is given; run m3-form-buckets or pass buckets=");
    for (int64_t bucketRows : rows) // plan.bucket holds that they rise
      if (bucketRows < 1 || bucketRows > mostRows)
        return module.emitError("a bucket of ")
               << bucketRows << " rows: from 1 to " << mostRows << " are possible";
    // A module symbol keeps its name while the function still has it.
    function.setSymName((function.getSymName() + ".m3").str());
    for (int64_t bucketRows : rows)
      if (failed(lowerBucket(function, program, bucketRows, *target, *row, choices)))
        return failure();
    function.erase();
    for (auto weight : llvm::make_early_inc_range(module.getOps<m3::WeightOp>()))
      weight.erase();
    // The program comes last, after kernels that buckets added.
    program->moveAfter(&module.getBody()->back());
    for (tile::KernelOp kernel : module.getOps<tile::KernelOp>()) {
      (void)kernel;
      ++kernels;
    }
    return success();
  }

  /// What is read and written has a buffer: tensors that nothing in the step makes have none.
  static LogicalResult checkStep(func::FuncOp function) {
    if (function.isExternal())
      return function.emitError("the step has no body");
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
      if (isa<TensorType>(type))
        return function.emitError("argument ")
               << i << " of the step is a tensor: a step takes its batch and a cache";
    if (function.getNumResults() != 1)
      return function.emitError("the step has ")
             << function.getNumResults() << " results, one is needed: the logits";
    return success();
  }

  /// Choices that are on or off, with switchableForms(); numbers that may be 0.
  static constexpr StringLiteral switches[] = {"all_rows", "apart",      "flat",  "meet",
                                               "pair",     "roll",       "split", "straight",
                                               "widen",    "with_router"};
  static constexpr StringLiteral numbersFromNone[] = {"ahead", "early", "product", "ring"};
  static bool isSwitch(StringRef choice) {
    return llvm::is_contained(switches, choice) ||
           llvm::any_of(switchableForms(),
                        [&](const SwitchableForm &form) { return form.form == choice; });
  }
  static bool canBeNone(StringRef choice) {
    return isSwitch(choice) || llvm::is_contained(numbersFromNone, choice) ||
           choice.ends_with("_registers");
  }
  static int64_t mostOf(StringRef choice) {
    return choice == "product"        ? int64_t(CodeProduct::Groups)
           : choice == "early"        ? 2
           : choice == "rows_at_once" ? 1 << 20
                                      : 4096;
  }
  static constexpr StringLiteral powersOfTwo[] = {"k_chunk", "k_split", "keys", "lanes",
                                                  "value_dims"};

  LogicalResult readOverrides(Schedule &choices) {
    for (const std::string &text : overrides) {
      auto [name, number] = StringRef(text).split('=');
      int64_t value;
      if (number.getAsInteger(10, value) || !name.contains('.'))
        return getOperation().emitError("schedule choice '")
               << text << "' is not of the form family.choice=number";
      StringRef choice = name.split('.').second;
      int64_t least = canBeNone(choice) ? 0 : 1, most = mostOf(choice);
      if (isSwitch(choice) && value > 1)
        return getOperation().emitError("0 (off) or 1 (on) is needed for ") << choice;
      if (value < least || value > most)
        return getOperation().emitError("a number of ")
               << choice << " from " << least << " to " << most << " is needed";
      bool ofProduct = !name.starts_with("attention") && !name.starts_with("index_") &&
                       !name.starts_with("block_");
      if (ofProduct && choice == "ring")
        return getOperation().emitError("a product has other choices with a ring than without one; "
                                        "the target's table decides");
      if (((ofProduct && choice == "warps") || llvm::is_contained(powersOfTwo, choice)) &&
          !llvm::isPowerOf2_64(uint64_t(value)))
        return getOperation().emitError("a power of two is needed for ") << choice;
      // A chunk that crosses the end of a page would read what lies behind it.
      bool ofPage = name == "attention.chunk" || name == "index_score.chunk";
      if (ofPage && (value < 1 || m3::blockTokens % value))
        return getOperation().emitError("a chunk divides the ")
               << m3::blockTokens << " tokens of a page";
      choices[name.str()] = value;
    }
    return success();
  }

  /// Page layout: layer after layer the K and V slots of every head, then the index key's slot
  /// where a layer has one; the slot sizes are those of docs/plan-format.md.
  void makeCache(func::FuncOp function, OpBuilder &builder) {
    m3::CacheType type;
    for (Type argument : function.getArgumentTypes())
      if (auto cache = dyn_cast<m3::CacheType>(argument))
        type = cache;
    if (!type)
      return;
    SmallVector<bool> indexed(type.getLayers(), false);
    function.walk([&](m3::CacheWriteOp write) {
      if (write.getIndexKeys())
        indexed[write.getLayer()] = true;
    });
    function.walk([&](m3::IndexScoreOp score) { indexed[score.getLayer()] = true; });
    int64_t slot = slotBytes(type.getKv(), type.getHeadDim());
    int64_t indexSlot = type.getIndexDim() ? slotBytes(type.getKv(), type.getIndexDim()) : 0,
            end = 0;
    SmallVector<int64_t> kv, index;
    for (bool hasIndex : indexed) {
      kv.push_back(end);
      end += 2 * type.getKvHeads() * slot;
      index.push_back(hasIndex ? end : -1);
      end += hasIndex ? indexSlot : 0;
    }
    auto kind = *planir::symbolizeCacheType(m3::stringifyCacheStorage(type.getKv()));
    auto grid = *planir::symbolizeCacheGrid(m3::stringifyCacheGrid(type.getGrid()));
    planir::CacheOp::create(builder, function.getLoc(), kind, grid, m3::blockTokens, end, slot, kv,
                            index);
  }

  LogicalResult lowerBucket(func::FuncOp function, planir::ProgramOp program, int64_t bucketRows,
                            const Target &target, const Chip &row, const Schedule &choices) {
    OpBuilder builder = OpBuilder::atBlockEnd(&program.getBody().front());
    auto bucket = planir::BucketOp::create(builder, function.getLoc(), bucketRows, bucketRows,
                                           IntegerAttr(), IntegerAttr());
    OpBuilder body = OpBuilder::atBlockEnd(
        bucket.getBody().empty() ? &bucket.getBody().emplaceBlock() : &bucket.getBody().front());
    StepLowering step(getOperation(), getOperation(), target, row, choices, bucketRows, body);
    for (Operation &op : function.getBody().front()) {
      if (auto ret = dyn_cast<func::ReturnOp>(op)) {
        planir::OutputOp::create(step.bucket, op.getLoc(), step.bufferOf(ret.getOperand(0)));
        break;
      }
      Family lower = findFamily(&op);
      if (!lower)
        return op.emitError("no kernel family lowers this operation; run the fusion passes before "
                            "m3-to-tile, or add a family (passes/kernel/Families.cpp)");
      if (failed(lower(&op, step)))
        return failure();
    }
    launches += step.launches;
    return success();
  }
};

} // namespace

int64_t slotBytes(m3::CacheStorage storage, int64_t dims) {
  switch (storage) {
  case m3::CacheStorage::F32:
    return m3::blockTokens * dims * 4;
  case m3::CacheStorage::BF16:
    return m3::blockTokens * dims * 2;
  case m3::CacheStorage::FP8:
    return m3::blockTokens * dims;
  case m3::CacheStorage::NVFP4:
    return m3::blockTokens * (dims / 2 + dims / 16);
  }
  llvm_unreachable("cache storage");
}

} // namespace m3c::kernel
