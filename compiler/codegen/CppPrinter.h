// Prints a verified `tile.kernel` as C++-like text: one call into the target's device header per
// tile op, plain loops and scalar expressions for scf, arith and math. The text says nothing that
// the IR does not say; shapes become template arguments.
#pragma once

#include "dialects/tile/Tile.h"

#include <string>

namespace m3c::codegen {

/// The text around a kernel that depends on the calling convention of a target.
struct EntryStyle {
  /// Lines before the first kernel: includes, attributes.
  std::string prologue;
  /// Opens the entry function of `kernel` and declares one variable per parameter
  /// (`types[i]` is the C++ type of the variable `names[i]`).
  std::function<std::string(tile::KernelOp kernel, llvm::ArrayRef<std::string> types,
                            llvm::ArrayRef<std::string> names)>
      open;
};

/// Text of one kernel. The kernel must have its shared memory assigned and its atoms selected; an
/// op that has no printed form is reported on it and the result is a failure.
mlir::FailureOr<std::string> printKernel(tile::KernelOp kernel, const EntryStyle &style);

} // namespace m3c::codegen
