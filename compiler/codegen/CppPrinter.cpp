#include "compiler/codegen/CppPrinter.h"

#include "compiler/codegen/ScalarPrinter.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace m3c::tile;
using llvm::formatv;

namespace m3c::codegen {
namespace {

std::string elementType(Type type) {
  if (type.isF32())
    return "f32";
  if (type.isF16())
    return "f16";
  if (type.isBF16())
    return "bf16";
  if (type.isF64())
    return "f64";
  if (type.isIndex())
    return "i64";
  if (type.isInteger(1))
    return "bool";
  if (type.isInteger(8))
    return "u8";
  if (type.isInteger(16))
    return "u16";
  return formatv("i{0}", type.getIntOrFloatBitWidth());
}

std::string tileArguments(TileType type) {
  return formatv("{0}, {1}, {2}", elementType(type.getElement()), type.getRows(), type.getCols());
}

/// The operands of products with packed weights, 64 k of BF16, have short names.
bool isWeightOperand(TileType type, int64_t k) { return k == 64 && type.getElement().isBF16(); }

/// The device headers' name of a tile type.
std::string tileType(TileType type) {
  switch (type.getLayout()) {
  case Layout::Lanes:
    return "Tile<" + tileArguments(type) + ">";
  case Layout::PerLane:
    return formatv("LaneTile<{0}, {1}, {2}>", elementType(type.getElement()), type.getRows(),
                   type.getCols());
  case Layout::MmaA:
    if (type.getElement().isF32())
      return "FragmentSplit";
    if (isWeightOperand(type, type.getCols()))
      return "FragmentA";
    return formatv("OperandA<{0}, {1}>", elementType(type.getElement()), type.getCols());
  case Layout::MmaB:
    if (isWeightOperand(type, type.getRows()))
      return formatv("FragmentB<{0}>", type.getCols());
    return formatv("OperandB<{0}>", tileArguments(type));
  case Layout::MmaAcc:
    if (type.getElement().isF32())
      return formatv("FragmentAcc<{0}>", type.getCols());
    return formatv("AccOf<{0}, {1}>", elementType(type.getElement()), type.getCols());
  case Layout::MmaRows:
    return formatv("RowsOfAcc<{0}>", elementType(type.getElement()));
  case Layout::MmaColumns:
    return formatv("ColumnsOfAcc<{0}, {1}>", elementType(type.getElement()), type.getCols());
  }
  llvm_unreachable("layout");
}

/// What stands between < and > of a function that makes a tile.
std::string madeType(TileType type) {
  return type.getLayout() == Layout::Lanes ? tileArguments(type) : tileType(type);
}

std::string variableType(Type type) {
  if (auto tile = dyn_cast<TileType>(type))
    return tileType(tile);
  if (auto view = dyn_cast<ViewType>(type))
    return elementType(view.getElement()) + " *";
  return elementType(type);
}

/// Walks one kernel and writes its text.
class Printer {
public:
  Printer(KernelOp kernel, const EntryStyle &style) : kernel(kernel), style(style) {}

  FailureOr<std::string> run();

private:
  std::string name(Value value) {
    auto found = names.find(value);
    assert(found != names.end() && "used before it was printed");
    return found->second;
  }
  std::string fresh(Value value, StringRef stem) {
    return names[value] = formatv("{0}{1}", stem, counter++);
  }
  void line(const Twine &text) {
    (out += std::string(size_t(2) * indent, ' ') + text.str()) += "\n";
  }
  /// `auto NAME = EXPRESSION;  // op (line)`
  void define(Operation *op, StringRef stem, const Twine &expression) {
    std::string text = expression.str();
    line("auto " + fresh(op->getResult(0), stem) + " = " + text + ";" + origin(op));
  }
  std::string origin(Operation *op) {
    if (auto loc = dyn_cast<FileLineColLoc>(op->getLoc()))
      return formatv("  // {0}, line {1}", op->getName().getStringRef(), loc.getLine());
    return "  // " + op->getName().getStringRef().str();
  }
  std::string list(ValueRange values) {
    SmallVector<std::string> texts;
    for (Value value : values)
      texts.push_back(name(value));
    return llvm::join(texts, ", ");
  }

  /// Pointer to an element of a view.
  std::string address(Value view, ValueRange indices);
  /// The device function of the selected atom; without one, that of the op itself.
  static std::string atomCall(std::optional<StringRef> atom, StringRef plain) {
    return (atom ? *atom : plain).str();
  }

