#include "compiler/driver/Register.h"

#include "dialects/m3/M3.h"
#include "dialects/plan/Plan.h"
#include "dialects/tile/Tile.h"
#include "passes/graph/Passes.h"
#include "passes/kernel/Passes.h"
#include "passes/plan/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/Passes.h"

void m3c::registerAllDialects(mlir::DialectRegistry &registry) {
  registry.insert<m3::M3Dialect, planir::PlanDialect, tile::TileDialect>();
  registry
      .insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::math::MathDialect,
              mlir::memref::MemRefDialect, mlir::scf::SCFDialect, mlir::tensor::TensorDialect>();
}

void m3c::registerAllPasses() {
  graph::registerGraphPassesAndPipeline();
  kernel::registerKernelPasses();
  registerPlanPasses();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mlir::registerSymbolDCEPass();
}
