// RUN: m3-opt %s --m3-fuse-residual-project -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: m3-opt %t.once --m3-fuse-residual-project | diff %t.once -
// RUN: m3-opt %s --m3-fuse-residual-project --counts -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=COUNTS

// COUNTS: m3-fuse-residual-project.fused = 3 (
// COUNTS-NEXT: m3-fuse-residual-project.operations-removed = 6 (

m3.weight @o : !m3.weight<128x256, mxfp8>
m3.weight @p : !m3.weight<128x128, mxfp8>

// Basic.
// CHECK-LABEL: func.func @basic
// CHECK-SAME: (%[[H:.*]]: tensor<?x128xf32>, %[[X:.*]]: tensor<?x256xf32>)
// CHECK-NEXT: m3.fused "residual_project"(%[[A:.*]] = %[[H]] : tensor<?x128xf32>, %[[B:.*]] = %[[X]] : tensor<?x256xf32>)
// CHECK-NEXT: %[[Y:.*]] = m3.project %[[B]], @o
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[A]], %[[Y]]
// CHECK-NEXT: m3.yield %[[S]]
func.func @basic(%h: tensor<?x128xf32>, %x: tensor<?x256xf32>) -> tensor<?x128xf32> {
  %y = m3.project %x, @o : tensor<?x256xf32> -> tensor<?x128xf32>
  %s = arith.addf %h, %y : tensor<?x128xf32>
  return %s : tensor<?x128xf32>
}

// Edge: the other order of the operands; the residual is the same projection's input; the sum has
// users before other operations of the block.
// CHECK-LABEL: func.func @commuted
// CHECK-NEXT: %[[S:.*]] = m3.fused "residual_project"(%[[A:.*]] = %{{.*}}, %[[B:.*]] = %{{.*}})
// CHECK: arith.addf %{{.*}}, %[[A]]
// CHECK: {{^ *[}]$}}
// CHECK-NEXT: arith.addf %[[S]], %[[S]]
func.func @commuted(%h: tensor<?x128xf32>) -> tensor<?x128xf32> {
  %y = m3.project %h, @p : tensor<?x128xf32> -> tensor<?x128xf32>
  %s = arith.addf %y, %h : tensor<?x128xf32>
  %t = arith.addf %s, %s : tensor<?x128xf32>
  return %t : tensor<?x128xf32>
}

// Edge: of two projections that are added one becomes the residual of the other.
// CHECK-LABEL: func.func @two_projections
// CHECK: m3.project %{{.*}}, @p
// CHECK: m3.fused "residual_project"
// CHECK: m3.project %{{.*}}, @o
// CHECK-NOT: m3.fused
func.func @two_projections(%h: tensor<?x128xf32>, %x: tensor<?x256xf32>) -> tensor<?x128xf32> {
  %y = m3.project %x, @o : tensor<?x256xf32> -> tensor<?x128xf32>
  %z = m3.project %h, @p : tensor<?x128xf32> -> tensor<?x128xf32>
  %s = arith.addf %z, %y : tensor<?x128xf32>
  return %s : tensor<?x128xf32>
}

// Negative: the product is used elsewhere, or is added to itself.
// CHECK-LABEL: func.func @extra_use
// CHECK-NOT: m3.fused
func.func @extra_use(%h: tensor<?x128xf32>, %x: tensor<?x256xf32>) -> (tensor<?x128xf32>, tensor<?x128xf32>) {
  %y = m3.project %x, @o : tensor<?x256xf32> -> tensor<?x128xf32>
  %s = arith.addf %h, %y : tensor<?x128xf32>
  return %s, %y : tensor<?x128xf32>, tensor<?x128xf32>
}

// CHECK-LABEL: func.func @twice_the_product
// CHECK-NOT: m3.fused
func.func @twice_the_product(%x: tensor<?x256xf32>) -> tensor<?x128xf32> {
  %y = m3.project %x, @o : tensor<?x256xf32> -> tensor<?x128xf32>
  %s = arith.addf %y, %y : tensor<?x128xf32>
  return %s : tensor<?x128xf32>
}
