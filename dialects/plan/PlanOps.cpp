// Builders, printers and verifiers of single operations. Labels such as `panel-bytes` are explained
// in the description of the op.
#include "dialects/plan/Plan.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace m3c::planir;

// Rows of a weight matrix that one panel holds.
static constexpr int64_t panelRows = 16;
static constexpr int64_t arenaAlignment = 64; // bytes

//===-- Launch arguments and grid as text
//---------------------------------------------------------===//

static ParseResult parseArguments(OpAsmParser &parser,
                                  SmallVectorImpl<OpAsmParser::UnresolvedOperand> &arguments,
                                  SmallVectorImpl<Type> &types, DenseI32ArrayAttr &access) {
  SmallVector<int32_t> accesses;
  auto parseOne = [&]() -> ParseResult {
    StringRef keyword;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&keyword))
      return failure();
    std::optional<Access> value = symbolizeAccess(keyword);
    if (!value)
      return parser.emitError(loc, "expected an access: r, w or rw");
    accesses.push_back(int32_t(*value));
    return failure(parser.parseOperand(arguments.emplace_back()) ||
                   parser.parseColonType(types.emplace_back()));
  };
  if (succeeded(parser.parseOptionalRParen()))
    return parser.emitError(parser.getCurrentLocation(), "a kernel has at least one argument");
  if (parser.parseCommaSeparatedList(parseOne))
    return failure();
  access = parser.getBuilder().getDenseI32ArrayAttr(accesses);
  return success();
}

static void printArguments(OpAsmPrinter &printer, Operation *, OperandRange arguments,
                           TypeRange types, DenseI32ArrayAttr access) {
  for (auto [i, argument] : llvm::enumerate(arguments))
    printer << (i ? ", " : "") << stringifyAccess(Access(access[i])) << ' ' << argument << " : "
            << types[i];
}

static ParseResult parseGrid(OpAsmParser &parser, DenseI64ArrayAttr &count,
                             DenseI64ArrayAttr &blocksPerItem) {
  SmallVector<int64_t> counts, perItem;
  auto parseDim = [&]() -> ParseResult {
    if (succeeded(parser.parseOptionalKeyword("blocks"))) {
      counts.push_back(1);
      return failure(parser.parseLParen() || parser.parseInteger(perItem.emplace_back()) ||
                     parser.parseRParen());
    }
    perItem.push_back(0);
    return parser.parseInteger(counts.emplace_back());
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, parseDim))
    return failure();
  count = parser.getBuilder().getDenseI64ArrayAttr(counts);
  blocksPerItem = parser.getBuilder().getDenseI64ArrayAttr(perItem);
  return success();
}

static void printGrid(OpAsmPrinter &printer, Operation *, DenseI64ArrayAttr count,
                      DenseI64ArrayAttr blocksPerItem) {
  printer << '[';
  for (int64_t i = 0; i < count.size(); ++i) {
    printer << (i ? ", " : "");
    if (blocksPerItem[i] > 0)
      printer << "blocks(" << blocksPerItem[i] << ')';
    else
      printer << count[i];
  }
  printer << ']';
}

#define GET_OP_CLASSES
#include "dialects/plan/PlanOps.cpp.inc"

//===-- Module level
//------------------------------------------------------------------------------===//

// The integer `key` of a piece, or `otherwise`.
static int64_t pieceNumber(DictionaryAttr piece, StringRef key, int64_t otherwise) {
  auto number = piece.getAs<IntegerAttr>(key);
  return number ? number.getInt() : otherwise;
}

