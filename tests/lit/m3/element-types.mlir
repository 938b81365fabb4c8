// Element types of results: written where they are not those of the operand, and read back.
// RUN: m3-opt %s -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: m3-opt %t.once | diff %t.once -

m3.weight @norm : !m3.weight<32, bf16>
m3.weight @up : !m3.weight<8x64x128, nvfp4>
m3.weight @down : !m3.weight<8x128x64, nvfp4>

// CHECK-LABEL: func.func @narrowed
// CHECK-NEXT: m3.head_norm %{{.*}}, @norm {{.*}} : tensor<?x128xbf16> -> tensor<?x128xf32>
// CHECK-NEXT: m3.rope %{{.*}}, %{{.*}} {heads = 4} : tensor<?x128xf32>, tensor<?x16xf32> -> tensor<?x128xbf16>
// CHECK-NEXT: m3.swiglu_oai {{.*}} : tensor<?x128xf32> -> tensor<?x128xbf16>
// CHECK-NEXT: m3.experts {{.*}} : tensor<?x128xbf16>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x128xf32>
func.func @narrowed(%x: tensor<?x128xbf16>, %t: tensor<?x16xf32>, %e: tensor<?x2xi32>, %w: tensor<?x2xf32>) -> tensor<?x128xf32> {
  %n = m3.head_norm %x, @norm {heads = 4, eps = 1.0e-6} : tensor<?x128xbf16> -> tensor<?x128xf32>
  %r = m3.rope %n, %t {heads = 4} : tensor<?x128xf32>, tensor<?x16xf32> -> tensor<?x128xbf16>
  %z = m3.swiglu_oai %n, %n {alpha = 1.702, limit = 7.0} : tensor<?x128xf32> -> tensor<?x128xbf16>
  %y = m3.experts %z, %e, %w, @up, @up, @down {alpha = 1.702, limit = 7.0} : tensor<?x128xbf16>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}

// The same type again is not written.
// CHECK-LABEL: func.func @kept
// CHECK-NEXT: m3.rope %{{.*}}, %{{.*}} {heads = 4} : tensor<?x128xbf16>, tensor<?x16xf32>{{$}}
func.func @kept(%x: tensor<?x128xbf16>, %t: tensor<?x16xf32>) -> tensor<?x128xbf16> {
  %r = m3.rope %x, %t {heads = 4} : tensor<?x128xbf16>, tensor<?x16xf32> -> tensor<?x128xbf16>
  return %r : tensor<?x128xbf16>
}
