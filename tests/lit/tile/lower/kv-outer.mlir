// Sparse attention with pages outside and rows inside, where it is asked for: launches that count and list the rows
// of each block, one that multiplies, one that adds the pages of each row; 2,048 rows at a time.
// RUN: m3-opt %s --m3-to-tile="chip=sm_90a buckets=16,4096 schedule=attention.kv_outer=1,attention.ahead=0,attention.rows_at_once=2048" | FileCheck %s
// RUN: m3-opt %s --m3-to-tile="chip=sm_90a buckets=16 schedule=attention.kv_outer=0" | FileCheck %s --check-prefix=OFF
// By itself from more rows on than those of 256 requests of 16.
// RUN: m3-opt %s --m3-to-tile="chip=sm_90a buckets=4096,8192" | FileCheck %s --check-prefix=ITSELF
// RUN: not m3-opt %s --m3-to-tile="chip=sm_90a buckets=16 schedule=attention.kv_outer=1,attention.consumers=12" 2>&1 | FileCheck %s --check-prefix=TWELVE

!cache = !m3.cache<kv = nvfp4, grid = e4m3, page = 128, layers = 1, kv_heads = 2, head_dim = 128, index_dim = 128>
!q = tensor<?x1024xbf16, #m3.storage<e4m3>>
!iq = tensor<?x256xbf16, #m3.storage<e4m3>>

// ITSELF: plan.bucket rows = 4096
// ITSELF-NOT: kv_outer1
// ITSELF: plan.bucket rows = 8192
// ITSELF: plan.launch @attention_products_{{.*}}_kv_outer1_
// CHECK-LABEL: tile.kernel @attention_counts_{{.*}}_kv_outer1_
// CHECK: tile.count
// CHECK: tile.store_scalar
// CHECK-LABEL: tile.kernel @attention_pages_{{.*}}_kv_outer1
// CHECK: tile.count
// CHECK: tile.compact
// CHECK: tile.scatter
// CHECK-LABEL: tile.kernel @attention_products_{{.*}}_kv_outer1_{{.*}}warps = 4
// CHECK: tile.code_table
// CHECK: tile.barrier
// CHECK: tile.share_slot {{.*}} format e2m1, {{.*}} <2x128x64xi16, shared>
// CHECK: tile.share_slot {{.*}} limit {{.*}} <2x136x64xi16, shared>
// CHECK: tile.barrier
// CHECK: tile.load {{.*}} -> <16x128xbf16, mma_a>
// CHECK: tile.mma_shared
// CHECK: tile.mma_wait
// CHECK: tile.to_operand
// CHECK: tile.mma_shared
// CHECK: tile.mma_wait
// CHECK-NOT: tile.barrier
// CHECK-LABEL: tile.kernel @attention_sum_{{.*}}_kv_outer1_
// CHECK: tile.from_operand
// CHECK: tile.store_spread
// CHECK-NOT: tile.kernel @attention
// CHECK: plan.bucket rows = 16
// Sixteen choices of 16 rows and two KV heads, and a tile of four more for each block.
// CHECK: plan.buffer "page_entries" size = rows * 0 + blocks * 32 + 2048
// 4 KiB for each.
// CHECK: plan.buffer "page_means" size = rows * 0 + blocks * 0 + 2097152
// CHECK: plan.launch @attention_counts_{{.*}} grid [blocks(64), 2, 1] label "layers.0.attention.counts"
// CHECK: plan.launch @attention_pages_{{.*}} grid [blocks(64), 2, 1] label "layers.0.attention.pages"
// CHECK: plan.launch @attention_products_{{.*}} grid [198, 2, 1] label "layers.0.attention"
// CHECK: plan.launch @attention_sum_{{.*}} grid [4, 2, 1] label "layers.0.attention.sum"
// CHECK: plan.bucket rows = 4096
// CHECK: plan.buffer "page_means" size = rows * 0 + blocks * 0 + 268435456
// CHECK: plan.scalar 2048
// CHECK: plan.scalar 0
// CHECK: plan.launch @attention_counts_{{.*}} grid [blocks(64), 2, 16]
// CHECK: plan.launch @attention_sum_{{.*}} grid [512, 2, 1]
// CHECK: plan.scalar 2048
// CHECK: plan.launch @attention_sum_{{.*}} grid [512, 2, 1]
// CHECK-NOT: plan.scalar

// OFF-NOT: share_slot
// OFF: tile.load_cached
// OFF-NOT: share_slot

// TWELVE: attention with kv_outer, consumers=12, {{.*}}: 4, 8 or 16 and positive numbers are needed

m3.weight @embed : !m3.weight<64x256, bf16> {parts = [#m3.part<values, "embed", "BF16", [64, 256]>]}
m3.weight @q : !m3.weight<1024x256, bf16> {parts = [#m3.part<values, "q", "BF16", [1024, 256]>]}
m3.weight @iq : !m3.weight<256x256, bf16> {parts = [#m3.part<values, "iq", "BF16", [256, 256]>]}
m3.weight @ik : !m3.weight<128x256, bf16> {parts = [#m3.part<values, "ik", "BF16", [128, 256]>]}

func.func @step(%b: !m3.batch, %c: !cache) -> tensor<?x1024xbf16> attributes {m3.step} {
  %h = m3.embed %b, @embed : tensor<?x256xbf16>
  %q = m3.project %h, @q : tensor<?x256xbf16> -> tensor<?x1024xbf16>
  %qq = m3.quantize %q {grid = e4m3} : tensor<?x1024xbf16> -> !q
  %i = m3.project %h, @iq : tensor<?x256xbf16> -> tensor<?x256xbf16>
  %iq = m3.quantize %i {grid = e4m3} : tensor<?x256xbf16> -> !iq
  %k = m3.project %h, @iq : tensor<?x256xbf16> -> tensor<?x256xbf16>
  %ik = m3.project %h, @ik : tensor<?x256xbf16> -> tensor<?x128xbf16>
  m3.cache_write %c, %b, %k, %k, %ik {layer = 0} : !cache, tensor<?x256xbf16>, tensor<?x256xbf16>, tensor<?x128xbf16>
  %s = m3.index_score %iq, %c, %b {layer = 0} : !iq, !cache -> tensor<?x2x?xf32>
  %sel = m3.block_topk %s, %b {k = 16, init = 0, local = 1} : tensor<?x2x?xf32> -> tensor<?x2x16xi32>
  %o = m3.sparse_attention %qq, %c, %sel, %b {layer = 0, scale = 0.0883} : !q, !cache, tensor<?x2x16xi32> -> tensor<?x1024xbf16>
  return %o : tensor<?x1024xbf16>
}
