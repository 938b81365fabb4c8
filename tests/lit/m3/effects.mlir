// Memory effects on the cache: what CSE and dead-code elimination may do.
// RUN: m3-opt %s --cse --canonicalize | FileCheck %s

!c = !m3.cache<kv = f32, grid = exact, page = 128, layers = 2, kv_heads = 2, head_dim = 128, index_dim = 128>

// Two equal reads with nothing between are one; an unused one goes.
// CHECK-LABEL: func.func @equal_reads
// CHECK-COUNT-1: m3.dense_attention
// CHECK-NOT: m3.index_score
// CHECK: return
func.func @equal_reads(%c: !c, %b: !m3.batch, %q: tensor<?x256xf32>) -> (tensor<?x256xf32>, tensor<?x256xf32>) {
  %o = m3.dense_attention %q, %c, %b {layer = 0, scale = 0.1} : tensor<?x256xf32>, !c -> tensor<?x256xf32>
  %p = m3.dense_attention %q, %c, %b {layer = 0, scale = 0.1} : tensor<?x256xf32>, !c -> tensor<?x256xf32>
  %s = m3.index_score %q, %c, %b {layer = 0} : tensor<?x256xf32>, !c -> tensor<?x2x?xf32>
  return %o, %p : tensor<?x256xf32>, tensor<?x256xf32>
}

// A write between two equal reads keeps both, and a write is never dead, inside a group or outside.
// CHECK-LABEL: func.func @write_between
// CHECK: m3.dense_attention
// CHECK: m3.cache_write
// CHECK: m3.dense_attention
// CHECK: return
func.func @write_between(%c: !c, %b: !m3.batch, %q: tensor<?x256xf32>) -> (tensor<?x256xf32>, tensor<?x256xf32>) {
  %o = m3.dense_attention %q, %c, %b {layer = 0, scale = 0.1} : tensor<?x256xf32>, !c -> tensor<?x256xf32>
  m3.cache_write %c, %b, %q, %q {layer = 1} : !c, tensor<?x256xf32>, tensor<?x256xf32>
  %p = m3.dense_attention %q, %c, %b {layer = 0, scale = 0.1} : tensor<?x256xf32>, !c -> tensor<?x256xf32>
  return %o, %p : tensor<?x256xf32>, tensor<?x256xf32>
}

// CHECK-LABEL: func.func @write_in_group
// CHECK: m3.dense_attention
// CHECK: m3.fused "write"
// CHECK: m3.dense_attention
func.func @write_in_group(%c: !c, %b: !m3.batch, %q: tensor<?x256xf32>) -> (tensor<?x256xf32>, tensor<?x256xf32>) {
  %o = m3.dense_attention %q, %c, %b {layer = 0, scale = 0.1} : tensor<?x256xf32>, !c -> tensor<?x256xf32>
  m3.fused "write"(%x = %c : !c, %y = %b : !m3.batch, %z = %q : tensor<?x256xf32>) {
    m3.cache_write %x, %y, %z, %z {layer = 1} : !c, tensor<?x256xf32>, tensor<?x256xf32>
    m3.yield
  }
  %p = m3.dense_attention %q, %c, %b {layer = 0, scale = 0.1} : tensor<?x256xf32>, !c -> tensor<?x256xf32>
  return %o, %p : tensor<?x256xf32>, tensor<?x256xf32>
}

// A group that only reads, or only computes, is dead when nothing uses it.
// CHECK-LABEL: func.func @dead_groups
// CHECK-NEXT: return
func.func @dead_groups(%c: !c, %b: !m3.batch, %q: tensor<?x256xf32>) {
  %o = m3.fused "read"(%x = %c : !c, %y = %b : !m3.batch, %z = %q : tensor<?x256xf32>) -> (tensor<?x256xf32>) {
    %p = m3.dense_attention %z, %x, %y {layer = 0, scale = 0.1} : tensor<?x256xf32>, !c -> tensor<?x256xf32>
    m3.yield %p : tensor<?x256xf32>
  }
  %r = m3.fused "compute"(%z = %q : tensor<?x256xf32>) -> (tensor<?x256xf32>) {
    %p = arith.addf %z, %z : tensor<?x256xf32>
    m3.yield %p : tensor<?x256xf32>
  }
  return
}
