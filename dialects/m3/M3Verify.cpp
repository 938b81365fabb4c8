// Verifiers of the m3 operations on rows and weights. Labels: M3Ops.td.
#include "dialects/m3/M3.h"

#include <cmath>

using namespace mlir;
using namespace m3c::m3;

/// Width of a row; operands are tensors of rank 2 by their type constraint.
static int64_t width(Value rows) { return cast<RankedTensorType>(rows.getType()).getDimSize(1); }

static bool positive(const APFloat &value) {
  double number = value.convertToDouble();
  return std::isfinite(number) && number > 0;
}

/// The weight that `symbol` names, or null after an error.
static WeightType resolve(SymbolTableCollection &tables, Operation *op, FlatSymbolRefAttr symbol,
                          StringRef label) {
  auto weight = tables.lookupNearestSymbolFrom<WeightOp>(op, symbol);
  if (!weight) {
    op->emitOpError() << label << ": " << symbol << " names no m3.weight";
    return {};
  }
  return weight.weightType();
}

static LogicalResult expectShape(Operation *op, FlatSymbolRefAttr symbol, WeightType weight,
                                 ArrayRef<int64_t> expected, StringRef label) {
  if (weight.getShape() == expected)
    return success();
  InFlightDiagnostic diagnostic = op->emitOpError() << label << ": weight " << symbol << " is ";
  llvm::interleave(weight.getShape(), diagnostic, "x");
  diagnostic << ", expected ";
  llvm::interleave(expected, diagnostic, "x");
  return diagnostic;
}

static LogicalResult expectVector(Operation *op, SymbolTableCollection &tables,
                                  FlatSymbolRefAttr symbol, int64_t length, StringRef label) {
  WeightType weight = resolve(tables, op, symbol, label);
  return weight ? expectShape(op, symbol, weight, {length}, label) : failure();
}

static LogicalResult expectMatrix(Operation *op, SymbolTableCollection &tables,
                                  FlatSymbolRefAttr symbol, int64_t rows, int64_t cols,
                                  StringRef label) {
  WeightType weight = resolve(tables, op, symbol, label);
  return weight ? expectShape(op, symbol, weight, {rows, cols}, label) : failure();
}

/// The result differs from the operand in its element type at most.
static LogicalResult verifyResult(Operation *op, Value x) {
  auto from = cast<RankedTensorType>(x.getType());
  auto to = cast<RankedTensorType>(op->getResult(0).getType());
  if (to.getShape() != from.getShape() || to.getEncoding())
    return op->emitOpError()
           << "M3-C35: the result is as wide as the operand and has no storage encoding";
  return success();
}

static LogicalResult verifyActivation(Operation *op, const APFloat &alpha, const APFloat &limit) {
  if (!positive(alpha) || !positive(limit))
    return op->emitOpError("M3-C24: alpha and limit are positive and finite");
  return success();
}

//===--- m3.weight ----------------------------------------------------------------------------===//

/// Stored shape of the values of one matrix: two E2M1 values share a byte.
static SmallVector<int64_t> valueShape(WeightType type) {
  SmallVector<int64_t> shape{type.rows()};
  bool packed =
      type.getEncoding() == Encoding::NVFP4 || type.getEncoding() == Encoding::NVFP4Packed;
  if (type.getShape().size() > 1)
    shape.push_back(packed ? type.cols() / 2 : type.cols());
  return shape;
}

static LogicalResult verifyPart(WeightOp op, PartAttr part, ArrayRef<int64_t> expected) {
  if (part.getShape() != expected)
    return op.emitOpError() << "M3-C04: the stored shape of '" << part.getName()
                            << "' does not agree with " << op.getType();
  return success();
}

LogicalResult WeightOp::verify() {
  WeightType type = weightType();
  if (getParts().empty())
    return success();
  int counts[4] = {};
  for (auto part : getParts().getAsRange<PartAttr>()) {
    ++counts[int(part.getRole())];
    if (part.getName().contains("{e}") != (type.experts() > 0))
      return emitOpError() << "M3-C05: '" << part.getName()
                           << "': exactly the tensors of a stack of experts hold '{e}'";
    if (part.getRole() == PartRole::Values && failed(verifyPart(*this, part, valueShape(type))))
      return failure();
    if (part.getRole() == PartRole::BlockScale &&
        failed(verifyPart(*this, part, {type.rows(), type.cols() / type.groupSize()})))
      return failure();
  }
  bool scaled = type.groupSize() > 1;
  bool global = type.groupSize() == 16;
  if (counts[0] != 1 || counts[1] != int(scaled) || counts[2] != int(global) || counts[3] > 1)
    return emitOpError() << "M3-C04: " << getType() << " is made of one values part, "
                         << int(scaled) << " block scale and " << int(global) << " global scale";
  return success();
}

