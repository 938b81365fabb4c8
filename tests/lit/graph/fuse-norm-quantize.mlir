// RUN: m3-opt %s --m3-fuse-norm-quantize -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: m3-opt %t.once --m3-fuse-norm-quantize | diff %t.once -
// RUN: m3-opt %s --m3-fuse-norm-quantize --counts -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=COUNTS

// COUNTS: m3-fuse-norm-quantize.fused = 2 (
// COUNTS-NEXT: m3-fuse-norm-quantize.operations-removed = 4 (

m3.weight @norm : !m3.weight<128, bf16>

// Basic.
// CHECK-LABEL: func.func @basic
// CHECK-NEXT: m3.fused "norm_quantize"(%[[A:.*]] = %{{.*}}) -> (tensor<?x128xf32, #m3.storage<mxfp8>>) {
// CHECK-NEXT: %[[N:.*]] = m3.norm %[[A]], @norm
// CHECK-NEXT: %[[Q:.*]] = m3.quantize %[[N]] {grid = mxfp8}
// CHECK-NEXT: m3.yield %[[Q]]
func.func @basic(%h: tensor<?x128xf32>) -> tensor<?x128xf32, #m3.storage<mxfp8>> {
  %n = m3.norm %h, @norm {eps = 1.0e-6} : tensor<?x128xf32>
  %q = m3.quantize %n {grid = mxfp8} : tensor<?x128xf32> -> tensor<?x128xf32, #m3.storage<mxfp8>>
  return %q : tensor<?x128xf32, #m3.storage<mxfp8>>
}

// Edge: with other operations in between.
// CHECK-LABEL: func.func @apart
// CHECK-NEXT: m3.argmax
// CHECK-NEXT: m3.fused "norm_quantize"
func.func @apart(%h: tensor<?x128xf32>) -> (tensor<?x128xf32, #m3.storage<bf16>>, tensor<?xi32>) {
  %n = m3.norm %h, @norm {eps = 1.0e-6} : tensor<?x128xf32>
  %a = m3.argmax %h : tensor<?x128xf32> -> tensor<?xi32>
  %q = m3.quantize %n {grid = bf16} : tensor<?x128xf32> -> tensor<?x128xf32, #m3.storage<bf16>>
  return %q, %a : tensor<?x128xf32, #m3.storage<bf16>>, tensor<?xi32>
}

// Negative: the unrounded rows are needed as well.
// CHECK-LABEL: func.func @extra_use
// CHECK-NOT: m3.fused
func.func @extra_use(%h: tensor<?x128xf32>) -> (tensor<?x128xf32, #m3.storage<bf16>>, tensor<?x128xf32>) {
  %n = m3.norm %h, @norm {eps = 1.0e-6} : tensor<?x128xf32>
  %q = m3.quantize %n {grid = bf16} : tensor<?x128xf32> -> tensor<?x128xf32, #m3.storage<bf16>>
  return %q, %n : tensor<?x128xf32, #m3.storage<bf16>>, tensor<?x128xf32>
}
