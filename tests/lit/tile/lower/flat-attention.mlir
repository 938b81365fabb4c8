// Attention to all pages of several rows: these lie end to end and are cut into as many stretches as fill the chip, so
// there is one work item for each stretch and KV head. One row and long steps have parts of each row.
// RUN: m3-opt %s --m3-to-tile="chip=sm_90a buckets=1,8,256,512" | FileCheck %s
// RUN: m3-opt %s --m3-to-tile="chip=sm_107a buckets=8" | FileCheck %s --check-prefix=THREE
// RUN: m3-opt %s --m3-to-tile="chip=gfx950 buckets=8" | FileCheck %s --check-prefix=WAVES
// RUN: m3-opt %s --m3-to-tile="chip=sm_90a buckets=8 schedule=attention.flat=0,attention.parts=4" | FileCheck %s --check-prefix=ROWS
// RUN: m3-opt %s --m3-to-tile="chip=sm_90a buckets=8 schedule=attention.flat=0" | FileCheck %s --check-prefix=TABLE
// RUN: m3-opt %s --m3-to-tile="chip=sm_107a buckets=8 schedule=attention.flat=0" | FileCheck %s --check-prefix=TABLE107
// RUN: m3-opt %s --m3-to-tile="chip=sm_90a buckets=1 schedule=attention.flat=1" | FileCheck %s --check-prefix=ASKED
// RUN: not m3-opt %s --m3-to-tile="chip=sm_90a buckets=8 schedule=attention.flat=2" 2>&1 | FileCheck %s --check-prefix=SWITCH
// RUN: not m3-opt %s --m3-to-tile="chip=sm_90a buckets=512 schedule=attention.flat=1" 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not m3-opt %s --m3-to-tile="chip=sm_90a buckets=8 schedule=attention.loaders=3" 2>&1 | FileCheck %s --check-prefix=THIRDS

!cache = !m3.cache<kv = nvfp4, grid = e4m3, page = 128, layers = 1, kv_heads = 2, head_dim = 128, index_dim = 0>
!q = tensor<?x1024xbf16, #m3.storage<e4m3>>

// CHECK-LABEL: tile.kernel @attention_{{.*}}_consumers8_meet0_merge12_parts66_
// CHECK-LABEL: tile.kernel @attention_{{.*}}_consumers8_flat1_merge12_parts66_
// CHECK: tile.ring async 4 : <8, 18432xi8>
// The sums of eight warps have memory of their own: the ring goes on.
// CHECK: tile.alloc : <8x16x32x4xf32, shared>
// Where each row's pages end.
// CHECK: tile.alloc : <256xi32, shared>
// CHECK: tile.scan
// CHECK: tile.barrier
// CHECK: tile.role "attend" warps = 8
// CHECK: tile.load_cached
// CHECK: tile.barrier
// CHECK: tile.store_spread
// CHECK: tile.role "load" warps = 1
// CHECK: tile.fill_stage
// A group of twelve parts of a row, then all.
// CHECK: tile.arrive
// CHECK: tile.arrive
// CHECK-NOT: tile.arrive
// CHECK-LABEL: tile.kernel @attention_{{.*}}_meet0_merge12_parts1_
// CHECK: plan.bucket rows = 1
// CHECK: plan.launch @attention_{{.*}}_meet0_{{.*}} grid [66, 2, 1]
// CHECK: plan.bucket rows = 8
// Slots: 66 + 8, groups of twelve: (66 + 8) / 12 + 8 + 1, of two KV heads, 8 KiB each.
// CHECK: plan.buffer "attention_parts" size = rows * 0 + blocks * 0 + 1458176
// CHECK: plan.launch @attention_{{.*}}_flat1_{{.*}} grid [66, 2, 1]
// CHECK: plan.bucket rows = 256
// CHECK: plan.launch @attention_{{.*}}_flat1_{{.*}} grid [66, 2, 1]
// CHECK: plan.bucket rows = 512
// CHECK: plan.launch @attention_{{.*}} grid [1, 2, 512]

// THREE: plan.launch @attention_{{.*}}_consumers4_flat1_merge12_parts212_residents2_stages6({{.*}} grid [212, 2, 1]

// Waves of one role have no barrier: they count themselves in.
// WAVES: tile.kernel @attention_{{.*}}_consumers4_flat1_loaders4_merge12_parts128_stages6
// WAVES: tile.gates fills 4 drains 1
// WAVES: tile.role "attend"
// WAVES: tile.gate_signal full
// WAVES: tile.gate_wait full
// WAVES: tile.role "load" warps = 4
// WAVES-NOT: tile.barrier
// WAVES: tile.arrive

// ROWS: plan.launch @attention_{{.*}} grid [4, 2, 8]
// What the target chooses for parts of rows: 132 / (8 rows · 2 KV heads); 3 · 212 / 16 with three work items.
// TABLE: plan.launch @attention_{{.*}}_consumers8_flat0_meet0_merge12_parts8_{{.*}} grid [8, 2, 8]
// TABLE107: plan.launch @attention_{{.*}}_flat0_meet0_merge12_parts39_residents3_{{.*}} grid [39, 2, 8]
// Flat where parts of rows are as good.
// ASKED: plan.launch @attention_{{.*}}_flat1_merge12_parts66_{{.*}} grid [66, 2, 1]
// SWITCH: 0 (off) or 1 (on) is needed for flat

// THIRDS: attention with flat=1 and loaders=3: 32 pages are listed at a time
// MANY: attention.flat shares out the pages of 256 rows at most, the step has 512; leave it to the target's table
m3.weight @embed : !m3.weight<64x256, bf16> {parts = [#m3.part<values, "embed", "BF16", [64, 256]>]}
m3.weight @q : !m3.weight<1024x256, bf16> {parts = [#m3.part<values, "q", "BF16", [1024, 256]>]}
m3.weight @k : !m3.weight<256x256, bf16> {parts = [#m3.part<values, "k", "BF16", [256, 256]>]}

func.func @step(%b: !m3.batch, %c: !cache) -> tensor<?x1024xbf16> attributes {m3.step} {
  %h = m3.embed %b, @embed : tensor<?x256xbf16>
  %q = m3.project %h, @q : tensor<?x256xbf16> -> tensor<?x1024xbf16>
  %qq = m3.quantize %q {grid = e4m3} : tensor<?x1024xbf16> -> !q
  %k = m3.project %h, @k : tensor<?x256xbf16> -> tensor<?x256xbf16>
  m3.cache_write %c, %b, %k, %k {layer = 0} : !cache, tensor<?x256xbf16>, tensor<?x256xbf16>
  %o = m3.dense_attention %qq, %c, %b {layer = 0, scale = 0.0883} : !q, !cache -> tensor<?x1024xbf16>
  return %o : tensor<?x1024xbf16>
}