//===--- operations on rows -------------------------------------------------------------------===//

LogicalResult EmbedOp::verifySymbolUses(SymbolTableCollection &tables) {
  WeightType weight = resolve(tables, *this, getWeightAttr(), "M3-C06");
  if (!weight)
    return failure();
  if (weight.getShape().size() != 2 || weight.cols() != width(getRows()))
    return emitOpError() << "M3-C06: weight " << getWeightAttr() << " (" << weight
                         << ") is no matrix with rows as wide as the result";
  return success();
}

LogicalResult RopeTableOp::verify() {
  if (getRotary() < 2 || getRotary() % 2 || int64_t(getRotary()) != width(getTable()) ||
      !positive(getTheta()))
    return emitOpError("M3-C07: rotary is even and the width of the result; theta is positive");
  return success();
}

LogicalResult NormOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (!positive(getEps()))
    return emitOpError("M3-C08: eps is positive");
  if (failed(verifyResult(*this, getX())))
    return failure();
  return expectVector(*this, tables, getWeightAttr(), width(getX()), "M3-C08");
}

LogicalResult ProjectOp::verifySymbolUses(SymbolTableCollection &tables) {
  return expectMatrix(*this, tables, getWeightAttr(), width(getResult()), width(getX()), "M3-C09");
}

LogicalResult HeadNormOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (int64_t(getHeads()) < 1 || width(getX()) % int64_t(getHeads()))
    return emitOpError("M3-C10: heads divides the width of a row");
  if (!positive(getEps()))
    return emitOpError("M3-C10: eps is positive");
  if (failed(verifyResult(*this, getX())))
    return failure();
  return expectVector(*this, tables, getWeightAttr(), width(getX()) / int64_t(getHeads()),
                      "M3-C10");
}

LogicalResult RopeOp::verify() {
  int64_t heads = getHeads(), rotary = width(getTable());
  if (heads < 1 || width(getX()) % heads)
    return emitOpError("M3-C11: heads divides the width of a row");
  if (rotary % 2 || rotary > width(getX()) / heads)
    return emitOpError("M3-C11: the rotary dimension is even and not larger than a head");
  return verifyResult(*this, getX());
}

static int64_t groupOf(Grid grid) {
  switch (grid) {
  case Grid::BF16:
  case Grid::E4M3:
    return 1;
  case Grid::NVFP4:
  case Grid::NVFP4E4M3:
    return 16;
  case Grid::MXFP8:
    return 32;
  }
  return 1;
}

LogicalResult QuantizeOp::verify() {
  auto from = cast<RankedTensorType>(getX().getType());
  auto to = cast<RankedTensorType>(getResult().getType());
  auto storage = dyn_cast_if_present<StorageAttr>(to.getEncoding());
  if (!storage || storage.getGrid() != getGrid() || from.getShape() != to.getShape() ||
      from.getElementType() != to.getElementType())
    return emitOpError("M3-C12: the result is the operand's type with the encoding of the grid");
  if (width(getX()) % groupOf(getGrid()))
    return emitOpError() << "M3-C12: the group " << groupOf(getGrid())
                         << " of the grid does not divide the width " << width(getX());
  return success();
}

LogicalResult DequantizeOp::verify() {
  auto from = cast<RankedTensorType>(getX().getType());
  auto to = cast<RankedTensorType>(getResult().getType());
  if (!isa_and_present<StorageAttr>(from.getEncoding()) || to.getEncoding() ||
      from.getShape() != to.getShape())
    return emitOpError(
        "M3-C13: the operand has a storage encoding, the result the same shape and none");
  return success();
}

LogicalResult SwigluOp::verify() {
  if (failed(verifyActivation(*this, getAlpha(), getLimit())))
    return failure();
  return verifyResult(*this, getGate());
}

//===--- router and experts -------------------------------------------------------------------===//

LogicalResult RouteOp::verify() {
  if (getIds().getType().getDimSize(1) != int64_t(getTopK()) ||
      width(getWeights()) != int64_t(getTopK()) || int64_t(getTopK()) < 1)
    return emitOpError("M3-C26: both results have top_k columns, at least one");
  if (!positive(getScale()))
    return emitOpError("M3-C27: the scale is positive and finite");
  return success();
}

