// RUN: m3-opt %s --m3-fuse-gate-up -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: m3-opt %t.once --m3-fuse-gate-up | diff %t.once -
// RUN: m3-opt %s --m3-fuse-gate-up --counts -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=COUNTS

// COUNTS: m3-fuse-gate-up.fused = 2 (
// COUNTS-NEXT: m3-fuse-gate-up.operations-removed = 6 (

m3.weight @gate : !m3.weight<256x128, mxfp8>
m3.weight @up : !m3.weight<256x128, bf16>

// Basic: both projections and the activation move into the group, in their order.
// CHECK-LABEL: func.func @basic
// CHECK-SAME: (%[[N:.*]]: tensor<?x128xf32>)
// CHECK-NEXT: %[[Z:.*]] = m3.fused "gate_up"(%[[A:.*]] = %[[N]] : tensor<?x128xf32>) -> (tensor<?x256xf32>) {
// CHECK-NEXT: %[[G:.*]] = m3.project %[[A]], @gate
// CHECK-NEXT: %[[U:.*]] = m3.project %[[A]], @up
// CHECK-NEXT: %[[Y:.*]] = m3.swiglu_oai %[[G]], %[[U]] {alpha = 1.702{{.*}}, limit = 7{{.*}}}
// CHECK-NEXT: m3.yield %[[Y]]
// CHECK-NEXT: }
// CHECK-NEXT: return %[[Z]]
func.func @basic(%n: tensor<?x128xf32>) -> tensor<?x256xf32> {
  %g = m3.project %n, @gate : tensor<?x128xf32> -> tensor<?x256xf32>
  %u = m3.project %n, @up : tensor<?x128xf32> -> tensor<?x256xf32>
  %z = m3.swiglu_oai %g, %u {alpha = 1.702, limit = 7.0} : tensor<?x256xf32>
  return %z : tensor<?x256xf32>
}

// Edge: the order of the projections and what stands between do not matter.
// CHECK-LABEL: func.func @reordered
// CHECK: arith.addf
// CHECK-NEXT: m3.fused "gate_up"
// CHECK: m3.swiglu_oai %[[G:[a-z0-9]+]], %[[U:[a-z0-9]+]]
func.func @reordered(%n: tensor<?x128xf32>, %x: tensor<?x256xf32>) -> (tensor<?x256xf32>, tensor<?x256xf32>) {
  %u = m3.project %n, @up : tensor<?x128xf32> -> tensor<?x256xf32>
  %other = arith.addf %x, %x : tensor<?x256xf32>
  %g = m3.project %n, @gate : tensor<?x128xf32> -> tensor<?x256xf32>
  %z = m3.swiglu_oai %g, %u {alpha = 1.702, limit = 7.0} : tensor<?x256xf32>
  return %z, %other : tensor<?x256xf32>, tensor<?x256xf32>
}

// Negative: the gate is used elsewhere too, or the projections have different rows.
// CHECK-LABEL: func.func @extra_use
// CHECK-NOT: m3.fused
func.func @extra_use(%n: tensor<?x128xf32>) -> (tensor<?x256xf32>, tensor<?x256xf32>) {
  %g = m3.project %n, @gate : tensor<?x128xf32> -> tensor<?x256xf32>
  %u = m3.project %n, @up : tensor<?x128xf32> -> tensor<?x256xf32>
  %z = m3.swiglu_oai %g, %u {alpha = 1.702, limit = 7.0} : tensor<?x256xf32>
  return %z, %g : tensor<?x256xf32>, tensor<?x256xf32>
}

// CHECK-LABEL: func.func @different_rows
// CHECK-NOT: m3.fused
func.func @different_rows(%n: tensor<?x128xf32>, %m: tensor<?x128xf32>) -> tensor<?x256xf32> {
  %g = m3.project %n, @gate : tensor<?x128xf32> -> tensor<?x256xf32>
  %u = m3.project %m, @up : tensor<?x128xf32> -> tensor<?x256xf32>
  %z = m3.swiglu_oai %g, %u {alpha = 1.702, limit = 7.0} : tensor<?x256xf32>
  return %z : tensor<?x256xf32>
}
