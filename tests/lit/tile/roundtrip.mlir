// Every operation prints and re-reads as the same text.
// RUN: m3-opt %s -o %t && m3-opt %t | FileCheck %s
// RUN: m3-opt %t -o %t.again && diff %t %t.again

// CHECK-LABEL: tile.kernel @everything
// CHECK-SAME: family = "example", schedule = {rows = 4 : i64}
tile.kernel @everything(%x: !tile.view<?x64xf32>, %w: !tile.view<4x8x16xi32>, %s: !tile.view<4x2x16xi8>, %pool: !tile.view<?xi8>, %n: index)
    attributes {family = "example", schedule = {rows = 4}} {
  // CHECK: tile.block_id y
  %i = tile.block_id y
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %f = arith.constant 2.0 : f32
  // CHECK: tile.alloc : <4x16xf32, shared>
  %buffer = tile.alloc : !tile.view<4x16xf32, shared>
  // CHECK: tile.ring : <2, 4x16xf32>
  %ring = tile.ring : !tile.ring<2, 4x16xf32>
  // CHECK: tile.load %{{.*}} sizes [4, 1] : <?x64xf32> -> <4x1xf32>
  %a = tile.load %x[%i, %c0] sizes [4, 1] : !tile.view<?x64xf32> -> !tile.tile<4x1xf32>
  // CHECK: tile.load %{{.*}} sizes [2, 1, 16] : <4x8x16xi32> -> <1x32xi32>
  %words = tile.load %w[%c0, %i, %c0] sizes [2, 1, 16] : !tile.view<4x8x16xi32> -> !tile.tile<1x32xi32>
  %bytes = tile.load %s[%c0, %i, %c0] sizes [2, 1, 16] : !tile.view<4x2x16xi8> -> !tile.tile<1x32xi8>
  // CHECK: tile.decode %{{.*}} format e8m0 : <1x32xi8> -> <1x32xf32>
  %scale = tile.decode %bytes format e8m0 : !tile.tile<1x32xi8> -> !tile.tile<1x32xf32>
  // CHECK: tile.dequant_words %{{.*}}[%{{.*}}] scale %{{.*}} : !tile.tile<1x32xf32> format e4m3 : <1x32xi32> -> <1x32xf32>
  %b = tile.dequant_words %words[%c1] scale %scale : !tile.tile<1x32xf32> format e4m3 : !tile.tile<1x32xi32> -> !tile.tile<1x32xf32>
  %zero = tile.fill %f : f32 -> !tile.tile<4x32xf32>
  // CHECK: tile.mma %{{.*}} : <4x1xf32>, <1x32xf32>, <4x32xf32> -> <4x32xf32>
  %acc = tile.mma %a, %b, %zero : !tile.tile<4x1xf32>, !tile.tile<1x32xf32>, !tile.tile<4x32xf32> -> !tile.tile<4x32xf32>
  // CHECK: tile.fma
  %fma = tile.fma %a, %b, %acc : !tile.tile<4x1xf32>, !tile.tile<1x32xf32>, !tile.tile<4x32xf32> -> !tile.tile<4x32xf32>
  // CHECK: tile.slice %{{.*}}[1, 16] : <4x32xf32> -> <1x16xf32>
  %row = tile.slice %fma[1, 16] : !tile.tile<4x32xf32> -> !tile.tile<1x16xf32>
  // CHECK: tile.reduce max
  %top = tile.reduce max %row : !tile.tile<1x16xf32> -> !tile.tile<1x1xf32>
  // CHECK: tile.transpose %{{.*}} : <1x16xf32> -> <16x1xf32>
  %column = tile.transpose %row : !tile.tile<1x16xf32> -> !tile.tile<16x1xf32>
  // CHECK: tile.stack %{{.*}}, %{{.*}} : {{.*}} -> <2x16xf32>
  %twice = tile.stack %row, %row : !tile.tile<1x16xf32>, !tile.tile<1x16xf32> -> !tile.tile<2x16xf32>
  // CHECK: tile.iota : <1x16xi32>
  %columns = tile.iota : !tile.tile<1x16xi32>
  // CHECK: tile.extract %{{.*}}[0, 0]
  %e = tile.extract %top[0, 0] : !tile.tile<1x1xf32> -> f32
  // CHECK: tile.round %{{.*}} to bf16
  %r = tile.round %e to bf16
  // CHECK: tile.quant_group %{{.*}} : <1x16xf32> -> <1x8xi8>
  %codes, %sb = tile.quant_group %row : !tile.tile<1x16xf32> -> !tile.tile<1x8xi8>
  // CHECK: tile.dequant_group %{{.*}}, %{{.*}} e4m3_grid : <1x8xi8> -> <1x16xf32>
  %g = tile.dequant_group %codes, %sb e4m3_grid : !tile.tile<1x8xi8> -> !tile.tile<1x16xf32>
  // CHECK: tile.reinterpret %{{.*}}[%{{.*}}] : <?xi8> -> <128x16xf32>
  %page = tile.reinterpret %pool[%n] : !tile.view<?xi8> -> !tile.view<128x16xf32>
  // CHECK: tile.copy %{{.*}} bytes 256
  tile.copy %page[%i, %c0] bytes 256 : !tile.view<128x16xf32>
  // CHECK: tile.map
  %m = tile.map (%g, %row : !tile.tile<1x16xf32>, !tile.tile<1x16xf32>) -> !tile.tile<1x16xf32> {
  ^bb0(%p: f32, %q: f32):
    %sum = arith.addf %p, %q : f32
    tile.yield %sum : f32
  }
  // CHECK: tile.encode %{{.*}} format bf16 : <1x16xf32> -> <1x16xi16>
  %half = tile.encode %m format bf16 : !tile.tile<1x16xf32> -> !tile.tile<1x16xi16>
  // CHECK: tile.pipeline %{{.*}} = %{{.*}} to %{{.*}} step
  tile.pipeline %k = %c0 to %n step %c1 {
    // CHECK: tile.role "fill" warps = 1 registers = 56
    tile.role "fill" warps = 1 registers = 56 {
      %stage = tile.acquire %ring : !tile.ring<2, 4x16xf32> -> !tile.view<4x16xf32, shared>
      tile.store %m, %stage[%c0, %c0] sizes [1, 16] : !tile.tile<1x16xf32>, !tile.view<4x16xf32, shared>
      tile.commit %ring : !tile.ring<2, 4x16xf32>
    }
    tile.role "use" {
      %stage = tile.wait %ring : !tile.ring<2, 4x16xf32> -> !tile.view<4x16xf32, shared>
      // CHECK: tile.store_scalar
      tile.store_scalar %r, %stage[%c0, %c0] : f32, !tile.view<4x16xf32, shared>
      tile.release %ring : !tile.ring<2, 4x16xf32>
    }
  }
  // CHECK: tile.barrier
  tile.barrier
  // CHECK: tile.store %{{.*}} sizes [4, 32] limit %{{.*}} : <4x32xf32>, <?x64xf32>
  tile.store %fma, %x[%i, %c0] sizes [4, 32] limit %n : !tile.tile<4x32xf32>, !tile.view<?x64xf32>
  tile.return
}
