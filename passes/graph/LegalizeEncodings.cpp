// m3-legalize-encodings: see Passes.td.
#include "passes/graph/Passes.h"

#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace m3c::graph {

#define GEN_PASS_DEF_M3LEGALIZEENCODINGS
#include "passes/graph/Passes.h.inc"

namespace {

struct LegalizeEncodings : impl::M3LegalizeEncodingsBase<LegalizeEncodings> {
  using Base::Base;

  bool takes(m3::Encoding encoding) const {
    return supported.empty() ||
           llvm::is_contained(supported, m3::stringifyEncoding(encoding).str());
  }

  void runOnOperation() override {
    for (const std::string &name : supported)
      if (!m3::symbolizeEncoding(name)) {
        getOperation().emitError() << "'" << name << "' is no weight encoding";
        return signalPassFailure();
      }
    for (auto weight : getOperation().getOps<m3::WeightOp>())
      if (failed(legalize(weight)))
        return signalPassFailure();
  }

  LogicalResult legalize(m3::WeightOp weight) {
    m3::Encoding encoding = weight.weightType().getEncoding();
    if (takes(encoding)) {
      weight.removeDemotionAttr();
      return success();
    }
    m3::Encoding standIn = takes(m3::Encoding::BF16) && encoding != m3::Encoding::F32
                               ? m3::Encoding::BF16
                               : m3::Encoding::F32;
    if (!takes(standIn))
      return weight.emitOpError() << "is stored as " << m3::stringifyEncoding(encoding)
                                  << ", which the target takes neither as it is nor as bf16 or f32";
    weight.setDemotionAttr(m3::DemotionAttr::get(&getContext(), m3::stringifyEncoding(encoding),
                                                 m3::stringifyEncoding(standIn),
                                                 "no kernel of the target reads this encoding"));
    ++demoted;
    return success();
  }
};

} // namespace
} // namespace m3c::graph