static LogicalResult verifyPiece(WeightBufferOp op, Attribute attribute, bool panels) {
  auto piece = dyn_cast<DictionaryAttr>(attribute);
  if (!piece || !piece.getAs<StringAttr>("tensor") || !piece.getAs<StringAttr>("dtype") ||
      !piece.getAs<DenseI64ArrayAttr>("shape"))
    return op.emitOpError("piece-keys: a piece is a dictionary with tensor, dtype and shape");
  StringRef tensor = piece.getAs<StringAttr>("tensor").getValue();
  ArrayRef<int64_t> shape = piece.getAs<DenseI64ArrayAttr>("shape").asArrayRef();
  int64_t destination = pieceNumber(piece, "dest_offset", 0);
  if (destination < 0 || destination >= op.getBytes())
    return op.emitOpError("piece-fits: ")
           << tensor << " starts at byte " << destination << " of " << op.getBytes();
  if (!panels || shape.empty())
    return success();
  int64_t first = pieceNumber(piece, "first_panel", 0);
  int64_t step = pieceNumber(piece, "panel_step", 1);
  int64_t rows = 1;
  for (int64_t extent : shape.drop_back())
    rows *= extent;
  int64_t last = first + (llvm::divideCeil(uint64_t(rows), uint64_t(panelRows)) - 1) * step;
  if (first < 0 || step < 1 || last >= op.getPanels())
    return op.emitOpError("piece-fits: ")
           << tensor << " fills panels " << first << " to " << last << " of " << op.getPanels();
  return success();
}

LogicalResult WeightBufferOp::verify() {
  bool fragments = getRecipe() == Recipe::FragmentWords || getRecipe() == Recipe::FragmentScales;
  bool words = getRecipe() == Recipe::PanelWords || getRecipe() == Recipe::FragmentWords;
  bool scales = getRecipe() == Recipe::PanelScales || getRecipe() == Recipe::FragmentScales;
  if (getBytes() <= 0 || getPieces().empty())
    return emitOpError("a weight buffer has bytes and pieces");
  int64_t expected = getPanels() * panelRows * getRowLength() * (words ? getBits() : 8) / 8;
  if (fragments && getAbreast() != 1)
    return emitOpError("panel-bytes: panels of fragments do not lie abreast");
  if ((words || scales) && (getAbreast() < 1 || getPanels() % getAbreast()))
    return emitOpError("panel-bytes: ")
           << getAbreast() << " panels abreast do not divide " << getPanels();
  if ((words || scales) && getBytes() != expected)
    return emitOpError("panel-bytes: ")
           << getPanels() << " panels of " << panelRows << " rows of " << getRowLength()
           << " elements take " << expected << " bytes, not " << getBytes();
  for (Attribute piece : getPieces())
    if (failed(verifyPiece(*this, piece, words || scales)))
      return failure();
  return success();
}

LogicalResult CacheOp::verify() {
  ArrayRef<int64_t> kv = getKvOffsets(), index = getIndexOffsets();
  if (kv.size() != index.size() || kv.empty())
    return emitOpError("cache-layers: ")
           << kv.size() << " K/V offsets and " << index.size() << " index offsets";
  auto inside = [&](int64_t offset, int64_t slots) {
    return offset >= 0 && offset + slots * getSlotBytes() <= getPageBytes();
  };
  for (size_t layer = 0; layer < kv.size(); ++layer)
    if (!inside(kv[layer], 2) || (index[layer] != -1 && !inside(index[layer], 1)))
      return emitOpError("cache-lanes: a lane of layer ")
             << layer << " lies outside the page of " << getPageBytes() << " bytes";
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  int64_t previous = 0;
  for (Operation &op : getBody().front()) {
    auto bucket = dyn_cast<BucketOp>(op);
    if (!bucket)
      return op.emitOpError("bucket-order: a program holds buckets only");
    if (bucket.getRows() <= previous)
      return bucket.emitOpError("bucket-order: ") << bucket.getRows() << " rows after " << previous;
    previous = bucket.getRows();
  }
  return success();
}

//===-- Values
//------------------------------------------------------------------------------------===//

void BufferOp::build(OpBuilder &builder, OperationState &state, StringRef name, int64_t rowBytes,
                     int64_t blockBytes, int64_t fixedBytes) {
  build(builder, state, BufferType::get(builder.getContext()), builder.getStringAttr(name),
        builder.getI64IntegerAttr(rowBytes), builder.getI64IntegerAttr(blockBytes),
        builder.getI64IntegerAttr(fixedBytes), IntegerAttr(), IntegerAttr());
}

