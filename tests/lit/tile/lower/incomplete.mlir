// A target that lacks kernels: those of decode steps are its own, the others are lowered for the chip that stands in,
// with its schedules, and say so; the passes after take each kernel's own chip. Steps of more than 16 rows have none.
// RUN: sed 's/xbf16/xf32/g' %S/matrix-attention.mlir > %t.mlir
// RUN: m3-opt %t.mlir --m3-to-tile="chip=sm_100a buckets=8,32 schedule=attention.tensor=0,index_score.tensor=0" --tile-overlap-launches=chip=sm_100a --tile-select-atoms=chip=sm_100a --tile-assign-shared --tile-check-limits=chip=sm_100a | FileCheck %s
// RUN: not m3-opt %t.mlir --m3-to-tile="chip=sm_100a buckets=8 schedule=attention.tensor=0,index_score.tensor=0,index_score.stages=64" --tile-assign-shared --tile-check-limits=chip=sm_100a 2>&1 | FileCheck %s --check-prefix=DEEP
// RUN: m3-opt %t.mlir --m3-to-tile="chip=sm_107a buckets=8" --tile-select-atoms=chip=sm_107a | FileCheck %s --check-prefix=EXACT

// CHECK-LABEL: tile.kernel @embed
// CHECK-SAME: chip = "x86-avx2"
// CHECK-NOT: tile.await_launch
// CHECK-LABEL: tile.kernel @project
// CHECK-SAME: chip = "x86-avx2"
// CHECK: tile.mma {{.*}}atom = "mma"
// CHECK-LABEL: tile.kernel @index_score_{{.*}}product1
// CHECK-NOT: chip =
// CHECK: tile.await_launch
// CHECK-NOT: tile.code_table
// CHECK: tile.load {{.*}} limit {{.*}} -> <128x8xf16, mma_b>
// CHECK: tile.load_cached {{.*}} product "multiply" format e2m1 {atom = "cachedMultiplied"}
// CHECK-LABEL: tile.kernel @block_topk_2x16_0_1_warps8(
// CHECK-NOT: chip =
// CHECK-LABEL: tile.kernel @attention_{{.*}}product1
// CHECK: tile.ring async 4 {offset = 0 : i64}
// CHECK: tile.load_cached {{.*}} product "multiply" limit {{.*}} {atom = "cachedMultiplied"}
// CHECK: tile.store_spread {{.*}} <?x128xf32>
// CHECK-LABEL: tile.kernel @index_score_{{[a-z0-9_]*}}_rows16(
// CHECK-SAME: chip = "x86-avx2"
// CHECK-LABEL: tile.kernel @attention_{{[A-Za-z0-9_]*}}_value_heads2(
// CHECK-SAME: chip = "x86-avx2"
// CHECK: plan.bucket rows = 8
// CHECK: plan.launch @index_score_{{.*}}product1
// CHECK: plan.bucket rows = 32
// CHECK-NOT: product1

// EXACT-LABEL: tile.kernel @index_score_{{.*}}product3
// EXACT: tile.load_cached {{.*}} product "exact" format e2m1 {atom = "cachedExact"}
// EXACT-LABEL: tile.kernel @attention_
// EXACT: tile.code_table
// EXACT: tile.load_cached {{.*}} table

// DEEP: needs {{[0-9]+}} bytes of shared memory, sm_100a gives a work item
