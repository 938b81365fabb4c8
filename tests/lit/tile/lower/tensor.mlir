// Attention and block scores in tensor memory where the chip has it, with one head of index keys by mma.sync: gates between
// roles, two products, columns that fit. Either form can be turned off; too deep a ring is refused.
// RUN: m3-opt %s --m3-to-tile="chip=sm_100a buckets=1,8" | FileCheck %s
// RUN: m3-opt %s --m3-to-tile="chip=sm_100a buckets=1" --tile-assign-shared | FileCheck %s --check-prefix=PLACED
// RUN: m3-opt %s --m3-to-tile="chip=sm_100a buckets=1 schedule=attention.tensor=0,index_score.tensor=0" | FileCheck %s --check-prefix=PLAIN
// RUN: m3-opt %s --m3-to-tile="chip=sm_100a buckets=1 schedule=attention.product=2,index_score.product=2" --tile-select-atoms=chip=sm_100a | FileCheck %s --check-prefix=DETOUR
// RUN: not m3-opt %s --m3-to-tile="chip=sm_100a buckets=1 schedule=attention.product=0" 2>&1 | FileCheck %s --check-prefix=TABLE
// RUN: m3-opt %s --m3-to-tile="chip=sm_100a buckets=1 schedule=index_score.pair=1,index_score.parts=7" | FileCheck %s --check-prefix=PAIR
// RUN: m3-opt %s --m3-to-tile="chip=sm_100a buckets=1 schedule=index_score.tensor_stages=16" -o %t
// RUN: not m3-opt %t --pass-pipeline='builtin.module(tile.kernel(tile-assign-shared,tile-check-limits{chip=sm_100a}))' 2>&1 | FileCheck %s --check-prefix=DEEP
// RUN: m3-opt %s --m3-to-tile="chip=sm_100a buckets=16" | FileCheck %s --check-prefix=WIDE
// RUN: m3-opt %s --m3-to-tile="chip=sm_107a buckets=16" | FileCheck %s --check-prefix=EXACT
// RUN: m3-opt %s --m3-to-tile="chip=sm_100a buckets=1 schedule=attention.soften_registers=200,attention.dequantise_registers=200,attention.feed_registers=96" | FileCheck %s --check-prefix=ROLES
// RUN: not m3-opt %s --m3-to-tile="chip=sm_100a buckets=1 schedule=attention.soften_registers=200" 2>&1 | FileCheck %s --check-prefix=SOME

!cache = !m3.cache<kv = nvfp4, grid = e4m3, page = 128, layers = 1, kv_heads = 2, head_dim = 128, index_dim = 128>
!q = tensor<?x1024xf32, #m3.storage<e4m3>>
!iq = tensor<?x256xf32, #m3.storage<e4m3>>

// CHECK-LABEL: tile.kernel @index_score_{{.*}}_columns16_
// CHECK-SAME: warps = 10
// CHECK: tile.ring async 4 : <4, 9216xi8>
// CHECK: tile.gates fills 4 drains 1 : <4>
// CHECK: tile.gates fills 1 drains 4 : <2>
// CHECK: tile.tensor_memory : <128x256xi32, tensor>
// CHECK: tile.role "score" warps = 4
// CHECK: tile.tensor_load {{.*}} -> <32x16xf32, lane_rows>
// CHECK: tile.reduce_lanes max_or_nan
// CHECK: tile.role "dequantise" warps = 4
// CHECK: tile.tensor_keys {{.*}} product "multiply"
// CHECK: tile.role "multiply" warps = 1
// CHECK: tile.operand_queries {{.*}} : <?x128xf32>, <16x128xi8, shared>
// CHECK: tile.tensor_mma {{.*}} : <128x32xi32, tensor>, <16x128xi8, shared>, <128x16xf32, tensor>
// CHECK: tile.tensor_free
// CHECK-LABEL: tile.kernel @attention_{{.*}}_parts8_product1_stages4_tensor_stages4(
// CHECK: tile.role "soften" warps = 4
// CHECK: tile.operand_weights
// CHECK: tile.role "dequantise" warps = 4
// CHECK: tile.operand_values {{.*}} product "multiply"
// CHECK: tile.role "multiply" warps = 1
// CHECK: tile.tensor_mma {{.*}} : <2x128x64xi16, shared>, <128x16xi16, shared>, <128x16xf32, tensor>
// CHECK: tile.role "load" warps = 1
// CHECK: tile.arrive
// CHECK: plan.launch @attention_{{.*}} grid [8, 2, 1]

// Operands begin where their swizzle of 1,024 bytes does: four pages of values, weights, queries; then the ring with 16
// bytes of barriers for each stage.
// PLACED-LABEL: tile.kernel @attention_
// PLACED: tile.alloc {offset = 0 : i64} : <131072xi8, shared>
// PLACED: tile.alloc {offset = 131072 : i64} : <128x16xi16, shared>
// PLACED: tile.alloc {offset = 135168 : i64} : <16x128xi8, shared>
// PLACED: tile.ring async 4 {offset = 137216 : i64} : <4, 18432xi8>
// PLACED: tile.gates fills 4 drains 1 {offset = 211008 : i64} : <4>

