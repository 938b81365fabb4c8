// Slots of cache pages as right operands: forms, atoms, the 1,024 bytes that an operand begins at, and the text.
// RUN: m3-opt %s | m3-opt | FileCheck %s
// RUN: m3-opt %s --tile-assign-shared --tile-select-atoms=chip=sm_90a | FileCheck %s --check-prefix=ATOMS
// RUN: rm -rf %t && mkdir %t && m3c build-kernel %s --target sm90 -o %t --print-source | FileCheck %s --check-prefix=TEXT
// RUN: not m3-opt %s --tile-select-atoms=chip=sm_100a 2>&1 | FileCheck %s --check-prefix=OTHER

// CHECK: tile.share_slot %{{.*}} scales %{{.*}} : !tile.view<1024xi8> table %{{.*}} : !tile.view<256x8xi8, shared> format e2m1, %{{.*}} : <128x64xi8>, <2x128x64xi16, shared>
// CHECK: tile.share_slot {{.*}} limit %{{.*}} format e2m1, %{{.*}} : <128x64xi8>, <2x136x64xi16, shared>
// CHECK: tile.mma_shared %{{.*}}, %{{.*}}, %{{.*}} : <16x128xbf16, mma_a>, <2x128x64xi16, shared>, <16x128xf32, mma_acc>
// CHECK: tile.to_operand %{{.*}} : <16x128xf32, mma_acc> -> <16x128xf16, mma_a>
// CHECK: tile.from_operand %{{.*}} : <16x128xf16, mma_a> -> <16x128xf32, mma_acc>

// ATOMS: tile.alloc {offset = 0 : i64} : <256x8xi8, shared>
// ATOMS: tile.alloc {offset = 2048 : i64} : <2x128x64xi16, shared>
// ATOMS: tile.alloc {offset = 34816 : i64} : <2x136x64xi16, shared>
// ATOMS: tile.share_slot {{.*}} {atom = "slot_e2m1"}
// ATOMS: tile.mma_shared {{.*}} {atom = "mmaShared"}

// Sums that begin with nothing are not read; others are.
// TEXT: slot_e2m1<4>(p1, p2, buf{{[0-9]+}}, buf{{[0-9]+}});  // tile.share_slot
// TEXT: slot_e2m1<4>(p1, p2, buf{{[0-9]+}}, e{{[0-9]+}}, buf{{[0-9]+}});  // tile.share_slot
// TEXT: = startShared<128>(t{{[0-9]+}}, buf{{[0-9]+}});  // tile.mma_shared
// TEXT: = toOperand(acc{{[0-9]+}});  // tile.to_operand
// TEXT: = startShared<136>(a{{[0-9]+}}, buf{{[0-9]+}});  // tile.mma_shared
// TEXT: = mmaShared(a{{[0-9]+}}, buf{{[0-9]+}}, acc{{[0-9]+}});  // tile.mma_shared
// TEXT: = columnsOf<128, 0>(acc{{[0-9]+}});  // tile.slice
// TEXT: = columnsOf<8, 128>(acc{{[0-9]+}});  // tile.slice
// TEXT: = fromOperand(a{{[0-9]+}});  // tile.from_operand

// OTHER: no atom of sm_100a does this
tile.kernel @page(%query: !tile.view<?x128xi16>, %codes: !tile.view<128x64xi8>, %scales: !tile.view<1024xi8>,
                  %seen: !tile.view<?xi32>, %mean: !tile.view<?x8x32x8xi16>, %sum: !tile.view<?x16xf32>,
                  %again: !tile.view<?x128xf32>)
    attributes {family = "f", schedule = {}, warps = 4} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %table = tile.alloc : !tile.view<256x8xi8, shared>
  %keys = tile.alloc : !tile.view<2x128x64xi16, shared>
  %values = tile.alloc : !tile.view<2x136x64xi16, shared>
  tile.code_table %table : !tile.view<256x8xi8, shared>
  tile.barrier
  %limit = tile.load_scalar %seen[%c0] : !tile.view<?xi32> -> index
  tile.share_slot %codes scales %scales : !tile.view<1024xi8> table %table : !tile.view<256x8xi8, shared>
      format e2m1, %keys : !tile.view<128x64xi8>, !tile.view<2x128x64xi16, shared>
  tile.share_slot %codes scales %scales : !tile.view<1024xi8> table %table : !tile.view<256x8xi8, shared>
      limit %limit format e2m1, %values : !tile.view<128x64xi8>, !tile.view<2x136x64xi16, shared>
  tile.barrier
  %warp = tile.warp_id
  %q = tile.load %query[%c0, %c0] sizes [16, 128] : !tile.view<?x128xi16> -> !tile.tile<16x128xbf16, mma_a>
  %none = tile.fill %zero : f32 -> !tile.tile<16x128xf32, mma_acc>
  %s0 = tile.mma_shared %q, %keys, %none : !tile.tile<16x128xbf16, mma_a>, !tile.view<2x128x64xi16, shared>, !tile.tile<16x128xf32, mma_acc>
  %s = tile.mma_wait %s0 : !tile.tile<16x128xf32, mma_acc>
  %p = tile.to_operand %s : !tile.tile<16x128xf32, mma_acc> -> !tile.tile<16x128xf16, mma_a>
  %nothing = tile.fill %zero : f32 -> !tile.tile<16x136xf32, mma_acc>
  %o0 = tile.mma_shared %p, %values, %nothing : !tile.tile<16x128xf16, mma_a>, !tile.view<2x136x64xi16, shared>, !tile.tile<16x136xf32, mma_acc>
  %o1 = tile.mma_wait %o0 : !tile.tile<16x136xf32, mma_acc>
  %o2 = tile.mma_shared %p, %values, %o1 : !tile.tile<16x128xf16, mma_a>, !tile.view<2x136x64xi16, shared>, !tile.tile<16x136xf32, mma_acc>
  %o = tile.mma_wait %o2 : !tile.tile<16x136xf32, mma_acc>
  %v = tile.slice %o[0, 0] : !tile.tile<16x136xf32, mma_acc> -> !tile.tile<16x128xf32, mma_acc>
  %ones = tile.slice %o[0, 128] : !tile.tile<16x136xf32, mma_acc> -> !tile.tile<16x8xf32, mma_acc>
  %w = tile.reduce max %ones : !tile.tile<16x8xf32, mma_acc> -> !tile.tile<16x1xf32, mma_rows>
  tile.store %w, %sum[%warp, %c0] sizes [1, 16] : !tile.tile<16x1xf32, mma_rows>, !tile.view<?x16xf32>
  %r = tile.to_operand %v : !tile.tile<16x128xf32, mma_acc> -> !tile.tile<16x128xf16, mma_a>
  tile.store %r, %mean[%warp, %c0, %c0, %c0] sizes [1, 8, 32, 8] : !tile.tile<16x128xf16, mma_a>, !tile.view<?x8x32x8xi16>
  %b = tile.from_operand %r : !tile.tile<16x128xf16, mma_a> -> !tile.tile<16x128xf32, mma_acc>
  tile.store_spread %b, %again[%warp, %c0] spread 16 limit %limit : !tile.tile<16x128xf32, mma_acc>, !tile.view<?x128xf32>
  tile.return
}
