// Atoms, shared memory and limits of a kernel, each pass alone.
// RUN: m3-opt %s -tile-select-atoms=chip=x86-avx2 | FileCheck %s --check-prefix=ATOMS
// RUN: m3-opt %s -tile-assign-shared | FileCheck %s --check-prefix=SHARED
// RUN: m3-opt %s -tile-assign-shared -tile-assign-shared | FileCheck %s --check-prefix=SHARED
// RUN: not m3-opt %s -tile-assign-shared -tile-check-limits=chip=x86-avx2 2>&1 | FileCheck %s --check-prefix=LIMITS
// RUN: not m3-opt %s -tile-select-atoms=chip=z80 2>&1 | FileCheck %s --check-prefix=NOCHIP
// RUN: m3-opt %s -tile-select-atoms=chip=x86-avx2 -tile-assign-shared --counts -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=COUNTS

// COUNTS: tile-assign-shared.shared bytes = 328512 (
// COUNTS-NEXT: tile-select-atoms.atoms = 4 (

// LIMITS-DAG: needs 327680 bytes of shared memory, x86-avx2 gives a work item 262144: 65536 too many
// LIMITS-DAG: carries 32 vector registers through the loop, a thread of x86-avx2 has 16
// NOCHIP: there is no chip 'z80'

// SHARED-LABEL: tile.kernel @first
// SHARED-SAME: shared_bytes = 832
// ATOMS-LABEL: tile.kernel @first
tile.kernel @first(%x: !tile.view<?x16xf32>, %n: index) attributes {family = "f", schedule = {}} {
  // SHARED: tile.alloc {offset = 0 : i64} : <5x4xf32, shared>
  %a = tile.alloc : !tile.view<5x4xf32, shared>
  // SHARED: tile.ring {offset = 128 : i64} : <2, 4x16xf32>
  %r = tile.ring : !tile.ring<2, 4x16xf32>
  // SHARED: tile.alloc {offset = 640 : i64} : <40xf32, shared>
  %b = tile.alloc : !tile.view<40xf32, shared>
  %u = tile.load %x[%n, %n] sizes [4, 1] : !tile.view<?x16xf32> -> !tile.tile<4x1xf32>
  %v = tile.load %x[%n, %n] sizes [1, 16] : !tile.view<?x16xf32> -> !tile.tile<1x16xf32>
  %z = tile.load %x[%n, %n] sizes [4, 16] : !tile.view<?x16xf32> -> !tile.tile<4x16xf32>
  // ATOMS: tile.mma %{{.*}} {atom = "mma"}
  %m = tile.mma %u, %v, %z : !tile.tile<4x1xf32>, !tile.tile<1x16xf32>, !tile.tile<4x16xf32> -> !tile.tile<4x16xf32>
  // ATOMS: tile.fma %{{.*}} {atom = "fma"}
  %f = tile.fma %u, %v, %m : !tile.tile<4x1xf32>, !tile.tile<1x16xf32>, !tile.tile<4x16xf32> -> !tile.tile<4x16xf32>
  // ATOMS: tile.quant_group %{{.*}} {atom = "quantGroup"}
  %c, %s = tile.quant_group %v : !tile.tile<1x16xf32> -> !tile.tile<1x8xi8>
  // ATOMS: tile.dequant_group %{{.*}} {atom = "dequantGroup"}
  %g = tile.dequant_group %c, %s : !tile.tile<1x8xi8> -> !tile.tile<1x16xf32>
  tile.return
}

tile.kernel @too_much(%n: index) attributes {family = "f", schedule = {}} {
  %r = tile.ring : !tile.ring<5, 1024x16xf32>
  tile.return
}

tile.kernel @too_wide(%n: index) attributes {family = "f", schedule = {}} {
  %f = arith.constant 0.0 : f32
  %t = tile.fill %f : f32 -> !tile.tile<4x64xf32>
  %l = scf.for %i = %n to %n step %n iter_args(%acc = %t) -> !tile.tile<4x64xf32> {
    scf.yield %acc : !tile.tile<4x64xf32>
  }
  tile.return
}
