// RUN: m3-opt %s --m3-fuse-qkv-rope-insert -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: m3-opt %t.once --m3-fuse-qkv-rope-insert | diff %t.once -
// RUN: m3-opt %s --m3-fuse-index-topk --m3-fuse-qkv-rope-insert | FileCheck %s --check-prefix=AFTER
// RUN: m3-opt %s --m3-fuse-qkv-rope-insert --counts -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=COUNTS

// COUNTS: m3-fuse-qkv-rope-insert.fused = 2 (
// COUNTS-NEXT: m3-fuse-qkv-rope-insert.operations-removed = 24 (

m3.weight @q : !m3.weight<512x128, mxfp8>
m3.weight @k : !m3.weight<256x128, mxfp8>
m3.weight @v : !m3.weight<256x128, mxfp8>
m3.weight @iq : !m3.weight<256x128, mxfp8>
m3.weight @ik : !m3.weight<128x128, mxfp8>
m3.weight @head : !m3.weight<128, bf16>

!cache = !m3.cache<kv = nvfp4, grid = e4m3, page = 128, layers = 2, kv_heads = 2, head_dim = 128, index_dim = 128>
!plain = !m3.cache<kv = f32, grid = exact, page = 128, layers = 2, kv_heads = 2, head_dim = 128, index_dim = 128>
!e4m3q = tensor<?x512xf32, #m3.storage<e4m3>>
!e4m3i = tensor<?x256xf32, #m3.storage<e4m3>>

// Basic: a sparse layer in the order of the graph builder.
// CHECK-LABEL: func.func @sparse
// CHECK-SAME: (%[[N:.*]]: tensor<?x128xf32>, %[[CS:.*]]: tensor<?x64xf32>, %[[C:.*]]: !m3.cache{{.*}}, %[[B:.*]]: !m3.batch)
// CHECK-NEXT: %[[F:.*]]:2 = m3.fused "qkv_rope_insert"(%[[X:.*]] = %[[N]] : {{.*}}, %[[T:.*]] = %[[CS]] : {{.*}}, %[[KV:.*]] = %[[C]] : {{.*}}, %[[R:.*]] = %[[B]] : !m3.batch) -> (tensor<?x512xf32, #m3.storage<e4m3>>, tensor<?x256xf32, #m3.storage<e4m3>>) {
// CHECK: m3.project %[[X]], @q
// CHECK: m3.project %[[X]], @k
// CHECK: m3.project %[[X]], @v
// CHECK: m3.project %[[X]], @iq
// CHECK: m3.project %[[X]], @ik
// CHECK: m3.cache_write %[[KV]], %[[R]]
// CHECK-NEXT: m3.yield
// CHECK-NEXT: }
// CHECK-NEXT: m3.index_score %[[F]]#1, %[[C]], %[[B]]
// CHECK-NEXT: m3.block_topk
// CHECK-NEXT: m3.sparse_attention %[[F]]#0
// After the fusion of the index the query is found through its group.
// AFTER-LABEL: func.func @sparse
// AFTER: %[[F:.*]]:2 = m3.fused "qkv_rope_insert"
// AFTER: m3.fused "index_topk"(%{{.*}} = %[[F]]#1
func.func @sparse(%n: tensor<?x128xf32>, %cs: tensor<?x64xf32>, %c: !cache, %b: !m3.batch) -> tensor<?x512xf32> {
  %q0 = m3.project %n, @q : tensor<?x128xf32> -> tensor<?x512xf32>
  %q1 = m3.head_norm %q0, @head {heads = 4, eps = 1.0e-6} : tensor<?x512xf32>
  %q2 = m3.rope %q1, %cs {heads = 4} : tensor<?x512xf32>, tensor<?x64xf32>
  %k0 = m3.project %n, @k : tensor<?x128xf32> -> tensor<?x256xf32>
  %k1 = m3.head_norm %k0, @head {heads = 2, eps = 1.0e-6} : tensor<?x256xf32>
  %k2 = m3.rope %k1, %cs {heads = 2} : tensor<?x256xf32>, tensor<?x64xf32>
  %v0 = m3.project %n, @v : tensor<?x128xf32> -> tensor<?x256xf32>
  %q3 = m3.quantize %q2 {grid = e4m3} : tensor<?x512xf32> -> !e4m3q
  %i0 = m3.project %n, @iq : tensor<?x128xf32> -> tensor<?x256xf32>
  %i1 = m3.head_norm %i0, @head {heads = 2, eps = 1.0e-6} : tensor<?x256xf32>
  %i2 = m3.rope %i1, %cs {heads = 2} : tensor<?x256xf32>, tensor<?x64xf32>
  %j0 = m3.project %n, @ik : tensor<?x128xf32> -> tensor<?x128xf32>
  %j1 = m3.head_norm %j0, @head {heads = 1, eps = 1.0e-6} : tensor<?x128xf32>
  %j2 = m3.rope %j1, %cs {heads = 1} : tensor<?x128xf32>, tensor<?x64xf32>
  %i3 = m3.quantize %i2 {grid = e4m3} : tensor<?x256xf32> -> !e4m3i
  m3.cache_write %c, %b, %k2, %v0, %j2 {layer = 0} : !cache, tensor<?x256xf32>, tensor<?x256xf32>, tensor<?x128xf32>
  %s = m3.index_score %i3, %c, %b {layer = 0} : !e4m3i, !cache -> tensor<?x2x?xf32>
  %t = m3.block_topk %s, %b {k = 4, init = 0, local = 1} : tensor<?x2x?xf32> -> tensor<?x2x4xi32>
  %o = m3.sparse_attention %q3, %c, %t, %b {layer = 0, scale = 0.0883} : !e4m3q, !cache, tensor<?x2x4xi32> -> tensor<?x512xf32>
  return %o : tensor<?x512xf32>
}

