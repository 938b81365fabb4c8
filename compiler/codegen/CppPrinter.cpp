#include "compiler/codegen/CppPrinter.h"

#include "compiler/codegen/Printer.h"
#include "compiler/codegen/ScalarPrinter.h"

namespace m3c::codegen {

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

LogicalResult Printer::op(Operation *op) {
  for (auto print :
       {&Printer::arithmetic, &Printer::conversion, &Printer::place, &Printer::synchronisation,
        &Printer::tileAccess, &Printer::listAccess, &Printer::matrixAccess, &Printer::tensorMemory,
        &Printer::tensorOperand, &Printer::laneRows})
    if (succeeded((this->*print)(op)))
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
  if (loop->hasAttr("rolled"))
    line("M3_ROLLED");
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

/// What the role takes or gives up of registers when it begins.
LogicalResult Printer::budget(RoleOp role) {
  if (!role.getRegisters())
    return success();
  if (!kernel.getRegisters())
    return role.emitOpError("has registers of its own, and how many it begins with is not known; "
                            "run tile-select-atoms for a chip whose roles can change them");
  if (role.getAtom())
    line(formatv("{0}<{1}>();", *role.getAtom(), *role.getRegisters()) + origin(role));
  return success();
}

LogicalResult Printer::roles(RolesOp roles) {
  for (auto role : roles.getBody().getOps<RoleOp>()) {
    int64_t first = role.firstWarp(), end = first + int64_t(*role.getWarps());
    line(formatv("{0}if (warpId() < {1}) {{ // role {2}", first ? "} else " : "", end,
                 role.getName()));
    ++indent;
    if (failed(budget(role)) || failed(block(role.getBody().front())))
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

FailureOr<std::string> printKernel(KernelOp kernel, const EntryStyle &style) {
  return Printer(kernel, style).run();
}

} // namespace m3c::codegen
