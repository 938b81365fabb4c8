// Counts that passes keep. MLIR's own class counts in builds with assertions only, and Debian's
// MLIR has none: the header would give our code another layout than the library's, or nothing.
#pragma once

#include "mlir/Pass/Pass.h"

#include <cstdint>

namespace m3c {

/// A named count of a pass, declared by `let statistics` in its Passes.td: cmake/Mlir.cmake puts
/// this class in the place of mlir::Pass::Statistic. Counts of all copies of a pass are one; any
/// thread may count.
class PassStatistic {
public:
  PassStatistic(mlir::Pass *owner, const char *name, const char *description)
      : owner(owner), name(name), description(description) {}

  PassStatistic &operator+=(uint64_t more);
  PassStatistic &operator++() { return *this += 1; }
  void updateMax(uint64_t value);

private:
  mlir::Pass *owner;
  const char *name, *description;
};

/// Prints "PASS.NAME = VALUE (description)", a line for each count that is not 0, sorted.
void printPassStatistics(llvm::raw_ostream &out);

} // namespace m3c
