// Index scores, block choice and attention become three launches: the scores take rows · heads · 4
// bytes per block, their grid follows the length of the sequences, and the choice is tapped. Layers
// that differ in their place in the page alone share kernels. With 64 rows a tile of rows shares a
// dequantised page: roles and a ring stand in the kernels; with one row there is neither, the 16
// chosen pages are cut into four parts, and a fourth launch adds them.
// RUN: m3-opt %s --m3-graph --m3-to-tile="chip=x86-avx2 buckets=1,64" | FileCheck %s
// RUN: m3-opt %s --m3-graph --m3-to-tile="chip=x86-avx2 buckets=1 schedule=attention.ring=1" \
// RUN:   | FileCheck %s --check-prefix=RING

!cache = !m3.cache<kv = nvfp4, grid = e4m3, page = 128, layers = 2, kv_heads = 2, head_dim = 128, index_dim = 128>
!q = tensor<?x512xf32, #m3.storage<e4m3>>
!iq = tensor<?x256xf32, #m3.storage<e4m3>>

// CHECK: plan.cache nvfp4 grid e4m3 {{.*}} kv_offsets = [0, 46080] index_offsets = [36864, 82944]

// CHECK-LABEL: tile.kernel @index_score_{{.*}}_rows1(
// CHECK-NOT: tile.ring
// CHECK: tile.copy
// CHECK: tile.dequant_group {{.*}} e4m3_grid
// CHECK-LABEL: tile.kernel @block_topk_2x16_0_1(
// CHECK-LABEL: tile.kernel @attention_{{.*}}_rows1
// CHECK-NOT: tile.role
// CHECK: tile.return
// CHECK-LABEL: tile.kernel @attention_merge_paired_4h2x128_k16(
// CHECK-LABEL: tile.kernel @index_score_{{.*}}_rows
// CHECK: tile.ring
// CHECK: tile.role "dequantise"
// CHECK: tile.role "score"
// CHECK-LABEL: tile.kernel @attention_
// CHECK: tile.role "dequantise"
// CHECK: tile.role "attend"
// RING-LABEL: tile.kernel @attention_
// RING: tile.role "attend"

