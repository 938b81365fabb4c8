// RUN: m3-opt %s --m3-fuse-residual-norm -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: m3-opt %t.once --m3-fuse-residual-norm | diff %t.once -
// RUN: m3-opt %s --m3-fuse-residual-norm --counts -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=COUNTS

// COUNTS: m3-fuse-residual-norm.fused = 2 (
// COUNTS-NEXT: m3-fuse-residual-norm.operations-removed = 4 (

m3.weight @norm : !m3.weight<128, bf16>

// Basic: an addition after a reduction over ranks; the sum stays a result.
// CHECK-LABEL: func.func @basic
// CHECK: m3.all_reduce
// CHECK-NEXT: %[[F:.*]]:2 = m3.fused "residual_norm"(%[[A:.*]] = %{{.*}}, %[[B:.*]] = %{{.*}})
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[A]], %[[B]]
// CHECK-NEXT: %[[N:.*]] = m3.norm %[[S]], @norm
// CHECK-NEXT: m3.yield %[[S]], %[[N]]
func.func @basic(%h: tensor<?x128xf32>, %x: tensor<?x128xf32>) -> (tensor<?x128xf32>, tensor<?x128xf32>) {
  %y = m3.all_reduce %x {group = "tp", ranks = 2} : tensor<?x128xf32> -> tensor<?x128xf32>
  %s = arith.addf %h, %y : tensor<?x128xf32>
  %n = m3.norm %s, @norm {eps = 1.0e-6} : tensor<?x128xf32>
  return %s, %n : tensor<?x128xf32>, tensor<?x128xf32>
}

// Edge: another user of the sum stands before the norm and moves behind the group.
// CHECK-LABEL: func.func @user_between
// CHECK-NEXT: %[[F:.*]]:2 = m3.fused "residual_norm"
// CHECK: {{^ *[}]$}}
// CHECK-NEXT: m3.argmax %[[F]]#0
func.func @user_between(%h: tensor<?x128xf32>, %x: tensor<?x128xf32>) -> (tensor<?xi32>, tensor<?x128xf32>) {
  %s = arith.addf %h, %x : tensor<?x128xf32>
  %a = m3.argmax %s : tensor<?x128xf32> -> tensor<?xi32>
  %n = m3.norm %s, @norm {eps = 1.0e-6} : tensor<?x128xf32>
  return %a, %n : tensor<?xi32>, tensor<?x128xf32>
}

// Negative: the normed rows are no sum.
// CHECK-LABEL: func.func @no_sum
// CHECK-NOT: m3.fused
func.func @no_sum(%h: tensor<?x128xf32>) -> tensor<?x128xf32> {
  %n = m3.norm %h, @norm {eps = 1.0e-6} : tensor<?x128xf32>
  return %n : tensor<?x128xf32>
}
