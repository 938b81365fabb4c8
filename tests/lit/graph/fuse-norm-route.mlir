// RUN: m3-opt %s --m3-fuse-norm-route -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: m3-opt %t.once --m3-fuse-norm-route | diff %t.once -
// RUN: m3-opt %s --m3-fuse-norm-route --counts -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=COUNTS

// COUNTS: m3-fuse-norm-route.fused = 2 (
// COUNTS-NEXT: m3-fuse-norm-route.operations-removed = 4 (

m3.weight @norm : !m3.weight<128, bf16>
m3.weight @router : !m3.weight<8x128, f32>
m3.weight @bias : !m3.weight<8, f32>

// Basic: the normed rows stay a result, for the experts.
// CHECK-LABEL: func.func @basic
// CHECK-NEXT: %[[F:.*]]:3 = m3.fused "norm_route"(%[[H:.*]] = %{{.*}} : tensor<?x128xf32>) -> (tensor<?x128xf32>, tensor<?x2xi32>, tensor<?x2xf32>) {
// CHECK-NEXT: %[[N:.*]] = m3.norm %[[H]], @norm
// CHECK-NEXT: %[[E:.*]], %[[W:.*]] = m3.route %[[N]], @router bias @bias {top_k = 2, scale = 2.0{{.*}}}
// CHECK-NEXT: m3.yield %[[N]], %[[E]], %[[W]]
// CHECK: return %[[F]]#0, %[[F]]#1, %[[F]]#2
func.func @basic(%h: tensor<?x128xf32>) -> (tensor<?x128xf32>, tensor<?x2xi32>, tensor<?x2xf32>) {
  %n = m3.norm %h, @norm {eps = 1.0e-6} : tensor<?x128xf32>
  %e, %w = m3.route %n, @router bias @bias {top_k = 2, scale = 2.0} : tensor<?x128xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
  return %n, %e, %w : tensor<?x128xf32>, tensor<?x2xi32>, tensor<?x2xf32>
}

// Edge: a user of the normed rows stands before the route; it moves behind the group.
// CHECK-LABEL: func.func @user_between
// CHECK-NEXT: %[[F:.*]]:3 = m3.fused "norm_route"
// CHECK: {{^ *[}]$}}
// CHECK-NEXT: arith.addf %[[F]]#0, %[[F]]#0
func.func @user_between(%h: tensor<?x128xf32>) -> (tensor<?x128xf32>, tensor<?x2xf32>) {
  %n = m3.norm %h, @norm {eps = 1.0e-6} : tensor<?x128xf32>
  %t = arith.addf %n, %n : tensor<?x128xf32>
  %e, %w = m3.route %n, @router {top_k = 2, scale = 2.0} : tensor<?x128xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
  return %t, %w : tensor<?x128xf32>, tensor<?x2xf32>
}

// Negative: the routed rows are no norm.
// CHECK-LABEL: func.func @no_norm
// CHECK-NOT: m3.fused
func.func @no_norm(%h: tensor<?x128xf32>) -> tensor<?x2xf32> {
  %e, %w = m3.route %h, @router {top_k = 2, scale = 2.0} : tensor<?x128xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
  return %w : tensor<?x2xf32>
}
