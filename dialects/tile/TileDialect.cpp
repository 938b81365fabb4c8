// Types of the tile dialect and its registration.
#include "dialects/tile/Tile.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace m3c::tile;

#include "dialects/tile/TileDialect.cpp.inc"
#include "dialects/tile/TileEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/tile/TileAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/tile/TileTypes.cpp.inc"

void TileDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/tile/TileTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/tile/TileAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/tile/TileOps.cpp.inc"
      >();
}

int64_t m3c::tile::elementBytes(Type element) {
  if (element.isIndex())
    return 8;
  return std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8);
}

static bool isElement(Type type) {
  return type.isF32() || type.isF64() || type.isIndex() || type.isInteger(1) || type.isInteger(8) ||
         type.isInteger(16) || type.isInteger(32) || type.isInteger(64);
}

static void printShape(AsmPrinter &printer, ArrayRef<int64_t> shape) {
  for (int64_t size : shape) {
    if (ShapedType::isDynamic(size))
      printer << "?x";
    else
      printer << size << "x";
  }
}

//===- TileType -------------------------------------------------------------------------------===//

Type TileType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  Type element;
  Layout layout = Layout::Lanes;
  if (parser.parseLess() || parser.parseDimensionList(shape, /*allowDynamic=*/false) ||
      parser.parseType(element))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    StringRef keyword;
    if (parser.parseKeyword(&keyword))
      return {};
    std::optional<Layout> parsed = symbolizeLayout(keyword);
    if (!parsed) {
      parser.emitError(parser.getNameLoc(), "unknown layout ") << keyword;
      return {};
    }
    layout = *parsed;
  }
  if (parser.parseGreater())
    return {};
  if (shape.size() != 2) {
    parser.emitError(parser.getNameLoc(), "a tile has two dimensions, found ") << shape.size();
    return {};
  }
  return parser.getChecked<TileType>(parser.getContext(), shape[0], shape[1], element, layout);
}

void TileType::print(AsmPrinter &printer) const {
  printer << "<" << getRows() << "x" << getCols() << "x" << getElement();
  if (getLayout() != Layout::Lanes)
    printer << ", " << stringifyLayout(getLayout());
  printer << ">";
}

LogicalResult TileType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t rows,
                               int64_t cols, Type element, Layout layout) {
  if (rows < 1 || cols < 1)
    return emitError() << "T-T1: a tile has at least one row and one column";
  bool operand = layout == Layout::MmaA || layout == Layout::MmaB;
  bool split = layout == Layout::MmaA && element.isF32(); // in parts that are BF16
  bool operandElement = element.isBF16() || element.isF16() || isa<Float8E4M3FNType>(element);
  if (operand ? !operandElement && !split : !isElement(element))
    return emitError() << "T-T2: " << element << " is no element type of a tile in layout "
                       << stringifyLayout(layout);
  bool fits = layout == Layout::Lanes || (layout == Layout::PerLane && 32 % rows == 0) ||
              (layout == Layout::MmaA && rows == 16 && cols % 16 == 0) ||
              (layout == Layout::MmaB && rows % 16 == 0 && cols % 8 == 0) ||
              (layout == Layout::MmaAcc && rows == 16 && cols % 8 == 0) ||
              (layout == Layout::MmaRows && rows == 16 && cols == 1) ||
              (layout == Layout::MmaColumns && rows == 1 && cols % 8 == 0) ||
              (layout == Layout::LaneRows && (rows == 32 || rows == 1));
  if (!fits)
    return emitError() << "T-T3: " << rows << "x" << cols << " is no tile in layout "
                       << stringifyLayout(layout);
  return success();
}

//===- ViewType -------------------------------------------------------------------------------===//

Type ViewType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  Type element;
  Space space = Space::Global;
  if (parser.parseLess() || parser.parseDimensionList(shape) || parser.parseType(element))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    StringRef keyword;
    if (parser.parseKeyword(&keyword))
      return {};
    std::optional<Space> parsed = symbolizeSpace(keyword);
    if (!parsed) {
      parser.emitError(parser.getNameLoc(), "unknown memory space ") << keyword;
      return {};
    }
    space = *parsed;
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<ViewType>(parser.getContext(), shape, element, space);
}

