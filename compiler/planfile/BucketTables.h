// One plan.bucket as a table of the plan file.
#pragma once

#include "dialects/plan/Plan.h"
#include "runtime/plan/plan_generated.h"

#include <map>
#include <memory>
#include <string>

namespace m3c {

/// Places of module symbols in the tables.
struct SymbolIndices {
  std::map<std::string, uint32_t> weights, kernels;
};

/// `tables` has model, cache and weights. Throws Error for a kernel or weight that is not in
/// `indices` and for a bucket without an arena.
std::unique_ptr<plan::BucketT> bucketTable(planir::BucketOp bucket, const SymbolIndices &indices,
                                           const plan::TablesT &tables);

} // namespace m3c
