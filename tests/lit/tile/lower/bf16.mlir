// BF16 rows: buffers of 16-bit codes, rounding where the body's types say, sums in F32.
// RUN: split-file %s %t
// RUN: m3-opt %t/residual.mlir -m3-to-tile="chip=x86-avx2 buckets=4" | FileCheck %s
// RUN: not m3-opt %t/gate.mlir -m3-to-tile="chip=x86-avx2 buckets=4" 2>&1 | FileCheck %s --check-prefix=GATE

// CHECK: tile.kernel @embed_bf16_64_b({{.*}}, %{{.*}}: !tile.view<?x64xi16>, %{{.*}}: !tile.view<?x64xi16>)
// CHECK: tile.decode %{{.*}} format {{ *}}bf16 : <1x16xi16> -> <1x16xf32>
// CHECK: tile.encode %{{.*}} format {{ *}}bf16 : <1x16xf32> -> <1x16xi16>
// The tile of four rows is widened once, the product rounded before the residual is added.
// CHECK: tile.kernel @project_bf16_64x64_residual_rounded_bbb_{{.*}}_widen1(
// CHECK: %[[WIDE:.*]] = tile.alloc : <4x64xf32, shared>
// CHECK: tile.store %{{.*}}, %[[WIDE]][{{.*}}] sizes [1, 16]
// CHECK: tile.load %[[WIDE]][{{.*}}] sizes [4, 1]
// CHECK: tile.mma
// CHECK: %[[RESIDUAL:.*]] = tile.decode {{.*}} : <4x16xi16> -> <4x16xf32>
// CHECK: tile.map(%{{.*}}, %[[RESIDUAL]]
// CHECK-NEXT: ^bb0(%[[PRODUCT:.*]]: f32, %[[H:.*]]: f32):
// CHECK-NEXT: %[[ROUNDED:.*]] = tile.round %[[PRODUCT]] to {{ *}}bf16
// CHECK-NEXT: arith.addf %[[H]], %[[ROUNDED]]
// CHECK: tile.encode %{{.*}} format {{ *}}bf16 : <4x16xf32> -> <4x16xi16>
// Two bytes an element, in rows and in the padding of 16 rows.
// CHECK: plan.buffer "hidden" size = rows * 128 + blocks * 0 + 2048

// GATE: the kernel keeps gate and up products in f32, the group rounds them

//--- residual.mlir
m3.weight @embed : !m3.weight<64x64, bf16> {parts = [#m3.part<values, "embed", "BF16", [64, 64]>]}
m3.weight @o : !m3.weight<64x64, bf16> {parts = [#m3.part<values, "o", "BF16", [64, 64]>]}

func.func @step(%batch: !m3.batch) -> tensor<?x64xbf16> attributes {m3.step} {
  %h = m3.embed %batch, @embed : tensor<?x64xbf16>
  %y = m3.fused "residual_project"(%a = %h : tensor<?x64xbf16>, %b = %h : tensor<?x64xbf16>) -> (tensor<?x64xbf16>) {
    %p = m3.project %b, @o : tensor<?x64xbf16> -> tensor<?x64xbf16>
    %s = arith.addf %a, %p : tensor<?x64xbf16>
    m3.yield %s : tensor<?x64xbf16>
  }
  return %y : tensor<?x64xbf16>
}

//--- gate.mlir
m3.weight @embed : !m3.weight<64x64, bf16> {parts = [#m3.part<values, "embed", "BF16", [64, 64]>]}
m3.weight @g : !m3.weight<64x64, bf16> {parts = [#m3.part<values, "g", "BF16", [64, 64]>]}
m3.weight @u : !m3.weight<64x64, bf16> {parts = [#m3.part<values, "u", "BF16", [64, 64]>]}

func.func @step(%batch: !m3.batch) -> tensor<?x64xbf16> attributes {m3.step} {
  %h = m3.embed %batch, @embed : tensor<?x64xbf16>
  %y = m3.fused "gate_up"(%a = %h : tensor<?x64xbf16>) -> (tensor<?x64xbf16>) {
    %g = m3.project %a, @g : tensor<?x64xbf16> -> tensor<?x64xbf16>
    %u = m3.project %a, @u : tensor<?x64xbf16> -> tensor<?x64xbf16>
    %z = m3.swiglu_oai %g, %u {alpha = 1.702, limit = 7.0} : tensor<?x64xbf16>
    m3.yield %z : tensor<?x64xbf16>
  }
  return %y : tensor<?x64xbf16>
}
