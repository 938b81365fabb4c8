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
    if (buckets.empty() && maxRows > 0) {
      buckets.push_back(1);
      while (buckets.back() <= maxRows / 2) // twice the largest one is no 64-bit number
        buckets.push_back(2 * buckets.back());
    }
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
