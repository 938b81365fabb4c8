// m3-form-buckets: see Passes.td.
#include "passes/graph/Passes.h"

#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace m3c::graph {

#define GEN_PASS_DEF_M3FORMBUCKETS
#include "passes/graph/Passes.h.inc"

namespace {

struct FormBuckets : impl::M3FormBucketsBase<FormBuckets> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<int64_t> buckets(rows.begin(), rows.end());
    if (buckets.empty())
      for (int64_t count = 1; count <= maxRows; count *= 2)
        buckets.push_back(count);
    bool ascending = llvm::is_sorted(buckets, std::less_equal<int64_t>());
    if (buckets.empty() || buckets.front() < 1 || !ascending) {
      getOperation().emitError("row counts of buckets are positive and strictly ascending");
      return signalPassFailure();
    }
    getOperation()->setAttr(bucketsAttr, DenseI64ArrayAttr::get(&getContext(), buckets));
  }
};

} // namespace
} // namespace m3c::graph
