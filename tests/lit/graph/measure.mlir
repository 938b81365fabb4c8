// RUN: m3-opt %s --m3-measure -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: m3-opt %t.once --m3-measure | diff %t.once -
// RUN: m3-opt %s --m3-fuse-index-topk --m3-fuse-gate-up --m3-fuse-experts-shared --m3-measure | FileCheck %s --check-prefix=FUSED

m3.weight @gate : !m3.weight<256x128, mxfp8>
m3.weight @up : !m3.weight<256x128, bf16>
m3.weight @egate : !m3.weight<8x64x128, nvfp4>
m3.weight @eup : !m3.weight<8x64x128, nvfp4>
m3.weight @edown : !m3.weight<8x128x64, nvfp4>
m3.weight @embed : !m3.weight<1000x128, bf16>

!cache = !m3.cache<kv = f32, grid = exact, page = 128, layers = 2, kv_heads = 2, head_dim = 128, index_dim = 128>

// Basic. Three launches; rows: each projection reads 128 and writes 256 values, the activation reads
// 2·256 and writes 256: (2·384 + 768)·4 bytes. Fused: 128 in, 256 out. Weights: 256·128·33/32 of
// E4M3 with scales, twice as many bytes as values in BF16.
// CHECK-LABEL: func.func @gate_up
// CHECK-SAME: m3.launches = 3 : i64, m3.row_bytes = 6144 : i64, m3.weight_bytes = 99328 : i64
// FUSED-LABEL: func.func @gate_up
// FUSED-SAME: m3.launches = 1 : i64, m3.row_bytes = 1536 : i64, m3.weight_bytes = 99328 : i64
func.func @gate_up(%n: tensor<?x128xf32>) -> tensor<?x256xf32> {
  %g = m3.project %n, @gate : tensor<?x128xf32> -> tensor<?x256xf32>
  %u = m3.project %n, @up : tensor<?x128xf32> -> tensor<?x256xf32>
  %z = m3.swiglu_oai %g, %u {alpha = 1.702, limit = 7.0} : tensor<?x256xf32>
  return %z : tensor<?x256xf32>
}

// Edge: block scores count for 16 blocks (2·16 values written and read); the fused group stores none.
// CHECK-LABEL: func.func @index
// CHECK-SAME: m3.launches = 2 : i64, m3.row_bytes = 1312 : i64, m3.weight_bytes = 0 : i64
// FUSED-LABEL: func.func @index
// FUSED-SAME: m3.launches = 1 : i64, m3.row_bytes = 1056 : i64, m3.weight_bytes = 0 : i64
func.func @index(%q: tensor<?x256xf32>, %c: !cache, %b: !m3.batch) -> tensor<?x2x4xi32> {
  %s = m3.index_score %q, %c, %b {layer = 1} : tensor<?x256xf32>, !cache -> tensor<?x2x?xf32>
  %t = m3.block_topk %s, %b {k = 4, init = 0, local = 1} : tensor<?x2x?xf32> -> tensor<?x2x4xi32>
  return %t : tensor<?x2x4xi32>
}

// Edge: one row of the embedding (256 bytes); two of the eight experts, 4612 bytes for each of the three
// matrices (64·128·9/16 bytes and the FP32 scale).
// CHECK-LABEL: func.func @experts
// CHECK-SAME: m3.launches = 3 : i64, m3.row_bytes = {{[0-9]+}} : i64, m3.weight_bytes = 27928 : i64
func.func @experts(%b: !m3.batch, %e: tensor<?x2xi32>, %w: tensor<?x2xf32>) -> tensor<?x128xf32> {
  %h = m3.embed %b, @embed : tensor<?x128xf32>
  %y = m3.experts %h, %e, %w, @egate, @eup, @edown {alpha = 1.702, limit = 7.0} : tensor<?x128xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  %s = arith.addf %h, %y : tensor<?x128xf32>
  return %s : tensor<?x128xf32>
}

// Negative: a declaration has nothing to count.
// CHECK: func.func private @declared() -> tensor<?x128xf32>{{$}}
func.func private @declared() -> tensor<?x128xf32>
