// m3-opt: runs any pass or pipeline of m3c on IR text.
#include "compiler/driver/Register.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  m3c::registerAllDialects(registry);
  m3c::registerAllPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "m3c pass driver\n", registry));
}