// CHECK: plan.bucket rows = 1
// CHECK: %[[SCORES:.*]] = plan.buffer "block_scores" size = rows * 0 + blocks * 8 + 64
// CHECK: plan.launch @[[SCORE:index_score_.*]](r {{.*}} w %[[SCORES]] {{.*}} grid [1, blocks(4), 1] label "layers.0.index_score"
// CHECK: %[[SEL:.*]] = plan.buffer "selected_blocks" size = rows * 128
// CHECK: plan.launch @[[TOPK:block_topk_.*]](r {{.*}} r %[[SCORES]] {{.*}} w %[[SEL]] {{.*}} grid [1, 2, 1]
// CHECK: plan.tap blocks layer = 0 row_bytes = 128 %[[SEL]]
// CHECK: %[[PARTS:.*]] = plan.buffer "attention_parts" size = rows * 0 + blocks * 0 + 9216
// CHECK: plan.launch @[[ATTEND:attention_.*]](r {{.*}} r %[[SEL]] {{.*}} w %[[PARTS]] {{.*}} grid [4, 2, 1] label "layers.0.attention"
// CHECK: plan.launch @[[MERGE:attention_merge_.*]](r {{.*}} r %[[PARTS]] {{.*}} r %[[SEL]] {{.*}} grid [1, 1, 1] label "layers.0.attention_merge"
// CHECK: plan.launch @[[SCORE]]({{.*}} label "layers.1.index_score"
// CHECK: plan.launch @[[TOPK]](
// CHECK: plan.launch @[[ATTEND]](
// CHECK: plan.launch @[[MERGE]](
// CHECK: plan.bucket rows = 64
// CHECK: plan.buffer "block_scores" size = rows * 0 + blocks * 512 + 64
func.func @step(%b: !m3.batch, %c: !cache) -> tensor<?x256xf32> attributes {m3.step} {
  %h0 = m3.embed %b, @embed : tensor<?x256xf32>
  %cs = m3.rope_table %b {theta = 5.0e6, rotary = 64} : tensor<?x64xf32>
  %n0 = m3.norm %h0, @norm {eps = 1.0e-6} : tensor<?x256xf32>
  %q0 = m3.project %n0, @q : tensor<?x256xf32> -> tensor<?x512xf32>
  %qn0 = m3.head_norm %q0, @head {heads = 4, eps = 1.0e-6} : tensor<?x512xf32>
  %qr0 = m3.rope %qn0, %cs {heads = 4} : tensor<?x512xf32>, tensor<?x64xf32>
  %qq0 = m3.quantize %qr0 {grid = e4m3} : tensor<?x512xf32> -> !q
  %k0 = m3.project %n0, @kv : tensor<?x256xf32> -> tensor<?x256xf32>
  %kn0 = m3.head_norm %k0, @head {heads = 2, eps = 1.0e-6} : tensor<?x256xf32>
  %kr0 = m3.rope %kn0, %cs {heads = 2} : tensor<?x256xf32>, tensor<?x64xf32>
  %v0 = m3.project %n0, @kv : tensor<?x256xf32> -> tensor<?x256xf32>
  %i0 = m3.project %n0, @kv : tensor<?x256xf32> -> tensor<?x256xf32>
  %in0 = m3.head_norm %i0, @head {heads = 2, eps = 1.0e-6} : tensor<?x256xf32>
  %ir0 = m3.rope %in0, %cs {heads = 2} : tensor<?x256xf32>, tensor<?x64xf32>
  %iq0 = m3.quantize %ir0 {grid = e4m3} : tensor<?x256xf32> -> !iq
  %j0 = m3.project %n0, @ik : tensor<?x256xf32> -> tensor<?x128xf32>
  %jn0 = m3.head_norm %j0, @head {heads = 1, eps = 1.0e-6} : tensor<?x128xf32>
  %jr0 = m3.rope %jn0, %cs {heads = 1} : tensor<?x128xf32>, tensor<?x64xf32>
  m3.cache_write %c, %b, %kr0, %v0, %jr0 {layer = 0} : !cache, tensor<?x256xf32>, tensor<?x256xf32>, tensor<?x128xf32>
  %s0 = m3.index_score %iq0, %c, %b {layer = 0} : !iq, !cache -> tensor<?x2x?xf32>
  %sel0 = m3.block_topk %s0, %b {k = 16, init = 0, local = 1} : tensor<?x2x?xf32> -> tensor<?x2x16xi32>
  %o0 = m3.sparse_attention %qq0, %c, %sel0, %b {layer = 0, scale = 0.0883} : !q, !cache, tensor<?x2x16xi32> -> tensor<?x512xf32>
  %a0 = m3.project %o0, @o : tensor<?x512xf32> -> tensor<?x256xf32>
  %h1 = arith.addf %h0, %a0 : tensor<?x256xf32>
  %n1 = m3.norm %h1, @norm {eps = 1.0e-6} : tensor<?x256xf32>
  %q1 = m3.project %n1, @q : tensor<?x256xf32> -> tensor<?x512xf32>
  %qn1 = m3.head_norm %q1, @head {heads = 4, eps = 1.0e-6} : tensor<?x512xf32>
  %qr1 = m3.rope %qn1, %cs {heads = 4} : tensor<?x512xf32>, tensor<?x64xf32>
  %qq1 = m3.quantize %qr1 {grid = e4m3} : tensor<?x512xf32> -> !q
  %k1 = m3.project %n1, @kv : tensor<?x256xf32> -> tensor<?x256xf32>
  %kn1 = m3.head_norm %k1, @head {heads = 2, eps = 1.0e-6} : tensor<?x256xf32>
  %kr1 = m3.rope %kn1, %cs {heads = 2} : tensor<?x256xf32>, tensor<?x64xf32>
  %v1 = m3.project %n1, @kv : tensor<?x256xf32> -> tensor<?x256xf32>
  %i1 = m3.project %n1, @kv : tensor<?x256xf32> -> tensor<?x256xf32>
  %in1 = m3.head_norm %i1, @head {heads = 2, eps = 1.0e-6} : tensor<?x256xf32>
  %ir1 = m3.rope %in1, %cs {heads = 2} : tensor<?x256xf32>, tensor<?x64xf32>
  %iq1 = m3.quantize %ir1 {grid = e4m3} : tensor<?x256xf32> -> !iq
  %j1 = m3.project %n1, @ik : tensor<?x256xf32> -> tensor<?x128xf32>
  %jn1 = m3.head_norm %j1, @head {heads = 1, eps = 1.0e-6} : tensor<?x128xf32>
  %jr1 = m3.rope %jn1, %cs {heads = 1} : tensor<?x128xf32>, tensor<?x64xf32>
  m3.cache_write %c, %b, %kr1, %v1, %jr1 {layer = 1} : !cache, tensor<?x256xf32>, tensor<?x256xf32>, tensor<?x128xf32>
  %s1 = m3.index_score %iq1, %c, %b {layer = 1} : !iq, !cache -> tensor<?x2x?xf32>
  %sel1 = m3.block_topk %s1, %b {k = 16, init = 0, local = 1} : tensor<?x2x?xf32> -> tensor<?x2x16xi32>
  %o1 = m3.sparse_attention %qq1, %c, %sel1, %b {layer = 1, scale = 0.0883} : !q, !cache, tensor<?x2x16xi32> -> tensor<?x512xf32>
  %a1 = m3.project %o1, @o : tensor<?x512xf32> -> tensor<?x256xf32>
  %h2 = arith.addf %h1, %a1 : tensor<?x256xf32>
  return %h2 : tensor<?x256xf32>
}
m3.weight @embed : !m3.weight<100x256, bf16> {parts = [#m3.part<values, "embed", "BF16", [100, 256]>]}
m3.weight @norm : !m3.weight<256, bf16> {parts = [#m3.part<values, "norm", "BF16", [256]>]}
m3.weight @head : !m3.weight<128, bf16> {parts = [#m3.part<values, "head", "BF16", [128]>]}
m3.weight @q : !m3.weight<512x256, bf16> {parts = [#m3.part<values, "q", "BF16", [512, 256]>]}
m3.weight @kv : !m3.weight<256x256, bf16> {parts = [#m3.part<values, "kv", "BF16", [256, 256]>]}
m3.weight @ik : !m3.weight<128x256, bf16> {parts = [#m3.part<values, "ik", "BF16", [128, 256]>]}
m3.weight @o : !m3.weight<256x512, bf16> {parts = [#m3.part<values, "o", "BF16", [256, 512]>]}
