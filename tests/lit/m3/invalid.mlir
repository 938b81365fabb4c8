// One planted mistake for each labelled constraint of the verifiers.
// RUN: m3-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{M3-C01: the scale group 32 of mxfp8 does not divide K = 48}}
m3.weight @w : !m3.weight<16x48, mxfp8>

// -----

// expected-error@+1 {{M3-C01: the scale group 16 of nvfp4 does not divide K = 24}}
m3.weight @w : !m3.weight<4x16x24, nvfp4>

// -----

// expected-error@+1 {{M3-C01: a vector is stored as f32 or bf16, not mxfp8}}
m3.weight @w : !m3.weight<64, mxfp8>

// -----

// expected-error@+1 {{M3-C01: a weight has one to three positive dimensions}}
m3.weight @w : !m3.weight<2x2x2x2, f32>

// -----

// expected-error@+1 {{unknown weight encoding 'fp4'}}
m3.weight @w : !m3.weight<64, fp4>

// -----

// expected-error@+1 {{M3-C02: a page holds 128 tokens, not 64}}
func.func private @f(!m3.cache<kv = f32, grid = exact, page = 64, layers = 1, kv_heads = 1, head_dim = 128, index_dim = 0>)

// -----

// expected-error@+1 {{M3-C03: the e4m3 grid belongs to nvfp4 storage, not fp8}}
func.func private @f(!m3.cache<kv = fp8, grid = e4m3, page = 128, layers = 1, kv_heads = 1, head_dim = 128, index_dim = 0>)

// -----

// expected-error@+1 {{M3-C03: layers and kv_heads are positive}}
func.func private @f(!m3.cache<kv = f32, grid = exact, page = 128, layers = 1, kv_heads = 1, head_dim = 120, index_dim = 0>)

// -----

