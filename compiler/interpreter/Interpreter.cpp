#include "compiler/interpreter/Interpreter.h"

#include "runtime/base/Error.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace m3c::interpreter {
namespace {

/// One run of a block: the values that are alive, and what each operation does.
class BlockRun {
public:
  BlockRun(Interpreter &interpreter, const Observer &observer, WeightSource &weights,
           unsigned threads)
      : interpreter(interpreter), observer(observer), weights(weights), threads(threads) {}

  std::vector<Value> run(Block &block, std::vector<Value> arguments) {
    for (auto [argument, value] : llvm::zip_equal(block.getArguments(), arguments))
      define(argument, std::move(value));
    arguments.clear();
    for (Operation &op : block.without_terminator()) {
      execute(&op);
      release(&op);
    }
    std::vector<Value> results;
    for (mlir::Value operand : block.getTerminator()->getOperands())
      results.push_back(lookup(operand));
    return results;
  }

private:
  void define(mlir::Value name, Value value) {
    if (name.use_empty())
      return;
    alive[name] = std::move(value);
    usesLeft[name] = unsigned(std::distance(name.use_begin(), name.use_end()));
  }
  /// A result, rounded to the element type of its tensor.
  void define(mlir::Value name, Tensor tensor) {
    if (holdsBf16(name))
      roundValues(Step::Bf16, tensor.reals);
    define(name, makeValue(std::move(tensor)));
  }
  static bool holdsBf16(mlir::Value name) {
    return cast<RankedTensorType>(name.getType()).getElementType().isBF16();
  }

  /// Drops the operands that no later operation uses.
  void release(Operation *op) {
    for (mlir::Value operand : op->getOperands())
      if (--usesLeft[operand] == 0)
        alive.erase(operand);
  }

  const Value &lookup(mlir::Value name) const {
    auto found = alive.find(name);
    if (found == alive.end())
      throw Error("the interpreter met a value that is not defined", "",
                  "operations are not in "
                  "the order of their operands");
    return found->second;
  }
  const Tensor &tensor(mlir::Value name) const {
    return *std::get<std::shared_ptr<const Tensor>>(lookup(name));
  }
  const Batch &batch(mlir::Value name) const { return *std::get<const Batch *>(lookup(name)); }
  PagedCache &cache(mlir::Value name) const { return *std::get<PagedCache *>(lookup(name)); }

  std::shared_ptr<const Matrix> weight(Operation *user, FlatSymbolRefAttr symbol,
                                       int64_t expert = 0) {
    m3::WeightOp op = m3::lookupWeight(user, symbol);
    if (!op)
      throw Error("an operation names no weight", symbol.getValue().str());
    return weights.load(op, expert);
  }

  void execute(Operation *op);
  void executeCacheOp(Operation *op);
  void executeMoe(Operation *op);
  Tensor embed(m3::EmbedOp op);
  Tensor gather(m3::GatherRowsOp op);
  Tensor add(arith::AddFOp op);
  Tensor feedForward(Operation *op, const Tensor &x, FlatSymbolRefAttr gate, FlatSymbolRefAttr up,
                     FlatSymbolRefAttr down, SwigluParams params, int64_t expert, bool bf16);
  Tensor experts(m3::ExpertsOp op);