// Edge: a dense layer whose query is made after the write; the write of another layer in between is
// no obstacle. The group stands where its last operation stood.
// CHECK-LABEL: func.func @dense_reordered
// CHECK-NEXT: m3.cache_write %{{.*}} {layer = 1}
// CHECK-NEXT: %[[Q:.*]] = m3.fused "qkv_rope_insert"
// CHECK: m3.cache_write %{{.*}} {layer = 0}
// CHECK: {{^ *[}]$}}
// CHECK-NEXT: m3.dense_attention %[[Q]]
func.func @dense_reordered(%n: tensor<?x128xf32>, %x: tensor<?x256xf32>, %cs: tensor<?x64xf32>, %c: !plain, %b: !m3.batch) -> tensor<?x512xf32> {
  %v0 = m3.project %n, @v : tensor<?x128xf32> -> tensor<?x256xf32>
  %k0 = m3.project %n, @k : tensor<?x128xf32> -> tensor<?x256xf32>
  %k1 = m3.head_norm %k0, @head {heads = 2, eps = 1.0e-6} : tensor<?x256xf32>
  %k2 = m3.rope %k1, %cs {heads = 2} : tensor<?x256xf32>, tensor<?x64xf32>
  m3.cache_write %c, %b, %k2, %v0 {layer = 0} : !plain, tensor<?x256xf32>, tensor<?x256xf32>
  m3.cache_write %c, %b, %x, %x {layer = 1} : !plain, tensor<?x256xf32>, tensor<?x256xf32>
  %q0 = m3.project %n, @q : tensor<?x128xf32> -> tensor<?x512xf32>
  %q1 = m3.head_norm %q0, @head {heads = 4, eps = 1.0e-6} : tensor<?x512xf32>
  %q2 = m3.rope %q1, %cs {heads = 4} : tensor<?x512xf32>, tensor<?x64xf32>
  %o = m3.dense_attention %q2, %c, %b {layer = 0, scale = 0.0883} : tensor<?x512xf32>, !plain -> tensor<?x512xf32>
  return %o : tensor<?x512xf32>
}

