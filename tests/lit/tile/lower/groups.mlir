// Block scores of few rows with one head where the chip has a fused multiply-add for it: codes are multiplied as they
// are, and the scale of sixteen dims comes onto their sum. More rows take exact products.
// RUN: m3-opt %s --m3-to-tile="chip=sm_107a buckets=4,8" --tile-select-atoms=chip=sm_107a | FileCheck %s
// RUN: m3-opt %s --m3-to-tile="chip=sm_107a buckets=4" | m3-opt | m3-opt --tile-assign-shared | FileCheck %s --check-prefix=PLACED
// RUN: not m3-opt %s --m3-to-tile="chip=sm_100a buckets=4 schedule=index_score.product=4" --tile-select-atoms=chip=sm_100a 2>&1 | FileCheck %s --check-prefix=NOATOM
// RUN: not m3-opt %s --m3-to-tile="chip=sm_100a buckets=4 schedule=index_score.product=5" 2>&1 | FileCheck %s --check-prefix=NUMBER

// CHECK-LABEL: tile.kernel @index_score_{{.*}}product4
// CHECK-SAME: residents = 3
// CHECK: tile.load_groups {{.*}} limit {{.*}} -> <128x8xf16, mma_b>
// CHECK: tile.mma_groups {{.*}} with {{.*}} {atom = "mmaGroups"}
// CHECK-NOT: tile.load_cached
// CHECK-LABEL: tile.kernel @block_topk
// CHECK-LABEL: tile.kernel @index_score_{{.*}}product3
// CHECK: tile.load_cached {{.*}} product "exact"
// Ten stages of 9,216 bytes, 16 bytes of barriers for each, up to the next 64.
// PLACED-LABEL: tile.kernel @index_score_
// PLACED: tile.ring async 1 {offset = 0 : i64} : <10, 9216xi8>
// PLACED: tile.alloc {offset = 92352 : i64} : <1x32xi32, shared>
// NOATOM: no atom of sm_100a does this
// NUMBER: a number of product from 0 to 4 is needed

!cache = !m3.cache<kv = nvfp4, grid = e4m3, page = 128, layers = 1, kv_heads = 1, head_dim = 128, index_dim = 128>
!row = tensor<?x128xf32>
!q = tensor<?x128xf32, #m3.storage<e4m3>>
m3.weight @embed : !m3.weight<64x256, bf16> {parts = [#m3.part<values, "embed", "BF16", [64, 256]>]}
m3.weight @k : !m3.weight<128x256, bf16> {parts = [#m3.part<values, "k", "BF16", [128, 256]>]}

func.func @step(%b: !m3.batch, %c: !cache) -> tensor<?x1x16xi32> attributes {m3.step} {
  %h = m3.embed %b, @embed : tensor<?x256xf32>
  %k = m3.project %h, @k : tensor<?x256xf32> -> !row
  %q = m3.quantize %k {grid = e4m3} : !row -> !q
  m3.cache_write %c, %b, %k, %k, %k {layer = 0} : !cache, !row, !row, !row
  %s = m3.index_score %q, %c, %b {layer = 0} : !q, !cache -> tensor<?x1x?xf32>
  %sel = m3.block_topk %s, %b {k = 16, init = 0, local = 1} : tensor<?x1x?xf32> -> tensor<?x1x16xi32>
  return %sel : tensor<?x1x16xi32>
}