  Interpreter &interpreter;
  const Observer &observer;
  WeightSource &weights;
  unsigned threads;
  llvm::DenseMap<mlir::Value, Value> alive;
  llvm::DenseMap<mlir::Value, unsigned> usesLeft;
};

double real(const APFloat &value) { return value.convertToDouble(); }

Tensor BlockRun::embed(m3::EmbedOp op) {
  const Batch &rows = batch(op.getBatch());
  auto table = weight(op, op.getWeightAttr());
  Tensor y = Tensor::ofReals({rows.rows(), table->cols});
  for (int64_t r = 0; r < rows.rows(); ++r) {
    int64_t id = rows.tokenIds[size_t(r)];
    if (id < 0 || id >= table->rows)
      throw Error("token id is out of range", "row " + std::to_string(r),
                  "found " + std::to_string(id) + ", the vocabulary has " +
                      std::to_string(table->rows) + " tokens");
    std::copy_n(table->values.begin() + id * table->cols, table->cols, y.row(r));
  }
  return y;
}

Tensor BlockRun::gather(m3::GatherRowsOp op) {
  const Tensor &x = tensor(op.getX());
  const Batch &rows = batch(op.getBatch());
  Tensor y = Tensor::ofReals({int64_t(rows.logitRows.size()), x.width()});
  for (size_t i = 0; i < rows.logitRows.size(); ++i)
    std::copy_n(x.row(rows.logitRows[i]), x.width(), y.row(int64_t(i)));
  return y;
}

Tensor BlockRun::add(arith::AddFOp op) {
  Tensor y = tensor(op.getLhs());
  const Tensor &b = tensor(op.getRhs());
  for (size_t i = 0; i < y.reals.size(); ++i)
    y.reals[i] += b.reals[i];
  return y;
}

Tensor BlockRun::feedForward(Operation *op, const Tensor &x, FlatSymbolRefAttr gate,
                             FlatSymbolRefAttr up, FlatSymbolRefAttr down, SwigluParams params,
                             int64_t expert, bool bf16) {
  Tensor z = swiglu(multiply(x, *weight(op, gate, expert), threads),
                    multiply(x, *weight(op, up, expert), threads), params);
  if (bf16)
    roundValues(Step::Bf16, z.reals);
  Tensor y = multiply(z, *weight(op, down, expert), threads);
  if (bf16)
    roundValues(Step::Bf16, y.reals);
  return y;
}

/// Experts in ascending order, so that each row adds them in the order of its ids.
Tensor BlockRun::experts(m3::ExpertsOp op) {
  const Tensor &x = tensor(op.getX()), &ids = tensor(op.getIds()), &w = tensor(op.getWeights());
  std::map<int32_t, std::vector<std::pair<int64_t, double>>> rowsOf;
  for (int64_t r = 0; r < x.rows(); ++r)
    for (int64_t i = 0; i < ids.width(); ++i)
      rowsOf[ids.ids[size_t(r * ids.width() + i)]].emplace_back(r, w.row(r)[i]);
  Tensor y = Tensor::ofReals(x.shape);
  for (const auto &[expert, list] : rowsOf) {
    Tensor part = Tensor::ofReals({int64_t(list.size()), x.width()});
    for (size_t i = 0; i < list.size(); ++i)
      std::copy_n(x.row(list[i].first), x.width(), part.row(int64_t(i)));
    Tensor out =
        feedForward(op, part, op.getGateAttr(), op.getUpAttr(), op.getDownAttr(),
                    {real(op.getAlpha()), real(op.getLimit())}, expert, holdsBf16(op.getX()));
    for (size_t i = 0; i < list.size(); ++i)
      for (int64_t d = 0; d < x.width(); ++d)
        y.row(list[i].first)[d] += list[i].second * out.row(int64_t(i))[d];
  }
  return y;
}

void BlockRun::executeMoe(Operation *op) {
  TypeSwitch<Operation *>(op)
      .Case<m3::RouteOp>([&](m3::RouteOp route) {
        auto bias = route.getBiasAttr() ? weight(op, route.getBiasAttr()) : nullptr;
        Routing routing =
            interpreter::route(tensor(route.getX()), *weight(op, route.getRouterAttr()), bias.get(),
                               int64_t(route.getTopK()), real(route.getScale()), threads);
        if (observer.experts)
          observer.experts(routing.ids);
        define(route.getIds(), std::move(routing.ids));
        define(route.getWeights(), std::move(routing.weights));
      })
      .Case<m3::ExpertsOp>([&](m3::ExpertsOp op) { define(op.getResult(), experts(op)); })
      .Case<m3::SharedExpertOp>([&](m3::SharedExpertOp op) {
        define(op.getResult(),
               feedForward(op, tensor(op.getX()), op.getGateAttr(), op.getUpAttr(),
                           op.getDownAttr(), {real(op.getAlpha()), real(op.getLimit())}, 0,
                           holdsBf16(op.getX())));
      })
      .Default([](Operation *op) {
        throw Error("the interpreter does not know an operation",
                    op->getName().getStringRef().str());
      });
}

void BlockRun::executeCacheOp(Operation *op) {
  TypeSwitch<Operation *>(op)
      .Case<m3::CacheWriteOp>([&](m3::CacheWriteOp op) {
        writeCache(cache(op.getCache()), batch(op.getBatch()), int64_t(op.getLayer()),
                   tensor(op.getKeys()), tensor(op.getValues()),
                   op.getIndexKeys() ? &tensor(op.getIndexKeys()) : nullptr);
      })
      .Case<m3::IndexScoreOp>([&](m3::IndexScoreOp op) {
        define(op.getScores(), indexScores(tensor(op.getQuery()), cache(op.getCache()),
                                           batch(op.getBatch()), int64_t(op.getLayer()), threads));
      })
      .Case<m3::BlockTopkOp>([&](m3::BlockTopkOp op) {
        define(op.getBlocks(),
               blockTopk(tensor(op.getScores()), batch(op.getBatch()), int64_t(op.getK()),
                         int64_t(op.getInit()), int64_t(op.getLocal())));
      })
      .Case<m3::SparseAttentionOp>([&](m3::SparseAttentionOp op) {
        const Tensor &blocks = tensor(op.getBlocks());
        if (observer.blocks)
          observer.blocks(int64_t(op.getLayer()), blocks);
        define(op.getResult(),
               attention(tensor(op.getQuery()), cache(op.getCache()), batch(op.getBatch()),
                         int64_t(op.getLayer()), real(op.getScale()), &blocks, threads));
      })
      .Case<m3::DenseAttentionOp>([&](m3::DenseAttentionOp op) {
        define(op.getResult(),
               attention(tensor(op.getQuery()), cache(op.getCache()), batch(op.getBatch()),
                         int64_t(op.getLayer()), real(op.getScale()), nullptr, threads));
      })
      .Default([&](Operation *op) { executeMoe(op); });
}

void BlockRun::execute(Operation *op) {
  TypeSwitch<Operation *>(op)
      .Case<m3::EmbedOp>([&](m3::EmbedOp op) { define(op.getRows(), embed(op)); })
      .Case<m3::RopeTableOp>([&](m3::RopeTableOp op) {
        define(op.getTable(),
               ropeTable(batch(op.getBatch()), real(op.getTheta()), int64_t(op.getRotary())));
      })
      .Case<m3::NormOp, m3::HeadNormOp>([&](auto op) {
        define(op.getResult(),
               gemmaNorm(tensor(op.getX()), *weight(op, op.getWeightAttr()), real(op.getEps())));
      })
      .Case<m3::ProjectOp>([&](m3::ProjectOp op) {
        define(op.getResult(),
               multiply(tensor(op.getX()), *weight(op, op.getWeightAttr()), threads));
      })
      .Case<m3::RopeOp>([&](m3::RopeOp op) {
        define(op.getResult(),
               rotate(tensor(op.getX()), tensor(op.getTable()), int64_t(op.getHeads())));
      })
      .Case<m3::QuantizeOp>([&](m3::QuantizeOp op) {
        define(op.getResult(), quantize(tensor(op.getX()), stepOf(op.getGrid())));
      })
      .Case<m3::DequantizeOp>(
          [&](m3::DequantizeOp op) { define(op.getResult(), lookup(op.getX())); })
      .Case<m3::SwigluOp>([&](m3::SwigluOp op) {
        define(op.getResult(), swiglu(tensor(op.getGate()), tensor(op.getUp()),
                                      {real(op.getAlpha()), real(op.getLimit())}));
      })
      .Case<m3::GatherRowsOp>([&](m3::GatherRowsOp op) { define(op.getResult(), gather(op)); })
      .Case<m3::ArgmaxOp>(
          [&](m3::ArgmaxOp op) { define(op.getIds(), argmax(tensor(op.getLogits()))); })
      .Case<m3::SampleOp>([&](m3::SampleOp op) {
        define(op.getIds(), sample(tensor(op.getLogits()), tensor(op.getTemperature()),
                                   tensor(op.getUniform())));
      })
      .Case<arith::AddFOp>([&](arith::AddFOp op) { define(op.getResult(), add(op)); })
      .Case<arith::ExtFOp, arith::TruncFOp>(
          [&](auto op) { define(op.getResult(), Tensor(tensor(op.getIn()))); })
      .Case<m3::FusedOp>([&](m3::FusedOp op) {
        std::vector<Value> inputs;
        for (mlir::Value input : op.getInputs())
          inputs.push_back(lookup(input));
        std::vector<Value> outputs = interpreter.run(op, std::move(inputs));
        for (auto [result, output] : llvm::zip_equal(op.getOutputs(), outputs))
          define(result, std::move(output));
      })
      .Default([&](Operation *op) { executeCacheOp(op); });
}

} // namespace

