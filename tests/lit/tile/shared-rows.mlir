// Products with rows in shared memory: forms, atoms, the 1,024 bytes that a stage begins at, and the text.
// RUN: m3-opt %s | m3-opt | FileCheck %s
// RUN: m3-opt %s --tile-assign-shared --tile-select-atoms=chip=sm_90a | FileCheck %s --check-prefix=ATOMS
// RUN: rm -rf %t && mkdir %t && m3c build-kernel %s --target sm90 -o %t --print-source | FileCheck %s --check-prefix=TEXT
// RUN: not m3-opt %s --tile-select-atoms=chip=sm_100a 2>&1 | FileCheck %s --check-prefix=OTHER

// CHECK: tile.pack_rows %{{.*}}[%{{.*}}, %{{.*}}] limit %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] count 16 : <?x256xi16>, <?x128x64xi16>
// CHECK: tile.pack_rows %{{.*}}[%{{.*}}, %{{.*}}] by %{{.*}}[%{{.*}}] per 4 limit %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] count 16 : <?x256xi16>, <?x128x64xi16>, !tile.view<?xi32>
// CHECK: tile.mma_shared %{{.*}}, %{{.*}}, %{{.*}} : <16x64xbf16, mma_a>, <128x64xi16, shared>, <16x128xf32, mma_acc>
// CHECK: tile.mma_wait %{{.*}} leaves 1 : <16x128xf32, mma_acc>
// CHECK: tile.mma_wait %{{.*}} : <16x128xf32, mma_acc>

// ATOMS: tile.pack_rows {{.*}} {atom = "packRows"}
// ATOMS: tile.alloc {offset = 0 : i64} : <1xf32, shared>
// ATOMS: tile.ring async 4 {offset = 1024 : i64}
// ATOMS: tile.mma_shared {{.*}} {atom = "mmaShared"}
// ATOMS: tile.mma_wait {{.*}} {atom = "awaitShared"}

// TEXT: packRows<16>(RowsInTurn{p0 + e0 * 256 + e0, 256}, e0 - e0, p1 + e0 * 8192 + e0 * 64);  // tile.pack_rows
// TEXT: packRows<16>(ListedRows<4>{p0 + e0, 256, p2 + e0 + e0}, e0 - e0, p1 + e0 * 8192 + e0 * 64);  // tile.pack_rows
// TEXT: // role multiply
// TEXT: auto acc{{[0-9]+}} = mmaShared(a{{[0-9]+}}, stage{{[0-9]+}}, v{{[0-9]+}});  // tile.mma_shared
// TEXT: = awaitShared<1>(acc{{[0-9]+}});  // tile.mma_wait
// TEXT: = awaitShared<0>({{.*}});  // tile.mma_wait

// OTHER: no atom of sm_100a does this
tile.kernel @pack(%x: !tile.view<?x256xi16>, %stages: !tile.view<?x128x64xi16>, %counts: !tile.view<?xi32>)
    attributes {family = "f", schedule = {}} {
  %c0 = arith.constant 0 : index
  %row = tile.load_scalar %counts[%c0] : !tile.view<?xi32> -> index
  tile.pack_rows %x[%row, %row] limit %row, %stages[%row, %row] count 16
      : !tile.view<?x256xi16>, !tile.view<?x128x64xi16>
  tile.pack_rows %x[%row, %row] by %counts[%row] per 4 limit %row, %stages[%row, %row] count 16
      : !tile.view<?x256xi16>, !tile.view<?x128x64xi16>, !tile.view<?xi32>
  tile.return
}

tile.kernel @product(%stages: !tile.view<?x128x64xi16>, %words: !tile.view<4x4x4x32x4xi32>, %y: !tile.view<?x64xf32>)
    attributes {family = "f", schedule = {}, warps = 5} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %zero = arith.constant 0.0 : f32
  %other = tile.alloc : !tile.view<1xf32, shared>
  %ring = tile.ring async 4 : !tile.ring<2, 128x64xi16>
  tile.barrier
  tile.roles {
    tile.role "multiply" warps = 4 {
      %warp = tile.warp_id
      %none = tile.fill %zero : f32 -> !tile.tile<16x128xf32, mma_acc>
      %started = scf.for %i = %c0 to %c4 step %c1 iter_args(%acc = %none) -> (!tile.tile<16x128xf32, mma_acc>) {
        %w = tile.load %words[%warp, %i, %c0, %c0, %c0] sizes [1, 1, 4, 32, 4] : !tile.view<4x4x4x32x4xi32> -> !tile.tile<32x16xi32, per_lane>
        %a = tile.dequant_fragment %w format bf16 : !tile.tile<32x16xi32, per_lane> -> !tile.tile<16x64xbf16, mma_a>
        %stage = tile.wait %ring[%i] : !tile.ring<2, 128x64xi16> -> !tile.view<128x64xi16, shared>
        %s = tile.mma_shared %a, %stage, %acc : !tile.tile<16x64xbf16, mma_a>, !tile.view<128x64xi16, shared>, !tile.tile<16x128xf32, mma_acc>
        %t = tile.mma_wait %s leaves 1 : !tile.tile<16x128xf32, mma_acc>
        tile.release %ring[%i] : !tile.ring<2, 128x64xi16>
        scf.yield %t : !tile.tile<16x128xf32, mma_acc>
      }
      %sum = tile.mma_wait %started : !tile.tile<16x128xf32, mma_acc>
      tile.store_transposed %sum, %y[%c0, %warp] : !tile.tile<16x128xf32, mma_acc>, !tile.view<?x64xf32>
    }
    tile.role "load" warps = 1 {
      scf.for %i = %c0 to %c4 step %c1 {
        %stage = tile.acquire %ring[%i] : !tile.ring<2, 128x64xi16> -> !tile.view<128x64xi16, shared>
        tile.fill_stage %ring[%i] from %stages[%i, %c0, %c0] : !tile.ring<2, 128x64xi16>, !tile.view<?x128x64xi16>
        tile.commit %ring[%i] : !tile.ring<2, 128x64xi16>
      }
    }
  }
  tile.return
}
