// Attention, block scores and the choice of blocks with an NVFP4 cache for waves of 64 lanes: accumulators of 16
// columns, queries and keys as E4M3 in one product of 128 dims, 32 tokens of values at a time, several waves that
// bring pages, and barriers of all waves, since those of one role have none. With several rows one kernel for a tile of
// them, without roles. FP8 keys are E4M3 for block scores; for attention both operands are FP16.
// RUN: m3-opt %S/matrix-attention.mlir --m3-to-tile="chip=gfx950 buckets=1" | FileCheck %s
// RUN: m3-opt %S/matrix-attention.mlir --m3-to-tile="chip=gfx950 buckets=32" | FileCheck %s --check-prefix=MANY
// RUN: sed 's/kv = nvfp4, grid = e4m3/kv = fp8, grid = exact/' %S/matrix-attention.mlir | m3-opt --m3-to-tile="chip=gfx950 buckets=1" | FileCheck %s --check-prefix=FP8
// RUN: sed 's/kv = nvfp4, grid = e4m3/kv = fp8, grid = exact/; s/xbf16/xf32/g' %S/matrix-attention.mlir | m3-opt --m3-to-tile="chip=gfx950 buckets=1" | FileCheck %s --check-prefix=HALVES
// RUN: m3-opt %S/matrix-attention.mlir --m3-to-tile="chip=gfx950 buckets=16" | FileCheck %s --check-prefix=SHARED
// RUN: m3-opt %S/matrix-attention.mlir --m3-to-tile="chip=gfx950 buckets=16 schedule=attention.shared=0" | FileCheck %s --check-prefix=APART
// RUN: m3-opt %S/matrix-attention.mlir --m3-to-tile="chip=gfx950 buckets=8 schedule=attention.matrix=0,index_score.matrix=0,block_topk.by_warps=0" --tile-select-atoms=chip=gfx950 | FileCheck %s --check-prefix=PLAIN
// RUN: not m3-opt %S/matrix-attention.mlir --m3-to-tile="chip=gfx950 buckets=1 schedule=attention.stages=3" 2>&1 | FileCheck %s --check-prefix=SMALL

// CHECK-LABEL: tile.kernel @index_score_{{.*}}_columns16_consumers12_loaders4_
// CHECK-SAME: warps = 16
// CHECK: tile.ring async 1 : <16, 9216xi8>
// CHECK: tile.role "score" warps = 12
// CHECK: tile.barrier whole
// CHECK: tile.to_operand {{.*}} : <128x16xbf16, mma_b> -> <128x16xf8E4M3FN, mma_b>
// CHECK: tile.load_cached {{.*}} format e2m1 {{.*}} -> <16x128xf8E4M3FN, mma_a>
// CHECK: tile.role "load" warps = 4
// CHECK-NEXT: tile.barrier whole
// CHECK-LABEL: tile.kernel @block_topk_2x16_0_1_warps8(
// CHECK-LABEL: tile.kernel @attention_{{.*}}_consumers8_loaders4_meet0_parts8_stages8
// CHECK: tile.ring async 4 : <8, 18432xi8>
// CHECK: tile.alloc : <1x64x32xi8, shared>
// CHECK: tile.role "attend" warps = 8
// CHECK: tile.barrier whole
// CHECK: tile.load_cached {{.*}} -> <128x32xf8E4M3FN, mma_b>
// CHECK: tile.to_operand {{.*}} : <16x32xf32, mma_acc> -> <16x32xf16, mma_a>
// CHECK: tile.load_cached {{.*}} limit {{.*}} -> <32x128xf16, mma_b>
// CHECK: tile.barrier whole
// CHECK: tile.role "load" warps = 4
// CHECK: tile.barrier whole
// CHECK: tile.fill_stage
// CHECK: tile.barrier whole
// CHECK: tile.arrive
// CHECK: tile.store_spread {{.*}} spread 8