LogicalResult BufferOp::verify() {
  if (getRowBytes() < 0 || getBlockBytes() < 0 || getFixedBytes() < 0)
    return emitOpError("size-not-negative: ") << getName() << " has a negative coefficient";
  if (getRowBytes() + getBlockBytes() + getFixedBytes() == 0)
    return emitOpError("size-not-negative: ") << getName() << " has no bytes";
  if (getOffset().has_value() != getBlocksScale().has_value())
    return emitOpError("offset-aligned: offset and scale stand together");
  if (!getOffset())
    return success();
  if (*getOffset() < 0 || *getBlocksScale() < 0 || *getOffset() % arenaAlignment ||
      *getBlocksScale() % arenaAlignment)
    return emitOpError("offset-aligned: ")
           << getName() << " lies at " << *getOffset() << " + blocks * " << *getBlocksScale();
  return success();
}

void WeightOp::build(OpBuilder &builder, OperationState &state, StringRef symbol, int64_t offset) {
  build(builder, state, PointerType::get(builder.getContext()),
        FlatSymbolRefAttr::get(builder.getContext(), symbol), builder.getI64IntegerAttr(offset));
}

LogicalResult WeightOp::verifySymbolUses(SymbolTableCollection &table) {
  auto buffer = table.lookupNearestSymbolFrom<WeightBufferOp>(*this, getSymbolAttr());
  if (!buffer)
    return emitOpError("weight-inside: no weight buffer ") << getSymbolAttr();
  if (getOffset() >= buffer.getBytes())
    return emitOpError("weight-inside: offset ") << getOffset() << " of " << getSymbolAttr()
                                                 << ", which has " << buffer.getBytes() << " bytes";
  return success();
}

//===-- Launch
//------------------------------------------------------------------------------------===//

void LaunchOp::build(OpBuilder &builder, OperationState &state, StringRef kernel,
                     ValueRange arguments, ArrayRef<Access> access, ArrayRef<GridDim> grid,
                     StringRef label) {
  SmallVector<int32_t> accesses;
  for (Access one : access)
    accesses.push_back(int32_t(one));
  SmallVector<int64_t> counts(3, 1), perItem(3, 0);
  for (auto [i, dim] : llvm::enumerate(grid)) {
    counts[i] = dim.blocksPerItem > 0 ? 1 : dim.count;
    perItem[i] = dim.blocksPerItem;
  }
  build(builder, state, FlatSymbolRefAttr::get(builder.getContext(), kernel), arguments,
        builder.getDenseI32ArrayAttr(accesses), builder.getDenseI64ArrayAttr(counts),
        builder.getDenseI64ArrayAttr(perItem), builder.getStringAttr(label));
}

LogicalResult LaunchOp::verify() {
  if (getAccess().size() != getArguments().size())
    return emitOpError("access-per-argument: ")
           << getAccess().size() << " accesses for " << getArguments().size() << " arguments";
  for (auto [i, argument] : llvm::enumerate(getArguments())) {
    if (!symbolizeAccess(getAccess()[i]))
      return emitOpError("access-per-argument: unknown access of argument ") << i;
    if (argument.getType().isInteger() && writes(i))
      return emitOpError("access-per-argument: argument ") << i << " is a number and is written";
  }
  if (getGridCount().size() != 3 || getGridBlocksPerItem().size() != 3)
    return emitOpError("grid-positive: a grid has three dimensions");
  for (int i = 0; i < 3; ++i)
    if (getGridCount()[i] < 1 || getGridBlocksPerItem()[i] < 0)
      return emitOpError("grid-positive: dimension ") << i << " is " << getGridCount()[i];
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &table) {
  Operation *kernel = table.lookupNearestSymbolFrom(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("kernel-exists: no kernel ") << getKernelAttr();
  auto params = kernel->getAttrOfType<IntegerAttr>("params");
  if (params && params.getInt() != int64_t(getArguments().size()))
    return emitOpError("kernel-exists: ")
           << getKernelAttr() << " has " << params.getInt() << " parameters, the launch "
           << getArguments().size() << " arguments";
  return success();
}
