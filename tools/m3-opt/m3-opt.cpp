// m3-opt: runs any pass or pipeline of m3c on IR text.
#include "compiler/driver/Register.h"
#include "passes/statistics/Statistics.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"

int main(int argc, char **argv) {
  static llvm::cl::opt<bool> counts("counts",
                                    llvm::cl::desc("Print what the passes counted, to the error "
                                                   "stream (MLIR's own statistics stay empty)"));
  mlir::DialectRegistry registry;
  m3c::registerAllDialects(registry);
  m3c::registerAllPasses();
  int code = mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "m3c pass driver\n", registry));
  if (counts)
    m3c::printPassStatistics(llvm::errs());
  return code;
}
