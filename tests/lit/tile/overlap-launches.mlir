// A kernel waits for the launch before it in front of what is not pure, on chips that can begin early.
// RUN: m3-opt %s -tile-overlap-launches=chip=sm_90a | FileCheck %s
// RUN: m3-opt %s -tile-overlap-launches=chip=sm_90a -tile-overlap-launches=chip=sm_90a | FileCheck %s
// RUN: m3-opt %s -tile-overlap-launches=chip=x86-avx2 | FileCheck %s --check-prefix=X86
// RUN: not m3-opt %s -tile-overlap-launches=chip=z80 2>&1 | FileCheck %s --check-prefix=NOCHIP
// RUN: m3-opt %s -tile-overlap-launches=chip=sm_90a --counts -o /dev/null 2>&1 | FileCheck %s --check-prefix=COUNTS
// RUN: rm -rf %t && mkdir %t && m3-opt %s -tile-overlap-launches=chip=sm_90a -o %t/k.mlir
// RUN: m3c build-kernel %t/k.mlir --target sm90 -o %t --print-source --print-code | FileCheck %s --check-prefix=CODE

// NOCHIP: there is no chip 'z80'
// X86-NOT: _launch
// COUNTS: tile-overlap-launches.overlapped = 2 (
// CODE: awaitLaunch();
// CODE: allowLaunch();
// CODE-DAG: ACQBULK
// CODE-DAG: PREEXIT

// CHECK-LABEL: tile.kernel @copy
tile.kernel @copy(%x: !tile.view<?x16xf32>, %y: !tile.view<?x16xf32>) attributes {family = "f", schedule = {}} {
  %i = tile.block_id x
  // CHECK: arith.constant
  // CHECK-NEXT: tile.await_launch
  // CHECK-NEXT: tile.allow_launch
  // CHECK-NEXT: tile.load
  // CHECK-NOT: tile.await_launch
  %a = tile.alloc : !tile.view<1x16xf32, shared>
  %c0 = arith.constant 0 : index
  %v = tile.load %x[%i, %c0] sizes [1, 16] : !tile.view<?x16xf32> -> !tile.tile<1x16xf32>
  tile.store %v, %y[%i, %c0] sizes [1, 16] : !tile.tile<1x16xf32>, !tile.view<?x16xf32>
  tile.return
}

// Edge: where nothing is left but the return, it waits in front of that.
// CHECK-LABEL: tile.kernel @nothing
tile.kernel @nothing(%x: !tile.view<?x16xf32>) attributes {family = "f", schedule = {}} {
  // CHECK: tile.await_launch
  // CHECK-NEXT: tile.allow_launch
  // CHECK-NEXT: tile.return
  tile.return
}
