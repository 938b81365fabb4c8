// Matrix instructions: operands read back as text, print as CUDA, and show in the machine code.
// RUN: m3-opt %s | m3-opt | FileCheck %s
// RUN: rm -rf %t && mkdir %t && m3c build-kernel %s --target sm90 -o %t --print-source | FileCheck %s --check-prefix=TEXT
// RUN: sed 's/split = 2/split = 4/; s/rows = 8/rows = 16/; s/\[8, 64\]/[16, 64]/; s/64x8xbf16/64x16xbf16/g; s/16x8xf32, mma/16x16xf32, mma/g' %s > %t/wide.mlir
// RUN: m3c build-kernel %t/wide.mlir --target sm90 -o %t --print-source | FileCheck %s --check-prefix=WIDE

// CHECK: tile.warp_id
// CHECK: tile.load {{.*}} -> <32x4xi32, per_lane>
// CHECK: tile.load {{.*}} limit {{.*}} -> <64x8xbf16, mma_b>
// CHECK: tile.load_rows {{.*}} per 4 limit {{.*}} -> <64x8xbf16, mma_b>
// CHECK: tile.dequant_fragment {{.*}} format e2m1 {{.*}} -> <16x64xbf16, mma_a>
// CHECK: tile.store_transposed {{.*}} <16x8xf32, mma_acc>
// CHECK: tile.store_transposed pairs {{.*}} <16x8xf32, mma_acc>

// TEXT: __launch_bounds__(64) void product(
// TEXT: warpId()
// TEXT: load<LaneTile<i32, 32, 4>>(
// TEXT: load<LaneTile<u8, 32, 2>>(
// TEXT: load<FragmentB<8>>({{.*}}, 128, {{.*}})
// TEXT: loadRows<FragmentB<8>, 4>({{.*}}, 128, {{.*}})
// TEXT: fragment_e2m1(
// TEXT: mmaFragments(
// TEXT: storeTransposed({{.*}}, 16)
// TEXT: storePairsTransposed({{.*}}, 16)
// TEXT: barrier();
// WIDE: load<FragmentB<16>>(
// WIDE: FragmentAcc<16>
tile.kernel @product(%words: !tile.view<2x2x1x32x4xi32>, %scales: !tile.view<2x2x32x2xi8>, %x: !tile.view<?x128xi16>, %y: !tile.view<?x16xf32>, %list: !tile.view<?xi32>, %rows: index)
    attributes {family = "test", schedule = {split = 2, rows = 8}, warps = 2} {
  %c0 = arith.constant 0 : index
  %panel = tile.block_id x
  %unit = tile.warp_id
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  %k = arith.muli %unit, %c64 : index
  %w = tile.load %words[%panel, %unit, %c0, %c0, %c0] sizes [1, 1, 1, 32, 4] : !tile.view<2x2x1x32x4xi32> -> !tile.tile<32x4xi32, per_lane>
  %s = tile.load %scales[%panel, %unit, %c0, %c0] sizes [1, 1, 32, 2] : !tile.view<2x2x32x2xi8> -> !tile.tile<32x2xi8, per_lane>
  %b = tile.load %x[%c0, %k] sizes [8, 64] limit %rows : !tile.view<?x128xi16> -> !tile.tile<64x8xbf16, mma_b>
  %listed = tile.load_rows %x[%k] by %list[%c0] per 4 limit %rows : !tile.view<?x128xi16>, !tile.view<?xi32> -> !tile.tile<64x8xbf16, mma_b>
  %a = tile.dequant_fragment %w scale %s : !tile.tile<32x2xi8, per_lane> format e2m1 : !tile.tile<32x4xi32, per_lane> -> !tile.tile<16x64xbf16, mma_a>
  %start = tile.fill %zero : f32 -> !tile.tile<16x8xf32, mma_acc>
  %acc = tile.mma %a, %b, %start : !tile.tile<16x64xbf16, mma_a>, !tile.tile<64x8xbf16, mma_b>, !tile.tile<16x8xf32, mma_acc> -> !tile.tile<16x8xf32, mma_acc>
  %both = tile.mma %a, %listed, %acc : !tile.tile<16x64xbf16, mma_a>, !tile.tile<64x8xbf16, mma_b>, !tile.tile<16x8xf32, mma_acc> -> !tile.tile<16x8xf32, mma_acc>
  tile.store_transposed %both, %y[%c0, %c0] : !tile.tile<16x8xf32, mma_acc>, !tile.view<?x16xf32>
  tile.store_transposed pairs %both, %y[%c0, %c0] : !tile.tile<16x8xf32, mma_acc>, !tile.view<?x16xf32>
  tile.barrier
  tile.return
}
