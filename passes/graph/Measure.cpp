// m3-measure: see Passes.td.
#include "passes/graph/Passes.h"

using namespace mlir;

namespace m3c::graph {

#define GEN_PASS_DEF_M3MEASURE
#include "passes/graph/Passes.h.inc"

namespace {

struct Measure : impl::M3MeasureBase<Measure> {
  using Base::Base;

  /// Bytes of one row of a tensor; 0 for the cache, the batch and other values.
  int64_t rowBytes(Value value) const {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type)
      return 0;
    int64_t elements = 1;
    for (int64_t size : type.getShape().drop_front())
      elements *= ShapedType::isDynamic(size) ? blocks : size; // a dynamic size after rows: blocks
    return elements * int64_t(type.getElementTypeBitWidth()) / 8;
  }

  /// Stored bytes that `op` reads of one weight for a single row.
  int64_t weightBytes(Operation *op, FlatSymbolRefAttr symbol) const {
    m3::WeightOp weight = m3::lookupWeight(op, symbol);
    if (!weight)
      return 0;
    m3::WeightType type = weight.weightType();
    if (isa<m3::EmbedOp>(op))
      return type.storedBytes() / type.rows();
    if (auto experts = dyn_cast<m3::ExpertsOp>(op))
      return type.storedBytes() * experts.getIds().getType().getDimSize(1);
    return type.storedBytes();
  }

  void runOnOperation() override {
    int64_t launches = 0, bytes = 0, weights = 0;
    if (getOperation().isExternal())
      return;
    for (Operation &op : getOperation().getBody().front().without_terminator()) {
      ++launches;
      for (Value value : op.getOperands())
        bytes += rowBytes(value);
      for (Value value : op.getResults())
        bytes += rowBytes(value);
    }
    getOperation().walk([&](Operation *op) {
      for (NamedAttribute attribute : op->getAttrs())
        if (auto symbol = dyn_cast<FlatSymbolRefAttr>(attribute.getValue()))
          weights += weightBytes(op, symbol);
    });
    Builder builder(&getContext());
    getOperation()->setAttr("m3.launches", builder.getI64IntegerAttr(launches));
    getOperation()->setAttr("m3.row_bytes", builder.getI64IntegerAttr(bytes));
    getOperation()->setAttr("m3.weight_bytes", builder.getI64IntegerAttr(weights));
  }
};

} // namespace
} // namespace m3c::graph