// expected-error@+1 {{M3-C04: the stored shape of 'x' does not agree}}
m3.weight @w : !m3.weight<64x64, nvfp4> {parts = [
  #m3.part<values, "x", "U8", [64, 64]>, #m3.part<block_scale, "s", "F8_E4M3", [64, 4]>, #m3.part<global_scale, "g", "F32", []>]}

// -----

// expected-error@+1 {{M3-C04: '!m3.weight<64x64, mxfp8>' is made of one values part, 1 block scale and 0 global scale}}
m3.weight @w : !m3.weight<64x64, mxfp8> {parts = [#m3.part<values, "x", "F8_E4M3", [64, 64]>]}

// -----

// expected-error@+1 {{M3-C05: 'experts.0.x': exactly the tensors of a stack of experts hold '{e}'}}
m3.weight @w : !m3.weight<2x64x64, bf16> {parts = [#m3.part<values, "experts.0.x", "BF16", [64, 64]>]}

// -----

m3.weight @w : !m3.weight<512x64, bf16>
func.func @f(%b: !m3.batch) {
  // expected-error@+1 {{M3-C06: weight @w ('!m3.weight<512x64, bf16>') is no matrix with rows as wide as the result}}
  %h = m3.embed %b, @w : tensor<?x128xf32>
  return
}

// -----

func.func @f(%b: !m3.batch) {
  // expected-error@+1 {{M3-C06: @nothing names no m3.weight}}
  %h = m3.embed %b, @nothing : tensor<?x128xf32>
  return
}

// -----

func.func @f(%b: !m3.batch) {
  // expected-error@+1 {{M3-C07: rotary is even and the width of the result}}
  %t = m3.rope_table %b {theta = 5.0e6, rotary = 63} : tensor<?x63xf32>
  return
}

// -----

m3.weight @w : !m3.weight<64, bf16>
func.func @f(%x: tensor<?x128xf32>) {
  // expected-error@+1 {{M3-C08: weight @w is 64, expected 128}}
  %n = m3.norm %x, @w {eps = 1.0e-6} : tensor<?x128xf32>
  return
}

// -----

m3.weight @w : !m3.weight<128, bf16>
func.func @f(%x: tensor<?x128xf32>) {
  // expected-error@+1 {{M3-C08: eps is positive}}
  %n = m3.norm %x, @w {eps = 0.0} : tensor<?x128xf32>
  return
}

// -----

m3.weight @w : !m3.weight<64x128, bf16>
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{M3-C09: weight @w is 64x128, expected 128x64}}
  %y = m3.project %x, @w : tensor<?x64xf32> -> tensor<?x128xf32>
  return
}

// -----

m3.weight @w : !m3.weight<128, bf16>
func.func @f(%x: tensor<?x500xf32>) {
  // expected-error@+1 {{M3-C10: heads divides the width of a row}}
  %y = m3.head_norm %x, @w {heads = 3, eps = 1.0e-6} : tensor<?x500xf32>
  return
}

// -----

m3.weight @w : !m3.weight<128, bf16>
func.func @f(%x: tensor<?x512xf32>) {
  // expected-error@+1 {{M3-C10: weight @w is 128, expected 256}}
  %y = m3.head_norm %x, @w {heads = 2, eps = 1.0e-6} : tensor<?x512xf32>
  return
}

// -----

func.func @f(%x: tensor<?x64xf32>, %t: tensor<?x64xf32>) {
  // expected-error@+1 {{M3-C11: the rotary dimension is even and not larger than a head}}
  %y = m3.rope %x, %t {heads = 2} : tensor<?x64xf32>, tensor<?x64xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error@+1 {{M3-C12: the group 16 of the grid does not divide the width 24}}
  %y = m3.quantize %x {grid = nvfp4} : tensor<?x24xf32> -> tensor<?x24xf32, #m3.storage<nvfp4>>
  return
}

// -----

func.func @f(%x: tensor<?x32xf32>) {
  // expected-error@+1 {{M3-C12: the result is the operand's type with the encoding of the grid}}
  %y = m3.quantize %x {grid = nvfp4} : tensor<?x32xf32> -> tensor<?x32xf32, #m3.storage<e4m3>>
  return
}

// -----

func.func @f(%x: tensor<?x32xf32>) {
  // expected-error@+1 {{M3-C13: the operand has a storage encoding}}
  %y = m3.dequantize %x : tensor<?x32xf32> -> tensor<?x32xf32>
  return
}

// -----

!c = !m3.cache<kv = f32, grid = exact, page = 128, layers = 2, kv_heads = 2, head_dim = 128, index_dim = 128>
func.func @f(%c: !c, %b: !m3.batch, %k: tensor<?x256xf32>) {
  // expected-error@+1 {{M3-C14: the cache has no layer 2}}
  m3.cache_write %c, %b, %k, %k {layer = 2} : !c, tensor<?x256xf32>, tensor<?x256xf32>
  return
}

// -----

!c = !m3.cache<kv = f32, grid = exact, page = 128, layers = 2, kv_heads = 2, head_dim = 128, index_dim = 128>
func.func @f(%c: !c, %b: !m3.batch, %k: tensor<?x128xf32>) {
  // expected-error@+1 {{M3-C14: keys and values are 256 wide}}
  m3.cache_write %c, %b, %k, %k {layer = 0} : !c, tensor<?x128xf32>, tensor<?x128xf32>
  return
}

// -----

!c = !m3.cache<kv = f32, grid = exact, page = 128, layers = 2, kv_heads = 2, head_dim = 128, index_dim = 128>
func.func @f(%c: !c, %b: !m3.batch, %k: tensor<?x256xf32>) {
  m3.cache_write %c, %b, %k, %k {layer = 0} : !c, tensor<?x256xf32>, tensor<?x256xf32>
  // expected-error@+1 {{M3-C15: layer 0 is written twice}}
  m3.cache_write %c, %b, %k, %k {layer = 0} : !c, tensor<?x256xf32>, tensor<?x256xf32>
  return
}

// -----

!c = !m3.cache<kv = f32, grid = exact, page = 128, layers = 2, kv_heads = 2, head_dim = 128, index_dim = 128>
func.func @f(%c: !c, %b: !m3.batch, %q: tensor<?x256xf32>) {
  %o = m3.fused "any"(%x = %q : tensor<?x256xf32>, %y = %c : !c, %z = %b : !m3.batch) -> (tensor<?x256xf32>) {
    %p = m3.dense_attention %x, %y, %z {layer = 0, scale = 0.1} : tensor<?x256xf32>, !c -> tensor<?x256xf32>
    m3.yield %p : tensor<?x256xf32>
  }
  // expected-error@+1 {{M3-C15: layer 0 is read before it is written}}
  m3.cache_write %c, %b, %q, %o {layer = 0} : !c, tensor<?x256xf32>, tensor<?x256xf32>
  return
}

// -----

!c = !m3.cache<kv = f32, grid = exact, page = 128, layers = 2, kv_heads = 2, head_dim = 128, index_dim = 128>
func.func @f(%c: !c, %b: !m3.batch, %q: tensor<?x512xf32>) {
  // expected-error@+1 {{M3-C16: one index query of 128 values per KV head (2)}}
  %s = m3.index_score %q, %c, %b {layer = 0} : tensor<?x512xf32>, !c -> tensor<?x4x?xf32>
  return
}

// -----

!c = !m3.cache<kv = fp8, grid = exact, page = 128, layers = 2, kv_heads = 2, head_dim = 128, index_dim = 128>
func.func @f(%c: !c, %b: !m3.batch, %q: tensor<?x256xf32>) {
  // expected-error@+1 {{M3-C17: with this cache the index query lies on the e4m3 grid}}
  %s = m3.index_score %q, %c, %b {layer = 0} : tensor<?x256xf32>, !c -> tensor<?x2x?xf32>
  return
}

// -----

func.func @f(%s: tensor<?x2x?xf32>, %b: !m3.batch) {
  // expected-error@+1 {{M3-C18: the newest block is kept}}
  %t = m3.block_topk %s, %b {k = 4, init = 0, local = 0} : tensor<?x2x?xf32> -> tensor<?x2x4xi32>
  return
}

// -----

func.func @f(%s: tensor<?x2x?xf32>, %b: !m3.batch) {
  // expected-error@+1 {{M3-C19: k is at least init + local}}
  %t = m3.block_topk %s, %b {k = 2, init = 2, local = 1} : tensor<?x2x?xf32> -> tensor<?x2x2xi32>
  return
}

// -----

func.func @f(%s: tensor<?x2x?xf32>, %b: !m3.batch) {
  // expected-error@+1 {{M3-C19: the result is [rows, KV heads of the scores, k]}}
  %t = m3.block_topk %s, %b {k = 4, init = 0, local = 1} : tensor<?x2x?xf32> -> tensor<?x4x4xi32>
  return
}

// -----

!c = !m3.cache<kv = f32, grid = exact, page = 128, layers = 2, kv_heads = 2, head_dim = 128, index_dim = 128>
func.func @f(%c: !c, %b: !m3.batch, %q: tensor<?x384xf32>) {
  // expected-error@+1 {{M3-C20: query and result are a multiple of 256}}
  %o = m3.dense_attention %q, %c, %b {layer = 0, scale = 0.1} : tensor<?x384xf32>, !c -> tensor<?x384xf32>
  return
}

// -----

!c = !m3.cache<kv = f32, grid = exact, page = 128, layers = 2, kv_heads = 2, head_dim = 128, index_dim = 128>
func.func @f(%c: !c, %b: !m3.batch, %q: tensor<?x256xf32>, %t: tensor<?x1x4xi32>) {
  // expected-error@+1 {{M3-C21: the selection has 2 KV heads}}
  %o = m3.sparse_attention %q, %c, %t, %b {layer = 0, scale = 0.1} : tensor<?x256xf32>, !c, tensor<?x1x4xi32> -> tensor<?x256xf32>
  return
}

// -----

!c = !m3.cache<kv = nvfp4, grid = exact, page = 128, layers = 2, kv_heads = 2, head_dim = 128, index_dim = 128>
func.func @f(%c: !c, %b: !m3.batch, %q: tensor<?x256xf32>) {
  // expected-error@+1 {{M3-C22: with this cache the query lies on the e4m3 grid}}
  %o = m3.dense_attention %q, %c, %b {layer = 0, scale = 0.1} : tensor<?x256xf32>, !c -> tensor<?x256xf32>
  return
}

// -----

!c = !m3.cache<kv = f32, grid = exact, page = 128, layers = 2, kv_heads = 2, head_dim = 128, index_dim = 128>
func.func @f(%c: !c, %b: !m3.batch, %q: tensor<?x256xf32>) {
  // expected-error@+1 {{M3-C23: the scale is positive and finite}}
  %o = m3.dense_attention %q, %c, %b {layer = 0, scale = 0.0} : tensor<?x256xf32>, !c -> tensor<?x256xf32>
  return
}

// -----

func.func @f(%g: tensor<?x64xf32>) {
  // expected-error@+1 {{M3-C24: alpha and limit are positive and finite}}
  %z = m3.swiglu_oai %g, %g {alpha = 1.702, limit = -7.0} : tensor<?x64xf32>
  return
}

// -----

m3.weight @router : !m3.weight<8x64, f32>
m3.weight @bias : !m3.weight<8, bf16>
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{M3-C25: the router bias only selects: @bias ('!m3.weight<8, bf16>') is no f32 vector of 8 elements}}
  %e, %w = m3.route %x, @router bias @bias {top_k = 2, scale = 2.0} : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

m3.weight @router : !m3.weight<8x8, f32>
m3.weight @bias : !m3.weight<8, f32>
func.func @f(%x: tensor<?x8xf32>) {
  %e, %w = m3.route %x, @router bias @bias {top_k = 2, scale = 2.0} : tensor<?x8xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
  // expected-error@+1 {{M3-C25: the router bias @bias only selects, this operation reads it as well}}
  %n = m3.norm %x, @bias {eps = 1.0e-6} : tensor<?x8xf32>
  return
}

// -----

m3.weight @router : !m3.weight<8x64, f32>
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{M3-C26: top_k = 9 of 8 experts}}
  %e, %w = m3.route %x, @router {top_k = 9, scale = 2.0} : tensor<?x64xf32> -> tensor<?x9xi32>, tensor<?x9xf32>
  return
}

// -----

m3.weight @router : !m3.weight<8x64, f32>
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{M3-C26: both results have top_k columns}}
  %e, %w = m3.route %x, @router {top_k = 2, scale = 2.0} : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x4xf32>
  return
}

