// Dialect, types and attributes of m3.
#include "dialects/m3/M3.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace m3c::m3;

#include "dialects/m3/M3Dialect.cpp.inc"
#include "dialects/m3/M3Enums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/m3/M3Attrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/m3/M3Types.cpp.inc"

void M3Dialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/m3/M3Ops.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/m3/M3Attrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/m3/M3Types.cpp.inc"
      >();
}

static int64_t groupOf(Encoding encoding) {
  switch (encoding) {
  case Encoding::F32:
  case Encoding::BF16:
    return 1;
  case Encoding::MXFP8:
    return 32;
  case Encoding::NVFP4:
  case Encoding::NVFP4Packed:
    return 16;
  }
  return 1;
}

int64_t WeightType::groupSize() const { return groupOf(getEncoding()); }

int64_t WeightType::storedBytes() const {
  int64_t elements = rows() * cols();
  switch (getEncoding()) {
  case Encoding::F32:
    return elements * 4;
  case Encoding::BF16:
    return elements * 2;
  case Encoding::MXFP8:
    return elements + elements / 32;
  case Encoding::NVFP4:
  case Encoding::NVFP4Packed:
    return elements / 2 + elements / 16 + 4;
  }
  return 0;
}

Type WeightType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  StringRef keyword;
  SMLoc keywordLoc;
  if (parser.parseLess() ||
      parser.parseDimensionList(shape, /*allowDynamic=*/false, /*withTrailingX=*/false) ||
      parser.parseComma() || parser.getCurrentLocation(&keywordLoc) ||
      parser.parseKeyword(&keyword) || parser.parseGreater())
    return {};
  std::optional<Encoding> encoding = symbolizeEncoding(keyword);
  if (!encoding) {
    parser.emitError(keywordLoc) << "unknown weight encoding '" << keyword << "'";
    return {};
  }
  return parser.getChecked<WeightType>(parser.getContext(), shape, *encoding);
}

void WeightType::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printDimensionList(getShape());
  printer << ", " << stringifyEncoding(getEncoding()) << ">";
}

LogicalResult WeightType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<int64_t> shape, Encoding encoding) {
  if (shape.empty() || shape.size() > 3 || llvm::any_of(shape, [](int64_t d) { return d < 1; }))
    return emitError() << "M3-C01: a weight has one to three positive dimensions";
  int64_t group = groupOf(encoding);
  if (shape.size() == 1 && group != 1)
    return emitError() << "M3-C01: a vector is stored as f32 or bf16, not "
                       << stringifyEncoding(encoding);
  if (shape.back() % group != 0)
    return emitError() << "M3-C01: the scale group " << group << " of "
                       << stringifyEncoding(encoding) << " does not divide K = " << shape.back();
  return success();
}

LogicalResult CacheType::verify(function_ref<InFlightDiagnostic()> emitError, CacheStorage kv,
                                CacheGrid grid, int64_t page, int64_t layers, int64_t kvHeads,
                                int64_t headDim, int64_t indexDim) {
  if (page != blockTokens)
    return emitError() << "M3-C02: a page holds " << blockTokens << " tokens, not " << page;
  if (grid == CacheGrid::E4M3 && kv != CacheStorage::NVFP4)
    return emitError() << "M3-C03: the e4m3 grid belongs to nvfp4 storage, not "
                       << stringifyCacheStorage(kv);
  if (layers < 1 || kvHeads < 1 || headDim < 1 || indexDim < 0 || headDim % 16 || indexDim % 16)
    return emitError() << "M3-C03: layers and kv_heads are positive, head_dim and index_dim "
                          "multiples of 16";
  return success();
}

LogicalResult ShardingAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef group,
                                   int64_t dim, int64_t count) {
  if (group.empty() || dim < 0 || count < 1)
    return emitError() << "M3-C34: a sharding names a group, a dimension and a positive count";
  return success();
}