// DETOUR: tile.tensor_keys {{.*}} product "detour", {{.*}} {atom = "tensorKeysByDetour"}
// DETOUR: tile.operand_values {{.*}} product "detour" limit {{.*}} {atom = "operandValuesByDetour"}
// TABLE: T-N9: a product is 'multiply' or 'detour', found 'table'
// Registers are changed by four warps: the one that multiplies and the one that loads are in one role then.
// ROLES: tile.kernel @attention_{{.*}}_dequantise_registers200_feed_registers96_parts8_product1_soften_registers200_
// ROLES-SAME: residents = 1
// ROLES-SAME: warps = 12
// ROLES: tile.role "soften" warps = 4 registers = 200
// ROLES: tile.role "dequantise" warps = 4 registers = 200
// ROLES: tile.role "feed" warps = 4 registers = 96
// ROLES-NOT: tile.role
// WIDE: tile.kernel @index_score_{{.*}}_columns32_
// WIDE-SAME: residents = 2
// WIDE-SAME: warps = 12
// WIDE: tile.role "score" warps = 4 registers = 104
// WIDE: tile.role "dequantise" warps = 4 registers = 88
// WIDE: tile.role "feed" warps = 4 registers = 48
// EXACT: tile.kernel @index_score_{{.*}}_columns32_
// EXACT: tile.role "score" warps = 12 registers = 160
// EXACT: tile.role "load" warps = 4 registers = 32
// SOME: T-S2: registers stand on every role or on none

// Pages in twos: seven work items are four pairs of them.
// PAIR-LABEL: tile.kernel @index_score_{{.*}}_pair1_
// PAIR-SAME: cluster = 2
// PAIR: tile.alloc : <8x128xi8, shared>
// PAIR: tile.gates fills 8 drains 1 pair : <4>
// PAIR: tile.gates fills 1 drains 8 pair : <2>
// PAIR: tile.gates fills 2 drains 1 pair : <1>
// PAIR: tile.cluster_rank
// PAIR: tile.tensor_memory pair :
// PAIR: tile.gate_signal full %{{.*}}[%{{.*}}] alone : <1>
// PAIR: tile.tensor_mma pair {{.*}} : <128x32xi32, tensor>, <8x128xi8, shared>, <128x16xf32, tensor>
// PAIR: plan.launch @index_score_{{.*}} grid [2, 4, 1]

// PLAIN-NOT: tile.tensor_
// PLAIN: tile.load_cached

// DEEP: needs 1024 columns of tensor memory, sm_100a has 512; make the ring shallower
m3.weight @embed : !m3.weight<64x256, bf16> {parts = [#m3.part<values, "embed", "BF16", [64, 256]>]}
m3.weight @q : !m3.weight<1024x256, bf16> {parts = [#m3.part<values, "q", "BF16", [1024, 256]>]}
m3.weight @iq : !m3.weight<256x256, bf16> {parts = [#m3.part<values, "iq", "BF16", [256, 256]>]}
m3.weight @ik : !m3.weight<128x256, bf16> {parts = [#m3.part<values, "ik", "BF16", [128, 256]>]}

func.func @step(%b: !m3.batch, %c: !cache) -> tensor<?x1024xf32> attributes {m3.step} {
  %h = m3.embed %b, @embed : tensor<?x256xf32>
  %q = m3.project %h, @q : tensor<?x256xf32> -> tensor<?x1024xf32>
  %qq = m3.quantize %q {grid = e4m3} : tensor<?x1024xf32> -> !q
  %i = m3.project %h, @iq : tensor<?x256xf32> -> tensor<?x256xf32>
  %iq = m3.quantize %i {grid = e4m3} : tensor<?x256xf32> -> !iq
  %k = m3.project %h, @iq : tensor<?x256xf32> -> tensor<?x256xf32>
  %ik = m3.project %h, @ik : tensor<?x256xf32> -> tensor<?x128xf32>
  m3.cache_write %c, %b, %k, %k, %ik {layer = 0} : !cache, tensor<?x256xf32>, tensor<?x256xf32>, tensor<?x128xf32>
  %s = m3.index_score %iq, %c, %b {layer = 0} : !iq, !cache -> tensor<?x2x?xf32>
  %sel = m3.block_topk %s, %b {k = 16, init = 0, local = 1} : tensor<?x2x?xf32> -> tensor<?x2x16xi32>
  %o = m3.sparse_attention %qq, %c, %sel, %b {layer = 0, scale = 0.0883} : !q, !cache, tensor<?x2x16xi32> -> tensor<?x1024xf32>
  return %o : tensor<?x1024xf32>
}