// -----

m3.weight @router : !m3.weight<8x64, f32>
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{M3-C27: the scale is positive and finite}}
  %e, %w = m3.route %x, @router {top_k = 2, scale = 0.0} : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

m3.weight @g : !m3.weight<8x32x64, bf16>
m3.weight @u : !m3.weight<8x32x64, bf16>
m3.weight @d : !m3.weight<7x64x32, bf16>
func.func @f(%x: tensor<?x64xf32>, %e: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{M3-C28: weight @d is 7x64x32, expected 8x64x32}}
  %y = m3.experts %x, %e, %w, @g, @u, @d {alpha = 1.702, limit = 7.0} : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

m3.weight @g : !m3.weight<32x64, bf16>
m3.weight @d : !m3.weight<32x64, bf16>
func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{M3-C29: weight @d is 32x64, expected 64x32}}
  %y = m3.shared_expert %x, @g, @g, @d {alpha = 1.702, limit = 7.0} : tensor<?x64xf32>
  return
}

// -----

func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{M3-C31: results and the operands of m3.yield agree in number and type}}
  %y = m3.fused "any"(%a = %x : tensor<?x64xf32>) -> (tensor<?x32xf32>) {
    m3.yield %a : tensor<?x64xf32>
  }
  return
}

// -----

func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{M3-C31: the kind is not empty}}
  %y = m3.fused ""(%a = %x : tensor<?x64xf32>) -> (tensor<?x64xf32>) {
    m3.yield %a : tensor<?x64xf32>
  }
  return
}

