// RUN: m3-opt %s --m3-fuse-experts-shared -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: m3-opt %t.once --m3-fuse-experts-shared | diff %t.once -
// RUN: m3-opt %s --m3-fuse-experts-shared --counts -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=COUNTS

// COUNTS: m3-fuse-experts-shared.fused = 6 (
// COUNTS-NEXT: m3-fuse-experts-shared.operations-removed = 21 (

m3.weight @gate : !m3.weight<8x64x128, nvfp4>
m3.weight @up : !m3.weight<8x64x128, nvfp4>
m3.weight @down : !m3.weight<8x128x64, nvfp4>
m3.weight @sgate : !m3.weight<64x128, mxfp8>
m3.weight @sup : !m3.weight<64x128, mxfp8>
m3.weight @sdown : !m3.weight<128x64, mxfp8>

// Basic.
// CHECK-LABEL: func.func @basic
// CHECK-SAME: (%[[N:.*]]: tensor<?x128xf32>, %[[E:.*]]: tensor<?x2xi32>, %[[W:.*]]: tensor<?x2xf32>, %[[H:.*]]: tensor<?x128xf32>)
// CHECK-NEXT: %[[Y:.*]] = m3.fused "experts_shared"(%[[A:.*]] = %[[N]] : {{.*}}, %[[B:.*]] = %[[E]] : {{.*}}, %[[C:.*]] = %[[W]] : {{.*}}, %[[D:.*]] = %[[H]] : tensor<?x128xf32>)
// CHECK-NEXT: %[[R:.*]] = m3.experts %[[A]], %[[B]], %[[C]], @gate, @up, @down
// CHECK-NEXT: %[[S1:.*]] = arith.addf %[[D]], %[[R]]
// CHECK-NEXT: %[[S:.*]] = m3.shared_expert %[[A]], @sgate, @sup, @sdown
// CHECK-NEXT: %[[S2:.*]] = arith.addf %[[S1]], %[[S]]
// CHECK-NEXT: m3.yield %[[S2]]
// CHECK: return %[[Y]]
func.func @basic(%n: tensor<?x128xf32>, %e: tensor<?x2xi32>, %w: tensor<?x2xf32>, %h: tensor<?x128xf32>) -> tensor<?x128xf32> {
  %r = m3.experts %n, %e, %w, @gate, @up, @down {alpha = 1.702, limit = 7.0} : tensor<?x128xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  %t = arith.addf %h, %r : tensor<?x128xf32>
  %s = m3.shared_expert %n, @sgate, @sup, @sdown {alpha = 1.702, limit = 7.0} : tensor<?x128xf32>
  %y = arith.addf %t, %s : tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}

// Edge: shared expert first, both additions commuted.
// CHECK-LABEL: func.func @reordered
// CHECK-NEXT: m3.fused "experts_shared"
// CHECK-NEXT: m3.shared_expert
// CHECK-NEXT: m3.experts
// CHECK-NEXT: arith.addf
// CHECK-NEXT: arith.addf
// CHECK-NEXT: m3.yield
func.func @reordered(%n: tensor<?x128xf32>, %e: tensor<?x2xi32>, %w: tensor<?x2xf32>, %h: tensor<?x128xf32>) -> tensor<?x128xf32> {
  %s = m3.shared_expert %n, @sgate, @sup, @sdown {alpha = 1.702, limit = 7.0} : tensor<?x128xf32>
  %r = m3.experts %n, %e, %w, @gate, @up, @down {alpha = 1.702, limit = 7.0} : tensor<?x128xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  %t = arith.addf %r, %h : tensor<?x128xf32>
  %y = arith.addf %s, %t : tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}

// Edge: no shared expert, or one of other rows, which stays outside.
// CHECK-LABEL: func.func @no_shared
// CHECK-NEXT: m3.fused "experts_shared"
// CHECK-NEXT: m3.experts
// CHECK-NEXT: arith.addf
// CHECK-NEXT: m3.yield
// CHECK-NEXT: }
// CHECK-NEXT: m3.shared_expert
func.func @no_shared(%n: tensor<?x128xf32>, %e: tensor<?x2xi32>, %w: tensor<?x2xf32>, %h: tensor<?x128xf32>) -> tensor<?x128xf32> {
  %r = m3.experts %n, %e, %w, @gate, @up, @down {alpha = 1.702, limit = 7.0} : tensor<?x128xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  %t = arith.addf %h, %r : tensor<?x128xf32>
  %s = m3.shared_expert %h, @sgate, @sup, @sdown {alpha = 1.702, limit = 7.0} : tensor<?x128xf32>
  %y = arith.addf %t, %s : tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}