// MANY-NOT: load_cached
// MANY: tile.kernel @attention_{{.*}}{chip = "x86-avx2"
// FP8-LABEL: tile.kernel @index_score_fp8_{{.*}}_columns16
// FP8-NOT: chip =
// FP8-NOT: tile.code_table
// FP8: tile.load_cached {{.*}} format e4m3 {{.*}} -> <16x128xf8E4M3FN, mma_a>
// FP8-LABEL: tile.kernel @attention_fp8_{{.*}}_consumers8
// FP8-NOT: chip =
// FP8: tile.alloc : <4x64x8xi16, shared>
// FP8: tile.load_cached {{.*}} format e4m3 {{.*}} -> <128x32xf16, mma_b>
// FP8: tile.load_cached {{.*}} limit {{.*}} format e4m3 {{.*}} -> <32x128xf16, mma_b>

// The list of pages: choices, first of each page, places, limits of rows; then a ring that its users fill in turn, one
// load of keys and of values for eight rows, and values of its own for a row that does not see all tokens of a step.
// FP32 queries, on no grid: two operands, whose products are added, one after the other.
// HALVES-LABEL: tile.kernel @attention_fp8_{{.*}}_consumers8
// HALVES: tile.load {{.*}} part 0 {{.*}} -> <16x128xf16, mma_a>
// HALVES: tile.store
// HALVES: tile.load {{.*}} part 1 {{.*}} -> <16x128xf16, mma_a>
// HALVES: %[[K:.*]] = tile.load_cached {{.*}} -> <128x32xf16, mma_b>
// HALVES: scf.for {{.*}} iter_args(%[[SUM:.*]] = %
// HALVES: tile.mma %{{.*}}, %[[K]], %[[SUM]] :
// HALVES: } {rolled}

// SHARED-LABEL: tile.kernel @attention_{{.*}}_consumers4_parts8_shared_rows8_stages6
// SHARED-SAME: warps = 4
// SHARED: tile.ring async 4 : <6, 18432xi8>
// SHARED: tile.alloc : <8x64x32xi8, shared>
// SHARED-NOT: tile.roles
// SHARED: tile.gather
// SHARED: tile.barrier
// SHARED: tile.scan
// SHARED: tile.barrier
// SHARED: tile.scatter
// SHARED: tile.barrier
// SHARED: tile.scatter
// SHARED: tile.barrier
// SHARED: tile.fill_stage
// SHARED: scf.for
// SHARED: tile.wait
// SHARED: tile.load_cached {{.*}} -> <128x32xf8E4M3FN, mma_b>
// SHARED: tile.load_cached {{.*}} limit %c32{{.*}} -> <32x128xf16, mma_b>
// SHARED: scf.if
// SHARED-NOT: tile.load_cached
// SHARED: scf.if
// SHARED: tile.load_cached {{.*}} limit {{.*}} -> <32x128xf16, mma_b>
// SHARED: tile.release
// SHARED: tile.commit
// SHARED: tile.ring_memory
// SHARED: tile.arrive
// SHARED: plan.launch @attention_{{.*}}grid [8, 2, 2]
// Two tiles of eight rows, whose blocks are shared out over all work items.
// APART: tile.kernel @index_score_{{.*}}_all_rows1_columns32_{{.*}}_parts256_
// APART-NOT: shared_rows
// APART: tile.kernel @attention_{{.*}}_consumers4_flat1_loaders4
// APART: plan.launch @index_score_{{.*}}grid [1, 256, 1]

// PLAIN: tile.kernel @index_score_{{.*}}_lanes16
// PLAIN-NOT: chip =
// PLAIN: tile.dequant_group {{.*}}atom = "dequantGroup"
// PLAIN: tile.kernel @block_topk_2x16_0_1_by_warps0
// PLAIN-NOT: chip =
// PLAIN: tile.kernel @attention_{{.*}}_lanes16
// PLAIN-NOT: chip =
// PLAIN-NOT: mma_a

// The sums of eight waves lie in the ring once it is used up.
// SMALL: T-R7: '!tile.view<8x8x64x4xf32, shared>' does not fit the memory of '!tile.ring<3, 18432xi8>'
