// RUN: m3-opt %s --m3-fuse-index-topk -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: m3-opt %t.once --m3-fuse-index-topk | diff %t.once -
// RUN: m3-opt %s --m3-fuse-index-topk --counts -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=COUNTS

// COUNTS: m3-fuse-index-topk.fused = 2 (
// COUNTS-NEXT: m3-fuse-index-topk.operations-removed = 4 (

!cache = !m3.cache<kv = f32, grid = exact, page = 128, layers = 2, kv_heads = 2, head_dim = 128, index_dim = 128>

// Basic.
// CHECK-LABEL: func.func @basic
// CHECK-NEXT: %[[SEL:.*]] = m3.fused "index_topk"(%[[Q:.*]] = %{{.*}} : tensor<?x256xf32>, %[[C:.*]] = %{{.*}} : !m3.cache<{{.*}}>, %[[B:.*]] = %{{.*}} : !m3.batch) -> (tensor<?x2x4xi32>) {
// CHECK-NEXT: %[[S:.*]] = m3.index_score %[[Q]], %[[C]], %[[B]] {layer = 1}
// CHECK-NEXT: %[[T:.*]] = m3.block_topk %[[S]], %[[B]] {k = 4, init = 0, local = 1}
// CHECK-NEXT: m3.yield %[[T]]
// CHECK: return %[[SEL]]
func.func @basic(%q: tensor<?x256xf32>, %c: !cache, %b: !m3.batch) -> tensor<?x2x4xi32> {
  %s = m3.index_score %q, %c, %b {layer = 1} : tensor<?x256xf32>, !cache -> tensor<?x2x?xf32>
  %t = m3.block_topk %s, %b {k = 4, init = 0, local = 1} : tensor<?x2x?xf32> -> tensor<?x2x4xi32>
  return %t : tensor<?x2x4xi32>
}

// Edge: a write of another layer stands between; it stays before the group or after it, no matter.
// CHECK-LABEL: func.func @other_layer_between
// CHECK: m3.fused "index_topk"
func.func @other_layer_between(%q: tensor<?x256xf32>, %k: tensor<?x256xf32>, %c: !cache, %b: !m3.batch) -> tensor<?x2x4xi32> {
  %s = m3.index_score %q, %c, %b {layer = 1} : tensor<?x256xf32>, !cache -> tensor<?x2x?xf32>
  m3.cache_write %c, %b, %k, %k {layer = 0} : !cache, tensor<?x256xf32>, tensor<?x256xf32>
  %t = m3.block_topk %s, %b {k = 4, init = 0, local = 1} : tensor<?x2x?xf32> -> tensor<?x2x4xi32>
  return %t : tensor<?x2x4xi32>
}

// Negative: the scores are used elsewhere, or the batches differ.
// CHECK-LABEL: func.func @extra_use
// CHECK-NOT: m3.fused
func.func @extra_use(%q: tensor<?x256xf32>, %c: !cache, %b: !m3.batch) -> (tensor<?x2x4xi32>, tensor<?x2x?xf32>) {
  %s = m3.index_score %q, %c, %b {layer = 1} : tensor<?x256xf32>, !cache -> tensor<?x2x?xf32>
  %t = m3.block_topk %s, %b {k = 4, init = 0, local = 1} : tensor<?x2x?xf32> -> tensor<?x2x4xi32>
  return %t, %s : tensor<?x2x4xi32>, tensor<?x2x?xf32>
}

// CHECK-LABEL: func.func @two_batches
// CHECK-NOT: m3.fused
func.func @two_batches(%q: tensor<?x256xf32>, %c: !cache, %b: !m3.batch, %b2: !m3.batch) -> tensor<?x2x4xi32> {
  %s = m3.index_score %q, %c, %b {layer = 1} : tensor<?x256xf32>, !cache -> tensor<?x2x?xf32>
  %t = m3.block_topk %s, %b2 {k = 4, init = 0, local = 1} : tensor<?x2x?xf32> -> tensor<?x2x4xi32>
  return %t : tensor<?x2x4xi32>
}
