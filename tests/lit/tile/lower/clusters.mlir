// Few outputs of a long K: work items of a cluster share it, fragments are replaced one by one, and the first
// weights are asked for before the wait for the launch before.
// RUN: m3-opt %s -m3-to-tile="chip=sm_90a buckets=4" | FileCheck %s
// RUN: m3-opt %s -m3-to-tile="chip=sm_90a buckets=4 schedule=project.cluster=2" | FileCheck %s --check-prefix=TWO
// RUN: m3-opt %s -m3-to-tile="chip=sm_90a buckets=4 schedule=project.early=0" | FileCheck %s --check-prefix=LATE

// CHECK: tile.kernel @project_bf16_64x4096_residual_rounded_{{.*}}_ahead1_ahead_rows1_cluster8_early1_{{.*}}_one_tile1
// CHECK-SAME: cluster = 8 : i64
// CHECK-SAME: residents = 2 : i64
// CHECK: tile.cluster_arrive
// CHECK: %[[PARTS:.*]] = tile.alloc : <64x1x16xf32, shared>
// CHECK: tile.load {{.*}} -> <32x16xi32, per_lane>
// CHECK: tile.await_launch
// CHECK-NEXT: tile.allow_launch
// CHECK: tile.load {{.*}} limit {{.*}} -> <64x8xbf16, mma_b>
// CHECK: tile.mma
// Sums go to where their row goes on; nobody reads another's memory, so nobody waits at the end.
// CHECK: tile.cluster_wait
// CHECK: tile.store_transposed {{.*}}, %[[PARTS]]{{.*}} across 8
// CHECK-NEXT: tile.cluster_barrier
// CHECK-NOT: tile.peer
// CHECK-NOT: tile.cluster_barrier
// CHECK: tile.return
// CHECK: plan.launch @project_bf16_64x4096{{.*}} grid [32, 1, 1] label "o"
// A choice that is 0 is off.
// LATE: tile.kernel @project_bf16_64x4096{{.*}}_early0_
// LATE-NOT: tile.await_launch
// TWO: tile.kernel @project_bf16_64x4096{{.*}}_cluster2_
// TWO: tile.store_transposed {{.*}} across 2
// TWO: plan.launch @project_bf16_64x4096{{.*}} grid [8, 1, 1] label "o"

m3.weight @embed : !m3.weight<64x64, bf16> {parts = [#m3.part<values, "embed", "BF16", [64, 64]>]}
m3.weight @wide : !m3.weight<4096x64, bf16> {parts = [#m3.part<values, "wide", "BF16", [4096, 64]>]}
m3.weight @o : !m3.weight<64x4096, bf16> {parts = [#m3.part<values, "o", "BF16", [64, 4096]>]}

func.func @step(%batch: !m3.batch) -> tensor<?x64xbf16> attributes {m3.step} {
  %h = m3.embed %batch, @embed : tensor<?x64xbf16>
  %x = m3.project %h, @wide : tensor<?x64xbf16> -> tensor<?x4096xbf16>
  %y = m3.fused "residual_project"(%a = %h : tensor<?x64xbf16>, %b = %x : tensor<?x4096xbf16>) -> (tensor<?x64xbf16>) {
    %p = m3.project %b, @o : tensor<?x4096xbf16> -> tensor<?x64xbf16>
    %s = arith.addf %a, %p : tensor<?x64xbf16>
    m3.yield %s : tensor<?x64xbf16>
  }
  return %y : tensor<?x64xbf16>
}