/// No operation but a route, which reads it as its bias, names the bias.
static LogicalResult verifyBiasOnlySelects(RouteOp route, FlatSymbolRefAttr bias) {
  Operation *table = SymbolTable::getNearestSymbolTable(route);
  auto uses = SymbolTable::getSymbolUses(bias.getAttr(), table);
  if (!uses)
    return success(); // unknown operations: nothing can be said
  for (SymbolTable::SymbolUse use : *uses) {
    auto user = dyn_cast<RouteOp>(use.getUser());
    if (!user || user.getRouterAttr() == bias)
      return use.getUser()->emitOpError() << "M3-C25: the router bias " << bias
                                          << " only selects, this operation reads it as well";
  }
  return success();
}

LogicalResult RouteOp::verifySymbolUses(SymbolTableCollection &tables) {
  WeightType router = resolve(tables, *this, getRouterAttr(), "M3-C26");
  if (!router)
    return failure();
  if (router.getShape().size() != 2 || router.cols() != width(getX()))
    return emitOpError() << "M3-C26: router " << getRouterAttr() << " (" << router
                         << ") is no matrix [experts, " << width(getX()) << "]";
  if (int64_t(getTopK()) > router.rows())
    return emitOpError() << "M3-C26: top_k = " << getTopK() << " of " << router.rows()
                         << " experts";
  if (!getBiasAttr())
    return success();
  WeightType bias = resolve(tables, *this, getBiasAttr(), "M3-C25");
  if (!bias)
    return failure();
  if (bias.getShape() != ArrayRef<int64_t>{router.rows()} || bias.getEncoding() != Encoding::F32)
    return emitOpError() << "M3-C25: the router bias only selects: " << getBiasAttr() << " ("
                         << bias << ") is no f32 vector of " << router.rows() << " elements";
  return verifyBiasOnlySelects(*this, getBiasAttr());
}

LogicalResult ExpertsOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (failed(verifyActivation(*this, getAlpha(), getLimit())) ||
      failed(verifyResult(*this, getX())))
    return failure();
  if (getIds().getType().getDimSize(1) != width(getWeights()))
    return emitOpError("M3-C28: ids and weights have the same shape");
  WeightType gate = resolve(tables, *this, getGateAttr(), "M3-C28");
  WeightType up = gate ? resolve(tables, *this, getUpAttr(), "M3-C28") : WeightType();
  WeightType down = up ? resolve(tables, *this, getDownAttr(), "M3-C28") : WeightType();
  if (!down)
    return failure();
  if (gate.getShape().size() != 3 || gate.cols() != width(getX()))
    return emitOpError() << "M3-C28: gate " << getGateAttr() << " (" << gate
                         << ") is no stack [experts, intermediate, " << width(getX()) << "]";
  if (failed(expectShape(*this, getUpAttr(), up, gate.getShape(), "M3-C28")))
    return failure();
  return expectShape(*this, getDownAttr(), down, {gate.experts(), gate.cols(), gate.rows()},
                     "M3-C28");
}

LogicalResult SharedExpertOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (failed(verifyActivation(*this, getAlpha(), getLimit())))
    return failure();
  WeightType gate = resolve(tables, *this, getGateAttr(), "M3-C29");
  if (!gate)
    return failure();
  if (failed(expectShape(*this, getGateAttr(), gate, {gate.rows(), width(getX())}, "M3-C29")) ||
      failed(expectMatrix(*this, tables, getUpAttr(), gate.rows(), gate.cols(), "M3-C29")))
    return failure();
  return expectMatrix(*this, tables, getDownAttr(), gate.cols(), gate.rows(), "M3-C29");
}

//===--- collectives --------------------------------------------------------------------------===//

static LogicalResult verifyCollective(Operation *op, StringRef group, int64_t ranks, int64_t from,
                                      int64_t to) {
  if (group.empty() || ranks < 1)
    return op->emitOpError("M3-C32: a group has a name and at least one rank");
  if (from != to)
    return op->emitOpError("M3-C32: the result's width does not follow from the operand's");
  return success();
}

LogicalResult AllReduceOp::verify() {
  return verifyCollective(*this, getGroup(), getRanks(), width(getX()), width(getResult()));
}

LogicalResult AllGatherOp::verify() {
  return verifyCollective(*this, getGroup(), getRanks(), width(getX()) * int64_t(getRanks()),
                          width(getResult()));
}

LogicalResult ReduceScatterOp::verify() {
  return verifyCollective(*this, getGroup(), getRanks(), width(getX()),
                          width(getResult()) * int64_t(getRanks()));
}