  LogicalResult block(Block &block);
  LogicalResult op(Operation *op);
  LogicalResult forLoop(scf::ForOp loop);
  LogicalResult ifBranch(scf::IfOp branch);
  LogicalResult pipeline(PipelineOp pipeline);
  LogicalResult roles(RolesOp roles);
  std::string use(Value number) { return number ? name(number) : ""; }
  LogicalResult map(MapOp map);
  LogicalResult memory(Operation *op);
  LogicalResult arithmetic(Operation *op);
  void assign(ValueRange targets, ValueRange sources);

  KernelOp kernel;
  const EntryStyle &style;
  llvm::DenseMap<Value, std::string> names;
  std::string out;
  unsigned counter = 0, indent = 1;
};

FailureOr<std::string> Printer::run() {
  SmallVector<std::string> types, parameters;
  for (auto [i, argument] : llvm::enumerate(kernel.getBody().getArguments())) {
    names[argument] = formatv("p{0}", i);
    types.push_back(variableType(argument.getType()));
    parameters.push_back(names[argument]);
  }
  out = style.prologue + style.open(kernel, types, parameters);
  if (failed(block(kernel.getBody().front())))
    return failure();
  out += "}\n";
  return out;
}

LogicalResult Printer::block(Block &block) {
  for (Operation &child : block)
    if (failed(op(&child)))
      return failure();
  return success();
}

std::string Printer::address(Value view, ValueRange indices) {
  auto type = cast<ViewType>(view.getType());
  std::string text = name(view);
  for (auto [dim, index] : llvm::enumerate(indices)) {
    APInt constant;
    int64_t stride = type.getStride(dim);
    if (matchPattern(index, m_ConstantInt(&constant))) {
      if (int64_t offset = constant.getSExtValue() * stride)
        text += formatv(" + {0}", offset);
      continue;
    }
    text += stride == 1 ? formatv(" + {0}", name(index)).str()
                        : formatv(" + {0} * {1}", name(index), stride).str();
  }
  return text;
}

LogicalResult Printer::op(Operation *op) {
  if (succeeded(arithmetic(op)))
    return success();
  if (succeeded(memory(op)))
    return success();
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](scf::ForOp loop) { return forLoop(loop); })
      .Case([&](scf::IfOp branch) { return ifBranch(branch); })
      .Case([&](PipelineOp op) { return pipeline(op); })
      .Case([&](RolesOp op) { return roles(op); })
      .Case([&](MapOp op) { return map(op); })
      .Case<ReturnOp, scf::YieldOp>([](auto) { return success(); })
      .Default([&](Operation *op) -> LogicalResult {
        std::string text;
        SmallVector<std::string> operands;
        for (Value operand : op->getOperands())
          operands.push_back(name(operand));
        if (failed(printScalar(op, operands, text)))
          return op->emitOpError("has no printed form (compiler/codegen)");
        if (isa<arith::ConstantOp>(op)) { // constants stand where they are used
          names[op->getResult(0)] = text;
          return success();
        }
        line(elementType(op->getResult(0).getType()) + " " + fresh(op->getResult(0), "s") + " = " +
             text + ";");
        return success();
      });
}

