// Attention, block scores and the choice of blocks with an NVFP4 cache for waves of 64 lanes: accumulators of 16
// columns, queries and keys as E4M3 in one product of 128 dims, 32 tokens of values at a time, several waves that
// bring pages, and barriers of all waves, since those of one role have none. Another cache is the CPU's.
// RUN: m3-opt %S/lower-matrix-attention.mlir --m3-to-tile="chip=gfx950 buckets=1" | FileCheck %s
// RUN: m3-opt %S/lower-matrix-attention.mlir --m3-to-tile="chip=gfx950 buckets=32" | FileCheck %s --check-prefix=MANY
// RUN: sed 's/kv = nvfp4, grid = e4m3/kv = fp8, grid = exact/' %S/lower-matrix-attention.mlir | m3-opt --m3-to-tile="chip=gfx950 buckets=1" | FileCheck %s --check-prefix=FP8
// RUN: not m3-opt %S/lower-matrix-attention.mlir --m3-to-tile="chip=gfx950 buckets=1 schedule=attention.stages=3" 2>&1 | FileCheck %s --check-prefix=SMALL

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
// FP8: tile.kernel @index_score_fp8_{{.*}}{chip = "x86-avx2"

// The sums of eight waves lie in the ring once it is used up.
// SMALL: T-R7: '!tile.view<8x8x64x4xf32, shared>' does not fit the memory of '!tile.ring<3, 18432xi8>'
