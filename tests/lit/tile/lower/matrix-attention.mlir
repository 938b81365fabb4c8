// Attention, block scores and the choice of blocks of BF16 rows with an NVFP4 cache: one launch each, roles and a ring
// that copies fill; with few rows the pages of a row are parts that count themselves in, with many there is one
// part and two work items share a multiprocessor. Another schedule, another kernel.
// RUN: m3-opt %s --m3-to-tile="chip=sm_90a buckets=1,256" | FileCheck %s
// RUN: m3-opt %s --m3-to-tile="chip=sm_90a buckets=1 schedule=attention.meet=1,attention.stages=7" | FileCheck %s --check-prefix=MEET
// RUN: m3-opt %s --m3-to-tile="chip=sm_90a buckets=1 schedule=attention.merge=4" | FileCheck %s --check-prefix=GROUPS
// RUN: not m3-opt %s --m3-to-tile="chip=sm_90a buckets=1 schedule=attention.stages=3" 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: m3-opt %s --m3-to-tile="chip=sm_90a buckets=256 schedule=attention.loaders=4,attention.attend_registers=216,attention.load_registers=40,attention.residents=2" | FileCheck %s --check-prefix=ROLES
// RUN: m3-opt %s --m3-to-tile="chip=sm_90a buckets=256 schedule=attention.attend_registers=216,attention.load_registers=40" -o %t
// RUN: not m3-opt %t --pass-pipeline='builtin.module(tile.kernel(tile-check-limits{chip=sm_90a}))' 2>&1 | FileCheck %s --check-prefix=ONE

!cache = !m3.cache<kv = nvfp4, grid = e4m3, page = 128, layers = 1, kv_heads = 2, head_dim = 128, index_dim = 128>
!q = tensor<?x1024xbf16, #m3.storage<e4m3>>
!iq = tensor<?x256xbf16, #m3.storage<e4m3>>

// CHECK-LABEL: tile.kernel @index_score_{{.*}}_columns8_
// CHECK-SAME: warps = 16
// CHECK: tile.ring async 1 turns 15 : <20, 9216xi8>
// CHECK: tile.role "score" warps = 15
// CHECK: tile.load_cached {{.*}} format e2m1 {{.*}} -> <16x128xf16, mma_a>
// CHECK: tile.mma
// CHECK: tile.reduce max_or_nan
// CHECK: tile.role "load" warps = 1
// CHECK-LABEL: tile.kernel @block_topk_2x16_0_1_warps8(
// CHECK: tile.compact
// CHECK: tile.scatter
// CHECK-LABEL: tile.kernel @attention_{{.*}}_parts8_
// CHECK: tile.ring async 4 : <8, 18432xi8>
// CHECK: tile.role "attend" warps = 8
// CHECK: tile.load_cached {{.*}} -> <128x16xf16, mma_b>
// CHECK: tile.load_cached {{.*}} limit {{.*}} -> <16x128xf16, mma_b>
// CHECK: tile.role "load" warps = 1
// CHECK: tile.fill_stage
// CHECK: tile.arrive
// CHECK-LABEL: tile.kernel @index_score_{{.*}}_columns32_
// CHECK-LABEL: tile.kernel @attention_{{.*}}_parts1_residents2
// CHECK-SAME: residents = 2
// CHECK: tile.ring async 4 : <4, 18432xi8>
// CHECK-NOT: tile.arrive
// CHECK: plan.bucket rows = 1
// CHECK: plan.launch @index_score_{{.*}} grid [1, 132, 1]
// CHECK: plan.launch @block_topk_{{.*}} grid [1, 2, 1]
// CHECK: plan.launch @attention_{{.*}} grid [8, 2, 1]
// CHECK: plan.bucket rows = 256
// CHECK: plan.launch @attention_{{.*}} grid [1, 2, 256]

// MEET: tile.kernel @attention_{{.*}}_meet1_
// MEET-SAME: cluster = 8
// MEET: tile.ring async 4 turns 2 : <7, 18432xi8>
// MEET: tile.cluster_barrier
// MEET: tile.peer
// MEET-NOT: tile.arrive
// MEET: plan.launch @attention_{{.*}} grid [8, 2, 1]

// Two groups of four parts, then the groups.
// GROUPS: tile.kernel @attention_{{.*}}_merge4_
// GROUPS-COUNT-2: tile.arrive
// GROUPS-NOT: tile.arrive

// Registers of roles, which four warps change together; a role of one warp has none.
// ROLES: tile.kernel @attention_{{.*}}_attend_registers216_consumers4_load_registers40_loaders4_
// ROLES: tile.role "attend" warps = 4 registers = 216
// ROLES: tile.role "load" warps = 4 registers = 40
// ONE: has 1 warp with 40 registers of their own, sm_90a changes those of 4 warps together: 3 too few; give the role more warps

// The sums of eight warps lie in the ring once it is used up.
// SMALL: T-R7: '!tile.view<8x16x32x4xf32, shared>' does not fit the memory of '!tile.ring<3, 18432xi8>'
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