LogicalResult Printer::memory(Operation *op) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](BlockIdOp op) {
        names[op.getResult()] = ("block" + stringifyAxis(op.getAxis()).upper());
        return success();
      })
      .Case([&](WarpIdOp op) {
        line("i64 " + fresh(op.getResult(), "warp") + " = warpId();" + origin(op));
        return success();
      })
      .Case([&](ClusterRankOp op) {
        line("i64 " + fresh(op.getResult(), "rank") + " = clusterRank();" + origin(op));
        return success();
      })
      .Case([&](ClusterBarrierOp op) {
        line("clusterBarrier();" + origin(op));
        return success();
      })
      .Case([&](ArriveOp op) {
        line(formatv("bool {0} = arriveLast({1}, {2});", fresh(op.getResult(), "last"),
                     address(op.getView(), op.getIndices()), name(op.getExpected())) +
             origin(op));
        return success();
      })
      .Case([&](PeerOp op) {
        define(op, "peer", formatv("peer({0}, {1})", name(op.getSource()), name(op.getRank())));
        return success();
      })
      .Case([&](StoreTransposedOp op) {
        line(formatv("storeTransposed({0}, {1}, {2});", name(op.getValue()),
                     address(op.getView(), op.getIndices()),
                     op.getView().getType().getStride(op.getIndices().size() - 2)) +
             origin(op));
        return success();
      })
      .Case([&](AllocOp op) -> LogicalResult {
        if (!op.getOffset())
          return op.emitOpError("has no offset; run tile-assign-shared");
        std::string type = elementType(op.getView().getType().getElement());
        define(op, "buf", formatv("({0} *)((u8 *)shared + {1})", type, *op.getOffset()));
        return success();
      })
      .Case([&](RingOp op) -> LogicalResult {
        if (!op.getOffset())
          return op.emitOpError("has no offset; run tile-assign-shared");
        RingType type = op.getRing().getType();
        int64_t elements = type.getByteSize() / type.getStages() / elementBytes(type.getElement());
        std::string drained = op.getAsync() ? formatv(", {0}", *op.getAsync()).str() : "";
        define(op, "ring",
               formatv("{0}Ring<{1}, {2}, {3}{4}>(({1} *)((u8 *)shared + {5}))",
                       op.getAsync() ? "Async" : "", elementType(type.getElement()),
                       type.getStages(), elements, drained, *op.getOffset()));
        return success();
      })
      .Case([&](RingMemoryOp op) {
        define(op, "buf",
               formatv("({0} *){1}.base", elementType(op.getView().getType().getElement()),
                       name(op.getRing())));
        return success();
      })
      .Case([&](FillStageOp op) {
        line(formatv("{0}.fill({1}, {2});", name(op.getRing()), name(op.getUse()),
                     address(op.getView(), op.getIndices())) +
             origin(op));
        return success();
      })
      .Case([&](ReinterpretOp op) {
        define(op, "view",
               formatv("({0} *)({1} + {2})", elementType(op.getView().getType().getElement()),
                       name(op.getSource()), name(op.getByteOffset())));
        return success();
      })
      .Case([&](LoadOp op) {
        TileType type = op.getResult().getType();
        if (inRegisterOrder(type, op.getSizes())) {
          define(op, "t",
                 formatv("loadRegisters<{0}>({1})", tileType(type),
                         address(op.getView(), op.getIndices())));
          return success();
        }
        if (type.getLayout() != Layout::Lanes) {
          ViewType view = op.getView().getType();
          size_t rank = view.getShape().size();
          std::string rows;
          if (op.getLimit())
            rows = formatv(", {0} - {1}", name(op.getLimit()), name(op.getIndices()[0]));
          define(op, "t",
                 formatv("load<{0}>({1}, {2}{3})", tileType(type),
                         address(op.getView(), op.getIndices()),
                         rank > 1 ? view.getStride(unsigned(rank) - 2) : 0, rows));
          return success();
        }
        BoxLayout box = *boxLayout(op.getView().getType(), op.getSizes());
        define(op, "t",
               formatv("load<{0}, {1}>({2}, {3})", tileArguments(op.getResult().getType()),
                       box.length, address(op.getView(), op.getIndices()), box.stride));
        return success();
      })
      .Case([&](StoreOp op) {
        TileType type = op.getValue().getType();
        if (inRegisterOrder(type, op.getSizes()) || type.getLayout() == Layout::MmaRows) {
          line(formatv("storeRegisters({0}, {1});", name(op.getValue()),
                       address(op.getView(), op.getIndices())) +
               origin(op));
          return success();
        }
        BoxLayout box = *boxLayout(op.getView().getType(), op.getSizes(), bool(op.getLimit()));
        std::string rows;
        if (op.getLimit())
          rows = formatv(", {0} - {1}", name(op.getLimit()), name(op.getIndices()[0]));
        line(formatv("store<{0}>({1}, {2}, {3}{4});", box.length, name(op.getValue()),
                     address(op.getView(), op.getIndices()), box.stride, rows) +
             origin(op));
        return success();
      })
      .Case([&](LoadScalarOp op) {
        line(formatv("{0} {1} = loadScalar({2});", elementType(op.getResult().getType()),
                     fresh(op.getResult(), "e"), address(op.getView(), op.getIndices())) +
             origin(op));
        return success();
      })
      .Case([&](StoreScalarOp op) {
        line(formatv("storeScalar({0}, {1});", address(op.getView(), op.getIndices()),
                     name(op.getValue())) +
             origin(op));
        return success();
      })
      .Case([&](CopyOp op) {
        line(
            formatv("copyAhead<{0}>({1});", op.getBytes(), address(op.getView(), op.getIndices())) +
            origin(op));
        return success();
      })
      .Case([&](GatherOp op) {
        define(op, "t",
               formatv("gatherAt({0}, {1})", address(op.getView(), op.getIndices()),
                       name(op.getNumbers())));
        return success();
      })
      .Case([&](StoreColumnsOp op) {
        line(formatv("storeColumns({0}, {1}, {2}, {3});", name(op.getValue()),
                     address(op.getView(), op.getIndices()), name(op.getStride()),
                     name(op.getLimit())) +
             origin(op));
        return success();
      })
      .Case([&](StoreSpreadOp op) {
        line(formatv("storeSpread<{0}>({1}, {2}, {3}, {4});", op.getSpread(), name(op.getValue()),
                     address(op.getView(), op.getIndices()), op.getView().getType().getStride(0),
                     name(op.getLimit())) +
             origin(op));
        return success();
      })
      .Case([&](CodeTableOp op) {
        auto role = op->getParentOfType<RoleOp>();
        int64_t first = role ? role.firstWarp() : 0;
        int64_t warps = int64_t(role ? *role.getWarps() : kernel.getWarps().value_or(1));
        line(formatv("fillCodeTable<{0}, {1}>({2});", first, warps, address(op.getView(), {})) +
             origin(op));
        return success();
      })
      .Case([&](LoadCachedOp op) {
        std::string plain = formatv("cached_{0}", stringifyFormat(op.getFormat()));
        std::string arguments = address(op.getCodes(), op.getToken());
        if (op.getScales()) {
          int64_t groups =
              op.getScales().getType().getShape()[0] / op.getCodes().getType().getShape()[0];
          arguments += formatv(", {0} + {1} * {2}, {3}", name(op.getScales()), name(op.getToken()),
                               groups, name(op.getTable()));
        }
        if (op.getLimit())
          arguments += ", " + name(op.getLimit());
        define(op, "b",
               formatv("{0}<{1}>({2})", atomCall(op.getAtom(), plain),
                       tileType(op.getResult().getType()), arguments));
        return success();
      })
      .Case([&](BarrierOp op) {
        auto role = op->getParentOfType<RoleOp>();
        if (role && isa<RolesOp>(role->getParentOp())) {
          auto roles = role->getBlock()->getOps<RoleOp>();
          int64_t number = 1 + std::distance(roles.begin(), llvm::find(roles, role));
          line(formatv("barrierOf({0}, {1});", number, 32 * *role.getWarps()) + origin(op));
          return success();
        }
        line("barrier();" + origin(op));
        return success();
      })
      .Case([&](AcquireOp op) {
        define(op, "stage", name(op.getRing()) + ".acquire(" + use(op.getUse()) + ")");
        return success();
      })
      .Case([&](WaitOp op) {
        define(op, "stage", name(op.getRing()) + ".wait(" + use(op.getUse()) + ")");
        return success();
      })
      .Case([&](CommitOp op) {
        line(name(op.getRing()) + ".commit(" + use(op.getUse()) + ");" + origin(op));
        return success();
      })
      .Case([&](ReleaseOp op) {
        line(name(op.getRing()) + ".release(" + use(op.getUse()) + ");" + origin(op));
        return success();
      })
      .Default([](Operation *) { return failure(); });
}