// -----

func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{M3-C31: operands and block arguments agree in number and type}}
  "m3.fused"(%x) <{kind = "any"}> ({
  ^bb0(%a: tensor<?x32xf32>):
    m3.yield
  }) : (tensor<?x64xf32>) -> ()
  return
}

// -----

m3.weight @w : !m3.weight<32, bf16>
func.func @f(%x: tensor<?x64xbf16>) {
  // expected-error@+1 {{M3-C35: the result is as wide as the operand and has no storage encoding}}
  %y = m3.head_norm %x, @w {heads = 2, eps = 1.0e-6} : tensor<?x64xbf16> -> tensor<?x32xf32>
  return
}

// -----

func.func @f(%x: tensor<?x64xf32>, %t: tensor<?x32xf32>) {
  // expected-error@+1 {{M3-C35: the result is as wide as the operand and has no storage encoding}}
  %y = m3.rope %x, %t {heads = 2} : tensor<?x64xf32>, tensor<?x32xf32> -> tensor<?x64xbf16, #m3.storage<bf16>>
  return
}

// -----

func.func @f(%g: tensor<?x64xf32>) {
  // expected-error@+1 {{M3-C35: the result is as wide as the operand and has no storage encoding}}
  %z = m3.swiglu_oai %g, %g {alpha = 1.702, limit = 7.0} : tensor<?x64xf32> -> tensor<?x32xbf16>
  return
}

