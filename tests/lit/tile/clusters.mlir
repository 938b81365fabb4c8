// Work items that meet: clusters that read each other's shared memory, and counters of which one is last.
// RUN: m3-opt %s | m3-opt | FileCheck %s
// RUN: rm -rf %t && mkdir %t && m3c build-kernel %s --target sm90 -o %t --print-source | FileCheck %s --check-prefix=TEXT
// RUN: sed 's/cluster = 4/cluster = 2/' %s > %t/two.mlir
// RUN: m3c build-kernel %t/two.mlir --target sm90 -o %t --print-source | FileCheck %s --check-prefix=TWO
// RUN: sed 's/cluster = 4/cluster = 16/' %s > %t/sixteen.mlir
// RUN: not m3c build-kernel %t/sixteen.mlir --target sm90 -o %t 2>&1 | FileCheck %s --check-prefix=LIMIT
// RUN: not m3c build-kernel %s --target x86 -o %t 2>&1 | FileCheck %s --check-prefix=NONE

// CHECK: cluster = 4
// CHECK: tile.cluster_rank
// CHECK: tile.cluster_barrier
// CHECK: tile.peer {{.*}} : <4xf32, shared>
// CHECK: tile.arrive {{.*}} of

// TEXT: __launch_bounds__(32) __cluster_dims__(4, 1, 1) void meet(
// TEXT: = clusterRank();
// TEXT: clusterBarrier();
// TEXT: = peer(
// TEXT: bool {{.*}} = arriveLast(p1
// TWO: __cluster_dims__(2, 1, 1)
// LIMIT: runs 16 work items as a cluster, sm_90a at most 8
// NONE: runs 4 work items as a cluster, x86-avx2 at most 1
tile.kernel @meet(%y: !tile.view<?xf32>, %counters: !tile.view<?xi32>)
    attributes {family = "test", schedule = {}, cluster = 4} {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %one = arith.constant 1.0 : f32
  %mine = tile.alloc : !tile.view<4xf32, shared>
  %rank = tile.cluster_rank
  tile.store_scalar %one, %mine[%rank] : f32, !tile.view<4xf32, shared>
  tile.cluster_barrier
  %first = tile.peer %mine[%c0] : !tile.view<4xf32, shared>
  %v = tile.load_scalar %first[%c0] : !tile.view<4xf32, shared> -> f32
  tile.store_scalar %v, %y[%rank] : f32, !tile.view<?xf32>
  tile.cluster_barrier
  %last = tile.arrive %counters[%c0] of %c8 : !tile.view<?xi32>
  scf.if %last {
    tile.store_scalar %one, %y[%c0] : f32, !tile.view<?xf32>
  }
  tile.return
}
