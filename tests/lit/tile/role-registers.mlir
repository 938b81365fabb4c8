// Registers of roles: how many a thread begins with follows from the work items of a multiprocessor, the atom says whether
// a role takes or gives up some, the text does it first thing. What the chip asks of the warps and of the sum is a limit.
// RUN: m3-opt %s --tile-select-atoms=chip=sm_90a | FileCheck %s
// RUN: rm -rf %t && mkdir %t && m3c build-kernel %s --target sm90 -o %t --print-source | FileCheck %s --check-prefix=TEXT
// RUN: m3c build-kernel %s --target sm100 -o %t --print-source | FileCheck %s --check-prefix=TEXT
// RUN: m3c build-kernel %s --target sm107 -o %t --print-source | FileCheck %s --check-prefix=TEXT
// RUN: sed 's/registers = 208/registers = 128/' %s > %t/same.mlir
// RUN: m3c build-kernel %t/same.mlir --target sm90 -o %t --print-source | FileCheck %s --check-prefix=SAME
// RUN: sed 's/registers = 208/registers = 224/' %s > %t/many.mlir
// RUN: not m3-opt %t/many.mlir --tile-check-limits=chip=sm_90a 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: sed 's/warps = 8/warps = 6/; s/"give" warps = 4/"give" warps = 2/' %s > %t/part.mlir
// RUN: not m3-opt %t/part.mlir --tile-check-limits=chip=sm_90a 2>&1 | FileCheck %s --check-prefix=PART
// RUN: sed 's/residents = 2/residents = 9/; s/ registers = [0-9]*//' %s > %t/threads.mlir
// RUN: not m3-opt %t/threads.mlir --tile-check-limits=chip=sm_90a 2>&1 | FileCheck %s --check-prefix=THREADS
// RUN: sed 's/residents = 2/residents = 3, shared_bytes = 110000/; s/ registers = [0-9]*//' %s > %t/shared.mlir
// RUN: not m3-opt %t/shared.mlir --tile-check-limits=chip=sm_90a 2>&1 | FileCheck %s --check-prefix=SHARED
// RUN: m3-opt %t/shared.mlir --tile-check-limits=chip=sm_107a
// RUN: sed 's/residents = 2/residents = 33/; s/ registers = [0-9]*//' %s > %t/places.mlir
// RUN: not m3-opt %t/places.mlir --tile-check-limits=chip=sm_90a 2>&1 | FileCheck %s --check-prefix=PLACES
// RUN: not m3-opt %s --tile-check-limits=chip=gfx950 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not m3c build-kernel %s --target gfx950 -o %t 2>&1 | FileCheck %s --check-prefix=OTHER

// CHECK: registers = 128 : i64, residents = 2 : i64
// CHECK: tile.role "take" warps = 4 registers = 208 attributes {atom = "takeRegisters"}
// CHECK: tile.role "give" warps = 4 registers = 40 attributes {atom = "giveRegisters"}

// TEXT: __launch_bounds__(256, 2) void budgets(
// TEXT: if (warpId() < 4) { // role take
// TEXT-NEXT: takeRegisters<208>();  // tile.role
// TEXT: } else if (warpId() < 8) { // role give
// TEXT-NEXT: giveRegisters<40>();  // tile.role

// SAME-NOT: takeRegisters
// SAME: // role give
// SAME-NEXT: giveRegisters<40>();

// THREADS: is to stand 9 times on a multiprocessor, which takes 2304 threads, sm_90a has 2048: 256 too many; let fewer stand there (residents)
// SHARED: is to stand 3 times on a multiprocessor, which takes 333072 bytes of shared memory, sm_90a has 233472: 99600 too many
// PLACES: is to stand 33 times on a multiprocessor, which takes 33 places, sm_90a has 32: 1 too many
// MANY: needs 33792 registers for its roles, sm_90a gives a work item of 8 warps 32768 (128 each thread, of 2 on a multiprocessor): 1024 too many; give roles fewer
// PART: has 2 warps with 40 registers of their own, sm_90a changes those of 4 warps together: 2 too few; give the role more warps, or no role registers
// OTHER: gives roles registers of their own, which gfx950 cannot change; take them away
tile.kernel @budgets(%x: !tile.view<?xf32>) attributes {family = "f", schedule = {}, warps = 8, residents = 2} {
  %one = arith.constant 1.0 : f32
  %warp = tile.warp_id
  tile.roles {
    tile.role "take" warps = 4 registers = 208 {
      tile.store_scalar %one, %x[%warp] : f32, !tile.view<?xf32>
    }
    tile.role "give" warps = 4 registers = 40 {
      tile.store_scalar %one, %x[%warp] : f32, !tile.view<?xf32>
    }
  }
  tile.return
}
