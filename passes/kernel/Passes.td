// Passes on tile kernels and the lowering that makes them.
#ifndef M3C_PASSES_KERNEL_PASSES_TD
#define M3C_PASSES_KERNEL_PASSES_TD

include "mlir/Pass/PassBase.td"

def LowerToTile : Pass<"m3-to-tile", "::mlir::ModuleOp"> {
  let summary = "Lowers m3 operations to kernels and to the launches of a plan";
  let description = [{
    For the step function and each bucket of rows, every operation or fused group is handed to its kernel
    family, which builds (or finds) the `tile.kernel` for its shape and schedule and appends the launches
    to the bucket. Weight buffers with their recipes, the layout of the cache and taps are made on the
    way. The m3 function and its weights are gone afterwards.
  }];
  let options = [
    Option<"chip", "chip", "std::string", "\"\"", "chip row to build for">,
    ListOption<"buckets", "buckets", "int64_t", "rows of each bucket, ascending">,
    ListOption<"overrides", "schedule", "std::string", "family.choice=value">,
    Option<"taps", "taps", "bool", "true", "mark block and expert choices for traces">
  ];
  let statistics = [
    Statistic<"kernels", "kernels", "kernels built">,
    Statistic<"launches", "launches", "launches of all buckets">
  ];
  let dependentDialects = ["::m3c::tile::TileDialect", "::m3c::planir::PlanDialect",
                           "::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def OverlapLaunches : Pass<"tile-overlap-launches", "::m3c::tile::KernelOp"> {
  let summary = "Lets a launch begin while the one before it ends";
  let description = [{
    On chips that can do that every kernel waits for the launch before it in front of its first operation
    that is not pure, and then allows the next one to begin: work items of the next launch take the places
    that this one leaves, and start without a gap. A kernel that waits elsewhere already is left alone.
  }];
  let options = [Option<"chip", "chip", "std::string", "\"\"", "chip row">];
  let statistics = [Statistic<"overlapped", "overlapped", "kernels that may begin early">];
}

def SelectAtoms : Pass<"tile-select-atoms", "::m3c::tile::KernelOp"> {
  let summary = "Names the atom of every operation that a target has instructions for";
  let description = [{
    Looks `tile.mma`, `tile.fma`, dequantisation and quantisation up in the table of the chip's target.
    An operation without a row is an error that names the operation, its format and the chip.
  }];
  let options = [Option<"chip", "chip", "std::string", "\"\"", "chip row">];
  let statistics = [Statistic<"selected", "atoms", "operations that got an atom">];
}

def AssignShared : Pass<"tile-assign-shared", "::m3c::tile::KernelOp"> {
  let summary = "Gives every allocation and ring its place in the work item's memory";
  let description = [{
    Offsets are multiples of 64 bytes in program order; `shared_bytes` becomes the total. Allocations
    live as long as the work item, so none share bytes.
  }];
  let statistics = [Statistic<"bytes", "shared bytes", "bytes of all kernels">];
}

def CheckLimits : Pass<"tile-check-limits", "::m3c::tile::KernelOp"> {
  let summary = "Refuses a kernel that does not fit the chip";
  let description = [{
    Shared memory and cluster size against the chip row, what work items take that are to stand on a multiprocessor at
    once against what it has, registers of roles against those that a work item begins with, and register tiles that are carried through a loop against the vector registers; the message says which resource and
    by how much.
  }];
  let options = [Option<"chip", "chip", "std::string", "\"\"", "chip row">];
}

#endif