LogicalResult Printer::arithmetic(Operation *op) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](FillOp op) {
        define(op, "t",
               formatv("fill<{0}>({1})", madeType(op.getResult().getType()), name(op.getValue())));
        return success();
      })
      .Case([&](ToOperandOp op) {
        define(op, "a", formatv("toOperand({0})", name(op.getInput())));
        return success();
      })
      .Case([&](AnyOp op) {
        line("bool " + fresh(op.getResult(), "any") + " = anyOf(" + name(op.getInput()) + ");");
        return success();
      })
      .Case([&](ReduceOp op) {
        if (op.getInput().getType().getLayout() == Layout::MmaAcc) {
          bool rows = op.getKind() == ReduceKind::Max;
          define(
              op, "t",
              formatv("reduce{0}({1})", rows ? "MaxRows" : "MaxOrNanColumns", name(op.getInput())));
          return success();
        }
        bool lanes = op.getResult().getType().getCols() > 1;
        define(op, "t",
               formatv("reduce{0}{1}({2})", op.getKind() == ReduceKind::Add ? "Add" : "Max",
                       lanes ? "Lanes" : "", name(op.getInput())));
        return success();
      })
      .Case([&](IotaOp op) {
        TileType type = op.getResult().getType();
        bool inLanes = type.getLayout() == Layout::Lanes;
        define(op, "t",
               formatv("iota<{0}>()", inLanes ? std::to_string(type.getCols()) : tileType(type)));
        return success();
      })
      .Case([&](ExtractOp op) {
        line(formatv("{0} {1} = extract<{2}, {3}>({4});", elementType(op.getResult().getType()),
                     fresh(op.getResult(), "e"), op.getRow(), op.getCol(), name(op.getInput())));
        return success();
      })
      .Case([&](ReshapeOp op) {
        define(op, "t",
               formatv("reshape<{0}>({1})", tileArguments(op.getResult().getType()),
                       name(op.getInput())));
        return success();
      })
      .Case([&](TransposeOp op) {
        define(op, "t", formatv("transpose({0})", name(op.getInput())));
        return success();
      })
      .Case([&](StackOp op) {
        define(op, "t", formatv("stack({0})", list(op.getInputs())));
        return success();
      })
      .Case([&](SliceOp op) {
        TileType type = op.getResult().getType();
        define(op, "t",
               formatv("slice<{0}, {1}, {2}, {3}>({4})", type.getRows(), type.getCols(),
                       op.getRow(), op.getCol(), name(op.getInput())));
        return success();
      })
      .Case([&](MmaOp op) {
        std::string plain = op.getSide() == Side::B ? "mma" : "mmaLanesA";
        define(op, "acc",
               formatv("{0}({1})", atomCall(op.getAtom(), plain),
                       list({op.getA(), op.getB(), op.getAcc()})));
        return success();
      })
      .Case([&](FmaOp op) {
        define(op, "acc",
               formatv("{0}({1})", atomCall(op.getAtom(), "fma"),
                       list({op.getA(), op.getB(), op.getAcc()})));
        return success();
      })
      .Case([&](DequantWordsOp op) {
        std::string plain = formatv("words_{0}", stringifyFormat(op.getFormat()));
        std::string scale = op.getScale() ? ", " + name(op.getScale()) : "";
        define(op, "w",
               formatv("{0}({1}, {2}{3})", atomCall(op.getAtom(), plain), name(op.getWords()),
                       name(op.getPart()), scale));
        return success();
      })
      .Case([&](DequantFragmentOp op) {
        std::string plain = formatv("fragment_{0}", stringifyFormat(op.getFormat()));
        std::string scale = op.getScale() ? ", " + name(op.getScale()) : "";
        define(op, "a",
               formatv("{0}({1}{2})", atomCall(op.getAtom(), plain), name(op.getWords()), scale));
        return success();
      })
      .Case([&](DecodeOp op) {
        std::string plain = formatv("decode_{0}", stringifyFormat(op.getFormat()));
        define(op, "t", formatv("{0}({1})", atomCall(op.getAtom(), plain), name(op.getCodes())));
        return success();
      })
      .Case([&](EncodeOp op) {
        std::string plain = formatv("encode_{0}", stringifyFormat(op.getFormat()));
        define(op, "t", formatv("{0}({1})", atomCall(op.getAtom(), plain), name(op.getInput())));
        return success();
      })
      .Case([&](DequantGroupOp op) {
        define(op, "g",
               formatv("{0}<{1}>({2}, {3})", atomCall(op.getAtom(), "dequantGroup"),
                       op.getE4m3Grid() ? "Grid::E4m3" : "Grid::Exact", name(op.getCodes()),
                       name(op.getScale())));
        return success();
      })
      .Case([&](QuantGroupOp op) {
        std::string codes = fresh(op.getCodes(), "g"), scale = fresh(op.getScale(), "scale");
        line(formatv("auto [{0}, {1}] = {2}({3});", codes, scale,
                     atomCall(op.getAtom(), "quantGroup"), name(op.getInput())) +
             origin(op));
        return success();
      })
      .Default([](Operation *) { return failure(); });
}