// Negative: a read of the layer stands between the write and the query's operations and feeds them, so
// the group would have to run both before and after it.
// CHECK-LABEL: func.func @read_between
// CHECK-NOT: m3.fused
func.func @read_between(%n: tensor<?x128xf32>, %y: tensor<?x512xf32>, %cs: tensor<?x64xf32>, %c: !plain, %b: !m3.batch) -> (tensor<?x512xf32>, tensor<?x512xf32>) {
  %v0 = m3.project %n, @v : tensor<?x128xf32> -> tensor<?x256xf32>
  %k0 = m3.project %n, @k : tensor<?x128xf32> -> tensor<?x256xf32>
  %k1 = m3.head_norm %k0, @head {heads = 2, eps = 1.0e-6} : tensor<?x256xf32>
  %k2 = m3.rope %k1, %cs {heads = 2} : tensor<?x256xf32>, tensor<?x64xf32>
  m3.cache_write %c, %b, %k2, %v0 {layer = 0} : !plain, tensor<?x256xf32>, tensor<?x256xf32>
  %first = m3.dense_attention %y, %c, %b {layer = 0, scale = 0.0883} : tensor<?x512xf32>, !plain -> tensor<?x512xf32>
  %table = m3.project %first, @back : tensor<?x512xf32> -> tensor<?x64xf32>
  %q0 = m3.project %n, @q : tensor<?x128xf32> -> tensor<?x512xf32>
  %q1 = m3.head_norm %q0, @head {heads = 4, eps = 1.0e-6} : tensor<?x512xf32>
  %q2 = m3.rope %q1, %table {heads = 4} : tensor<?x512xf32>, tensor<?x64xf32>
  %o = m3.dense_attention %q2, %c, %b {layer = 0, scale = 0.0883} : tensor<?x512xf32>, !plain -> tensor<?x512xf32>
  return %o, %first : tensor<?x512xf32>, tensor<?x512xf32>
}
m3.weight @back : !m3.weight<64x512, bf16>

// Negative: the rotated keys are a result too, or the values come from other rows.
// CHECK-LABEL: func.func @extra_use
// CHECK-NOT: m3.fused
func.func @extra_use(%n: tensor<?x128xf32>, %cs: tensor<?x64xf32>, %c: !plain, %b: !m3.batch) -> (tensor<?x512xf32>, tensor<?x256xf32>) {
  %v0 = m3.project %n, @v : tensor<?x128xf32> -> tensor<?x256xf32>
  %k0 = m3.project %n, @k : tensor<?x128xf32> -> tensor<?x256xf32>
  %k1 = m3.head_norm %k0, @head {heads = 2, eps = 1.0e-6} : tensor<?x256xf32>
  %k2 = m3.rope %k1, %cs {heads = 2} : tensor<?x256xf32>, tensor<?x64xf32>
  %q0 = m3.project %n, @q : tensor<?x128xf32> -> tensor<?x512xf32>
  %q1 = m3.head_norm %q0, @head {heads = 4, eps = 1.0e-6} : tensor<?x512xf32>
  %q2 = m3.rope %q1, %cs {heads = 4} : tensor<?x512xf32>, tensor<?x64xf32>
  m3.cache_write %c, %b, %k2, %v0 {layer = 0} : !plain, tensor<?x256xf32>, tensor<?x256xf32>
  %o = m3.dense_attention %q2, %c, %b {layer = 0, scale = 0.0883} : tensor<?x512xf32>, !plain -> tensor<?x512xf32>
  return %o, %k2 : tensor<?x512xf32>, tensor<?x256xf32>
}

// CHECK-LABEL: func.func @other_rows
// CHECK-NOT: m3.fused
func.func @other_rows(%n: tensor<?x128xf32>, %m: tensor<?x128xf32>, %cs: tensor<?x64xf32>, %c: !plain, %b: !m3.batch) -> tensor<?x512xf32> {
  %v0 = m3.project %m, @v : tensor<?x128xf32> -> tensor<?x256xf32>
  %k0 = m3.project %n, @k : tensor<?x128xf32> -> tensor<?x256xf32>
  %k1 = m3.head_norm %k0, @head {heads = 2, eps = 1.0e-6} : tensor<?x256xf32>
  %k2 = m3.rope %k1, %cs {heads = 2} : tensor<?x256xf32>, tensor<?x64xf32>
  %q0 = m3.project %n, @q : tensor<?x128xf32> -> tensor<?x512xf32>
  %q1 = m3.head_norm %q0, @head {heads = 4, eps = 1.0e-6} : tensor<?x512xf32>
  %q2 = m3.rope %q1, %cs {heads = 4} : tensor<?x512xf32>, tensor<?x64xf32>
  m3.cache_write %c, %b, %k2, %v0 {layer = 0} : !plain, tensor<?x256xf32>, tensor<?x256xf32>
  %o = m3.dense_attention %q2, %c, %b {layer = 0, scale = 0.0883} : tensor<?x512xf32>, !plain -> tensor<?x512xf32>
  return %o : tensor<?x512xf32>
}
