// Builders, text form and memory effects of the m3 operations.
#include "dialects/m3/M3.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace m3c::m3;

/// ` -> type` of a result whose element type is not that of the operand; else nothing is written.
static ParseResult parseResultRows(OpAsmParser &parser, Type &result, Type x) {
  result = x;
  return succeeded(parser.parseOptionalArrow()) ? parser.parseType(result) : success();
}
static void printResultRows(OpAsmPrinter &printer, Operation *, Type result, Type x) {
  if (result != x)
    printer << " -> " << result;
}

#define GET_OP_CLASSES
#include "dialects/m3/M3Ops.cpp.inc"

WeightOp m3c::m3::lookupWeight(Operation *user, FlatSymbolRefAttr symbol) {
  return SymbolTable::lookupNearestSymbolFrom<WeightOp>(user, symbol);
}

void ExpertsOp::build(OpBuilder &builder, OperationState &state, Type result, Value x, Value ids,
                      Value weights, StringRef gate, StringRef up, StringRef down, double alpha,
                      double limit) {
  MLIRContext *context = builder.getContext();
  build(builder, state, result, x, ids, weights, FlatSymbolRefAttr::get(context, gate),
        FlatSymbolRefAttr::get(context, up), FlatSymbolRefAttr::get(context, down),
        builder.getF64FloatAttr(alpha), builder.getF64FloatAttr(limit));
}

//===--- m3.fused -----------------------------------------------------------------------------===//

void FusedOp::build(OpBuilder &builder, OperationState &state, TypeRange results, StringRef kind,
                    ValueRange inputs) {
  state.addTypes(results);
  state.addOperands(inputs);
  state.getOrAddProperties<Properties>().kind = builder.getStringAttr(kind);
  Block *block = new Block();
  state.addRegion()->push_back(block);
  for (Value input : inputs)
    block->addArgument(input.getType(), input.getLoc());
}

ParseResult FusedOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr kind;
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SmallVector<Type> resultTypes;
  if (parser.parseAttribute(kind, parser.getBuilder().getType<NoneType>(), "kind",
                            result.attributes) ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, [&]() -> ParseResult {
        return failure(parser.parseArgument(arguments.emplace_back()) || parser.parseEqual() ||
                       parser.parseOperand(operands.emplace_back()) ||
                       parser.parseColonType(arguments.back().type));
      }))
    return failure();
  if (succeeded(parser.parseOptionalArrow()) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren,
                                     [&] { return parser.parseType(resultTypes.emplace_back()); }))
    return failure();
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  for (auto [operand, argument] : llvm::zip(operands, arguments))
    if (parser.resolveOperand(operand, argument.type, result.operands))
      return failure();
  result.addTypes(resultTypes);
  return parser.parseRegion(*result.addRegion(), arguments);
}

void FusedOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getKindAttr() << '(';
  if (getBody().empty() || getBody().front().getNumArguments() != getNumOperands()) {
    printer << getOperands() << ')'; // invalid; printed for the diagnostic alone
  } else {
    llvm::interleaveComma(llvm::zip(getBody().front().getArguments(), getInputs()), printer,
                          [&](auto pair) {
                            auto [argument, input] = pair;
                            printer << argument << " = " << input << " : " << input.getType();
                          });
    printer << ')';
  }
  if (getNumResults()) {
    printer << " -> (";
    llvm::interleaveComma(getResultTypes(), printer);
    printer << ')';
  }
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(), {"kind"});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

void FusedOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  getBody().walk([&](MemoryEffectOpInterface inner) {
    if (inner->getParentOp() != getOperation())
      return;
    SmallVector<MemoryEffects::EffectInstance> innerEffects;
    inner.getEffects(innerEffects);
    for (const MemoryEffects::EffectInstance &effect : innerEffects) {
      auto argument = dyn_cast_if_present<BlockArgument>(effect.getValue());
      if (argument && argument.getOwner() == &getBody().front())
        effects.emplace_back(effect.getEffect(),
                             &getOperation()->getOpOperand(argument.getArgNumber()),
                             effect.getResource());
      else
        effects.emplace_back(effect.getEffect(), effect.getResource());
    }
  });
}

void m3c::m3::unfuse(RewriterBase &rewriter, FusedOp op) {
  auto yield = cast<YieldOp>(op.getBody().front().getTerminator());
  SmallVector<Value> results(yield.getResults());
  SmallVector<Value> arguments(op.getInputs());
  // Values that the body merely passes through become the operands themselves.
  for (Value &result : results)
    if (auto argument = dyn_cast<BlockArgument>(result))
      result = arguments[argument.getArgNumber()];
  rewriter.eraseOp(yield);
  rewriter.inlineBlockBefore(&op.getBody().front(), op, arguments);
  rewriter.replaceOp(op, results);
}