void Printer::assign(ValueRange targets, ValueRange sources) {
  if (targets.size() == 1) {
    line(formatv("{0} = {1};", name(targets[0]), name(sources[0])));
    return;
  }
  // Sources may be other targets of the same assignment.
  SmallVector<std::string> temporaries;
  for (Value source : sources) {
    temporaries.push_back(formatv("n{0}", counter++));
    line(formatv("auto {0} = {1};", temporaries.back(), name(source)));
  }
  for (auto [target, temporary] : llvm::zip(targets, temporaries))
    line(formatv("{0} = {1};", name(target), temporary));
}

LogicalResult Printer::forLoop(scf::ForOp loop) {
  for (auto [argument, init, result] :
       llvm::zip(loop.getRegionIterArgs(), loop.getInits(), loop.getResults())) {
    line(formatv("{0} {1} = {2};", variableType(init.getType()), fresh(argument, "v"), name(init)));
    names[result] = name(argument); // a copy: the map may move its strings as it grows
  }
  if (loop->hasAttr("unroll"))
    line("M3_UNROLL");
  std::string i = fresh(loop.getInductionVar(), "it");
  line(formatv("for (i64 {0} = {1}; {0} < {2}; {0} += {3}) {{", i, name(loop.getLowerBound()),
               name(loop.getUpperBound()), name(loop.getStep())));
  ++indent;
  if (failed(block(*loop.getBody())))
    return failure();
  auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
  if (yield.getNumOperands())
    assign(SmallVector<Value>(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end()),
           yield.getOperands());
  --indent;
  line("}");
  return success();
}