// -----

m3.weight @up : !m3.weight<8x64x128, nvfp4>
m3.weight @down : !m3.weight<8x128x64, nvfp4>
func.func @f(%x: tensor<?x128xbf16>, %e: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{M3-C35: the result is as wide as the operand and has no storage encoding}}
  %y = m3.experts %x, %e, %w, @up, @up, @down {alpha = 1.702, limit = 7.0} : tensor<?x128xbf16>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x64xf32>
  return
}

// -----

func.func @f(%x: tensor<?x64xbf16>) {
  // expected-error@+1 {{must be 2D tensor of 32-bit float values}}
  %t = m3.argmax %x : tensor<?x64xbf16> -> tensor<?xi32>
  return
}

// -----

func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{M3-C32: the result's width does not follow from the operand's}}
  %y = m3.all_gather %x {group = "tp", ranks = 4} : tensor<?x64xf32> -> tensor<?x64xf32>
  return
}

// -----

func.func @f(%x: tensor<?x64xf32>) {
  // expected-error@+1 {{M3-C32: a group has a name and at least one rank}}
  %y = m3.all_reduce %x {group = "tp", ranks = 0} : tensor<?x64xf32> -> tensor<?x64xf32>
  return
}

// -----

!c = !m3.cache<kv = f32, grid = exact, page = 128, layers = 2, kv_heads = 2, head_dim = 128, index_dim = 128>
func.func @f(%c: !c, %b: !m3.batch, %q: tensor<?x256xf32>) attributes {m3.step} {
  m3.cache_write %c, %b, %q, %q {layer = 1} : !c, tensor<?x256xf32>, tensor<?x256xf32>
  // expected-error@+1 {{M3-C33: layer 0 of the cache is read but not written before}}
  %o = m3.dense_attention %q, %c, %b {layer = 0, scale = 0.1} : tensor<?x256xf32>, !c -> tensor<?x256xf32>
  return
}

// -----

// expected-error@+1 {{M3-C34: a sharding names a group, a dimension and a positive count}}
m3.weight @w : !m3.weight<64x64, bf16> {sharding = #m3.sharding<"tp", dim = 0, count = 0>}