void ViewType::print(AsmPrinter &printer) const {
  printer << "<";
  printShape(printer, getShape());
  printer << getElement();
  if (getSpace() != Space::Global)
    printer << ", " << stringifySpace(getSpace());
  printer << ">";
}

/// So that sums of sizes stay 64-bit numbers: more than any chip has.
static constexpr int64_t mostViewBytes = int64_t(1) << 50;

LogicalResult ViewType::verify(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<int64_t> shape, Type element, Space) {
  if (shape.empty())
    return emitError() << "T-V1: a view has at least one dimension";
  for (auto [i, size] : llvm::enumerate(shape))
    if ((ShapedType::isDynamic(size) && i != 0) || size == 0)
      return emitError()
             << "T-V2: dimension " << i
             << " of a view must be a positive constant (only the first may be dynamic)";
  if (!isElement(element))
    return emitError() << "T-V3: " << element << " is no element type of a view";
  int64_t bytes = elementBytes(element);
  for (int64_t size : shape)
    if (!ShapedType::isDynamic(size) &&
        (llvm::MulOverflow(bytes, size, bytes) || bytes > mostViewBytes))
      return emitError() << "T-V4: the constant dimensions of a view have at most " << mostViewBytes
                         << " bytes";
  return success();
}

int64_t ViewType::getStride(unsigned dim) const {
  int64_t stride = 1;
  for (int64_t size : getShape().drop_front(dim + 1))
    stride *= size;
  return stride;
}

int64_t ViewType::getByteSize() const {
  return getStride(0) * getShape()[0] * elementBytes(getElement());
}

//===- RingType -------------------------------------------------------------------------------===//

Type RingType::parse(AsmParser &parser) {
  int64_t stages;
  SmallVector<int64_t> shape;
  Type element;
  if (parser.parseLess() || parser.parseInteger(stages) || parser.parseComma() ||
      parser.parseDimensionList(shape, /*allowDynamic=*/false) || parser.parseType(element) ||
      parser.parseGreater())
    return {};
  return parser.getChecked<RingType>(parser.getContext(), stages, shape, element);
}

void RingType::print(AsmPrinter &printer) const {
  printer << "<" << getStages() << ", ";
  printShape(printer, getShape());
  printer << getElement() << ">";
}

LogicalResult RingType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t stages,
                               ArrayRef<int64_t> shape, Type element) {
  if (stages < 1)
    return emitError() << "T-R1: a ring has at least one stage";
  SmallVector<int64_t> all = {stages}; // they have a view's room together
  llvm::append_range(all, shape);
  return ViewType::verify(emitError, all, element, Space::Shared);
}

ViewType RingType::getStageType() const {
  return ViewType::get(getContext(), getShape(), getElement(), Space::Shared);
}

int64_t RingType::getByteSize() const { return getStages() * getStageType().getByteSize(); }

//===- Boxes ----------------------------------------------------------------------------------===//

FailureOr<BoxLayout> m3c::tile::boxLayout(ViewType view, ArrayRef<int64_t> sizes, bool rowByRow) {
  if (sizes.size() != view.getShape().size())
    return failure();
  BoxLayout layout{1, 1, 0, 0};
  int dim = int(sizes.size()) - 1;
  // The longest contiguous run: whole inner dimensions, then a part of one.
  for (; dim >= 0; --dim) {
    bool contiguous = layout.length == (dim + 1 < int(sizes.size()) ? view.getStride(dim) : 1);
    if (sizes[dim] > 1 && (!contiguous || (rowByRow && dim == 0)))
      break;
    layout.length *= sizes[dim];
  }
  for (; dim >= 0; --dim) {
    if (sizes[dim] == 1)
      continue;
    if (layout.count > 1)
      return failure();
    layout.count = sizes[dim];
    layout.stride = view.getStride(dim);
    layout.countDim = dim;
  }
  return layout;
}