LogicalResult Printer::ifBranch(scf::IfOp branch) {
  for (Value result : branch.getResults())
    line(formatv("{0} {1};", variableType(result.getType()), fresh(result, "r")));
  line(formatv("if ({0}) {{", name(branch.getCondition())));
  for (Region *region : {&branch.getThenRegion(), &branch.getElseRegion()}) {
    if (region->empty())
      continue;
    if (region == &branch.getElseRegion())
      line("} else {");
    ++indent;
    if (failed(block(region->front())))
      return failure();
    if (branch.getNumResults())
      assign(branch.getResults(), region->front().getTerminator()->getOperands());
    --indent;
  }
  line("}");
  return success();
}

LogicalResult Printer::pipeline(PipelineOp pipeline) {
  std::string i = fresh(pipeline.getBody().getArgument(0), "it");
  line(formatv("for (i64 {0} = {1}; {0} < {2}; {0} += {3}) {{", i, name(pipeline.getLower()),
               name(pipeline.getUpper()), name(pipeline.getStep())) +
       origin(pipeline));
  ++indent;
  for (auto role : pipeline.getBody().getOps<RoleOp>()) {
    line("{ // role " + role.getName());
    ++indent;
    if (failed(block(role.getBody().front())))
      return failure();
    --indent;
    line("}");
  }
  --indent;
  line("}");
  return success();
}

LogicalResult Printer::roles(RolesOp roles) {
  for (auto role : roles.getBody().getOps<RoleOp>()) {
    int64_t first = role.firstWarp(), end = first + int64_t(*role.getWarps());
    line(formatv("{0}if (warpId() < {1}) {{ // role {2}", first ? "} else " : "", end,
                 role.getName()));
    ++indent;
    if (failed(block(role.getBody().front())))
      return failure();
    --indent;
  }
  line("}" + origin(roles));
  return success();
}

LogicalResult Printer::map(MapOp map) {
  SmallVector<std::string> parameters, arguments;
  for (Value argument : map.getBody().getArguments())
    parameters.push_back("auto " + fresh(argument, "x"));
  for (Value input : map.getInputs())
    arguments.push_back(name(input));
  std::string result = fresh(map.getResult(), "t");
  line(formatv("auto {0} = map<{1}>([&]({2}) {{", result, madeType(map.getResult().getType()),
               llvm::join(parameters, ", ")) +
       origin(map));
  ++indent;
  for (Operation &child : map.getBody().front()) {
    if (auto yield = dyn_cast<YieldOp>(child)) {
      line(formatv("return {0};", name(yield.getValue())));
      continue;
    }
    SmallVector<std::string> operands;
    for (Value operand : child.getOperands())
      operands.push_back(name(operand));
    std::string text;
    if (failed(printScalar(&child, operands, text)))
      return child.emitOpError("has no printed form in a scalar region (compiler/codegen)");
    if (isa<arith::ConstantOp>(child)) {
      names[child.getResult(0)] = text;
      continue;
    }
    line("auto " + fresh(child.getResult(0), "s") + " = " + text + ";");
  }
  --indent;
  line(arguments.empty() ? "});" : formatv("}, {0});", llvm::join(arguments, ", ")).str());
  return success();
}

} // namespace

FailureOr<std::string> printKernel(KernelOp kernel, const EntryStyle &style) {
  return Printer(kernel, style).run();
}

} // namespace m3c::codegen
