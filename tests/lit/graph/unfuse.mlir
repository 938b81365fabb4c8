// RUN: m3-opt %s --m3-unfuse -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: m3-opt %t.once --m3-unfuse | diff %t.once -
// RUN: m3-opt %s --m3-unfuse='kinds=other' | FileCheck %s --check-prefix=KEPT
// RUN: m3-opt %t.once --m3-fuse-residual-project | FileCheck %s --check-prefix=AGAIN
// RUN: m3-opt %s --m3-unfuse --counts -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=COUNTS

// COUNTS: m3-unfuse.unfused = 3 (

m3.weight @p : !m3.weight<128x128, mxfp8>

// Basic: the body stands where the group stood.
// CHECK-LABEL: func.func @basic
// CHECK-SAME: (%[[H:.*]]: tensor<?x128xf32>, %[[X:.*]]: tensor<?x128xf32>)
// CHECK-NEXT: %[[Y:.*]] = m3.project %[[X]], @p
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[H]], %[[Y]]
// CHECK-NEXT: return %[[S]]
// Negative: another kind is left alone. The inverse of a fusion.
// KEPT: m3.fused "residual_project"
// AGAIN: m3.fused "residual_project"
func.func @basic(%h: tensor<?x128xf32>, %x: tensor<?x128xf32>) -> tensor<?x128xf32> {
  %s = m3.fused "residual_project"(%a = %h : tensor<?x128xf32>, %b = %x : tensor<?x128xf32>) -> (tensor<?x128xf32>) {
    %y = m3.project %b, @p : tensor<?x128xf32> -> tensor<?x128xf32>
    %z = arith.addf %a, %y : tensor<?x128xf32>
    m3.yield %z : tensor<?x128xf32>
  }
  return %s : tensor<?x128xf32>
}

// Edge: a group that hands an operand through; nested groups.
// CHECK-LABEL: func.func @through
// CHECK-SAME: (%[[H:.*]]: tensor<?x128xf32>)
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[H]], %[[H]]
// CHECK-NEXT: return %[[H]], %[[S]]
func.func @through(%h: tensor<?x128xf32>) -> (tensor<?x128xf32>, tensor<?x128xf32>) {
  %r:2 = m3.fused "outer"(%a = %h : tensor<?x128xf32>) -> (tensor<?x128xf32>, tensor<?x128xf32>) {
    %i = m3.fused "inner"(%b = %a : tensor<?x128xf32>) -> (tensor<?x128xf32>) {
      %z = arith.addf %b, %b : tensor<?x128xf32>
      m3.yield %z : tensor<?x128xf32>
    }
    m3.yield %a, %i : tensor<?x128xf32>, tensor<?x128xf32>
  }
  return %r#0, %r#1 : tensor<?x128xf32>, tensor<?x128xf32>
}
