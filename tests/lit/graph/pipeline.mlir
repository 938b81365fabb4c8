// The pipeline of a compilation on one dense layer without experts.
// RUN: m3-opt %s --m3-graph -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: m3-opt %t.once --m3-graph | diff %t.once -
// RUN: m3-opt %s --m3-graph --m3-unfuse | FileCheck %s --check-prefix=UNFUSED

!cache = !m3.cache<kv = f32, grid = exact, page = 128, layers = 1, kv_heads = 2, head_dim = 128, index_dim = 0>

// CHECK: module attributes {m3.buckets
// CHECK-LABEL: func.func @step
// CHECK-NEXT: %[[CS:.*]] = m3.rope_table
// CHECK-NEXT: %[[H:.*]] = m3.embed
// CHECK-NEXT: %[[N:.*]] = m3.norm %[[H]]
// CHECK-NEXT: %[[Q:.*]] = m3.fused "qkv_rope_insert"(%{{.*}} = %[[N]] : {{.*}}, %{{.*}} = %[[CS]]
// CHECK: %[[O:.*]] = m3.dense_attention %[[Q]]
// CHECK-NEXT: %[[H1:.*]] = m3.fused "residual_project"(%{{.*}} = %[[H]] : {{.*}}, %{{.*}} = %[[O]]
// CHECK: %[[N2:.*]] = m3.norm %[[H1]]
// CHECK-NEXT: %[[Z:.*]] = m3.fused "gate_up"(%{{.*}} = %[[N2]]
// CHECK: %[[H2:.*]] = m3.fused "residual_project"(%{{.*}} = %[[H1]] : {{.*}}, %{{.*}} = %[[Z]]
// CHECK: m3.gather_rows %[[H2]]
// CHECK-NEXT: m3.project
// CHECK-NEXT: return
// UNFUSED-NOT: m3.fused
func.func @step(%b: !m3.batch, %c: !cache) -> tensor<?x1000xf32> attributes {m3.step} {
  %h = m3.embed %b, @embed : tensor<?x128xf32>
  %n = m3.norm %h, @norm1 {eps = 1.0e-6} : tensor<?x128xf32>
  %cs = m3.rope_table %b {theta = 5.0e6, rotary = 64} : tensor<?x64xf32>
  %q0 = m3.project %n, @q : tensor<?x128xf32> -> tensor<?x512xf32>
  %q1 = m3.head_norm %q0, @head {heads = 4, eps = 1.0e-6} : tensor<?x512xf32>
  %q2 = m3.rope %q1, %cs {heads = 4} : tensor<?x512xf32>, tensor<?x64xf32>
  %k0 = m3.project %n, @k : tensor<?x128xf32> -> tensor<?x256xf32>
  %k1 = m3.head_norm %k0, @head {heads = 2, eps = 1.0e-6} : tensor<?x256xf32>
  %cs2 = m3.rope_table %b {theta = 5.0e6, rotary = 64} : tensor<?x64xf32>
  %k2 = m3.rope %k1, %cs2 {heads = 2} : tensor<?x256xf32>, tensor<?x64xf32>
  %v0 = m3.project %n, @v : tensor<?x128xf32> -> tensor<?x256xf32>
  m3.cache_write %c, %b, %k2, %v0 {layer = 0} : !cache, tensor<?x256xf32>, tensor<?x256xf32>
  %o = m3.dense_attention %q2, %c, %b {layer = 0, scale = 0.0883} : tensor<?x512xf32>, !cache -> tensor<?x512xf32>
  %a = m3.project %o, @o : tensor<?x512xf32> -> tensor<?x128xf32>
  %h1 = arith.addf %h, %a : tensor<?x128xf32>
  %n2 = m3.norm %h1, @norm2 {eps = 1.0e-6} : tensor<?x128xf32>
  %g = m3.project %n2, @gate : tensor<?x128xf32> -> tensor<?x256xf32>
  %u = m3.project %n2, @up : tensor<?x128xf32> -> tensor<?x256xf32>
  %z = m3.swiglu_oai %g, %u {alpha = 1.702, limit = 7.0} : tensor<?x256xf32>
  %d = m3.project %z, @down : tensor<?x256xf32> -> tensor<?x128xf32>
  %h2 = arith.addf %d, %h1 : tensor<?x128xf32>
  %last = m3.gather_rows %h2, %b : tensor<?x128xf32>
  %logits = m3.project %last, @embed : tensor<?x128xf32> -> tensor<?x1000xf32>
  return %logits : tensor<?x1000xf32>
}
m3.weight @embed : !m3.weight<1000x128, bf16>
m3.weight @norm1 : !m3.weight<128, bf16>
m3.weight @norm2 : !m3.weight<128, bf16>
m3.weight @head : !m3.weight<128, bf16>
m3.weight @q : !m3.weight<512x128, mxfp8>
m3.weight @k : !m3.weight<256x128, mxfp8>
m3.weight @v : !m3.weight<256x128, mxfp8>
m3.weight @o : !m3.weight<128x512, mxfp8>
m3.weight @gate : !m3.weight<256x128, mxfp8>
m3.weight @up : !m3.weight<256x128, mxfp8>
m3.weight @down : !m3.weight<128x256, mxfp8>