// Negative: (routed + shared) + h is another sum in floating point; the experts used twice.
// CHECK-LABEL: func.func @other_association
// CHECK: m3.fused "experts_shared"(%{{.*}} = %[[N:.*]] : {{.*}}, %{{.*}}, %{{.*}}, %{{.*}} = %[[SH:.*]] : tensor<?x128xf32>)
// CHECK-NOT: m3.shared_expert
// CHECK: m3.yield
// CHECK: arith.addf
func.func @other_association(%n: tensor<?x128xf32>, %e: tensor<?x2xi32>, %w: tensor<?x2xf32>, %h: tensor<?x128xf32>) -> tensor<?x128xf32> {
  %r = m3.experts %n, %e, %w, @gate, @up, @down {alpha = 1.702, limit = 7.0} : tensor<?x128xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  %s = m3.shared_expert %n, @sgate, @sup, @sdown {alpha = 1.702, limit = 7.0} : tensor<?x128xf32>
  %t = arith.addf %r, %s : tensor<?x128xf32>
  %y = arith.addf %h, %t : tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}

// CHECK-LABEL: func.func @extra_use
// CHECK-NOT: m3.fused
func.func @extra_use(%n: tensor<?x128xf32>, %e: tensor<?x2xi32>, %w: tensor<?x2xf32>, %h: tensor<?x128xf32>) -> (tensor<?x128xf32>, tensor<?x128xf32>) {
  %r = m3.experts %n, %e, %w, @gate, @up, @down {alpha = 1.702, limit = 7.0} : tensor<?x128xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  %t = arith.addf %h, %r : tensor<?x128xf32>
  return %t, %r : tensor<?x128xf32>, tensor<?x128xf32>
}

// BF16 rows: conversions of the residual and the shared expert's output and the rounding of the sum belong to the group.
// CHECK-LABEL: func.func @bf16
// CHECK-NEXT: m3.fused "experts_shared"({{.*}}, %[[H:.*]] = %{{.*}} : tensor<?x128xbf16>) -> (tensor<?x128xbf16>)
// CHECK-NEXT: arith.extf %[[H]]
// CHECK-NEXT: m3.experts
// CHECK-NEXT: arith.addf
// CHECK-NEXT: m3.shared_expert
// CHECK-NEXT: arith.extf
// CHECK-NEXT: arith.addf
// CHECK-NEXT: %[[Y:.*]] = arith.truncf
// CHECK-NEXT: m3.yield %[[Y]] : tensor<?x128xbf16>
// CHECK-NEXT: }
// CHECK-NEXT: return
func.func @bf16(%n: tensor<?x128xbf16>, %e: tensor<?x2xi32>, %w: tensor<?x2xf32>, %h: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %h32 = arith.extf %h : tensor<?x128xbf16> to tensor<?x128xf32>
  %r = m3.experts %n, %e, %w, @gate, @up, @down {alpha = 1.702, limit = 7.0} : tensor<?x128xbf16>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x128xf32>
  %t = arith.addf %h32, %r : tensor<?x128xf32>
  %s = m3.shared_expert %n, @sgate, @sup, @sdown {alpha = 1.702, limit = 7.0} : tensor<?x128xbf16>
  %s32 = arith.extf %s : tensor<?x128xbf16> to tensor<?x128xf32>
  %sum = arith.addf %t, %s32 : tensor<?x128xf32>
  %y = arith.truncf %sum : tensor<?x128xf32> to tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// Edge: the F32 sum has another user, so the rounding stays outside; so does the wide residual.
// CHECK-LABEL: func.func @bf16_extra_use
// CHECK-NEXT: arith.extf
// CHECK-NEXT: m3.fused "experts_shared"({{.*}} : tensor<?x128xf32>) -> (tensor<?x128xf32>)
// CHECK: m3.yield
// CHECK-NEXT: }
// CHECK-NEXT: arith.truncf
func.func @bf16_extra_use(%n: tensor<?x128xbf16>, %e: tensor<?x2xi32>, %w: tensor<?x2xf32>, %h: tensor<?x128xbf16>) -> (tensor<?x128xbf16>, tensor<?x128xf32>, tensor<?x128xf32>) {
  %h32 = arith.extf %h : tensor<?x128xbf16> to tensor<?x128xf32>
  %r = m3.experts %n, %e, %w, @gate, @up, @down {alpha = 1.702, limit = 7.0} : tensor<?x128xbf16>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x128xf32>
  %t = arith.addf %h32, %r : tensor<?x128xf32>
  %y = arith.truncf %t : tensor<?x128xf32> to tensor<?x128xbf16>
  return %y, %t, %h32 : tensor<?x128xbf16>, tensor<?x128xf32>, tensor<?x128xf32>
}