std::vector<Value> Interpreter::run(Block &block, std::vector<Value> arguments) {
  if (block.getNumArguments() != arguments.size())
    throw Error("the interpreter was given the wrong number of values", "",
                "expected " + std::to_string(block.getNumArguments()) + ", found " +
                    std::to_string(arguments.size()));
  return BlockRun(*this, observer, weights, threads).run(block, std::move(arguments));
}

CacheShape cacheShape(m3::CacheType type) {
  CacheShape shape{type.getLayers(), type.getKvHeads(), type.getHeadDim(), type.getIndexDim(),
                   Step::None};
  switch (type.getKv()) {
  case m3::CacheStorage::F32:
    break;
  case m3::CacheStorage::BF16:
    shape.stored = Step::Bf16;
    break;
  case m3::CacheStorage::FP8:
    shape.stored = Step::E4m3;
    break;
  case m3::CacheStorage::NVFP4:
    shape.stored = type.getGrid() == m3::CacheGrid::E4M3 ? Step::Nvfp4E4m3 : Step::Nvfp4;
    break;
  }
  return shape;
}

Step stepOf(m3::Grid grid) {
  switch (grid) {
  case m3::Grid::BF16:
    return Step::Bf16;
  case m3::Grid::E4M3:
    return Step::E4m3;
  case m3::Grid::NVFP4:
    return Step::Nvfp4;
  case m3::Grid::NVFP4E4M3:
    return Step::Nvfp4E4m3;
  case m3::Grid::MXFP8:
    return Step::Mxfp8;
  }
  return Step::None;
}

} // namespace m3c::interpreter
