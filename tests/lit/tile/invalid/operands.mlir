// Rules of lists, of operands of matrix instructions and of where their results go.
// RUN: m3-opt %s -split-input-file -verify-diagnostics

tile.kernel @bad(%x: !tile.view<?xf32>, %n: index) attributes {family = "f", schedule = {}} {
  %places = tile.iota : !tile.tile<1x16xi32>
  // expected-error@+1 {{T-M14: numbers are i32, the result has their shape and the view's element}}
  %g = tile.gather %x[%n] at %places : !tile.view<?xf32>, !tile.tile<1x16xi32> -> !tile.tile<1x32xf32>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x16xf32>, %n: index) attributes {family = "f", schedule = {}} {
  %zero = arith.constant 0.0 : f32
  %t = tile.fill %zero : f32 -> !tile.tile<2x16xf32>
  // expected-error@+1 {{T-M15: }}
  tile.store_columns %t, %x[%n, %n] stride %n limit %n : !tile.tile<2x16xf32>, !tile.view<?x16xf32>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x128xf32>, %n: index) attributes {family = "f", schedule = {}} {
  %zero = arith.constant 0.0 : f32
  %t = tile.fill %zero : f32 -> !tile.tile<16x8xf32, mma_acc>
  // expected-error@+1 {{T-M16: an accumulator of pairs of columns and rows of BF16 or FP32}}
  tile.store_spread %t, %x[%n, %n] spread 16 limit %n : !tile.tile<16x8xf32, mma_acc>, !tile.view<?x128xf32>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x64xf32>, %n: index) attributes {family = "f", schedule = {}} {
  %zero = arith.constant 0.0 : f32
  %t = tile.fill %zero : f32 -> !tile.tile<16x16xf32, mma_acc>
  // expected-error@+1 {{T-M17: eight columns, 16 apart, do not fit}}
  tile.store_spread %t, %x[%n, %n] spread 16 limit %n : !tile.tile<16x16xf32, mma_acc>, !tile.view<?x64xf32>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?xi32>, %n: index) attributes {family = "f", schedule = {}, warps = 1} {
  tile.roles {
    tile.role "one" warps = 1 {
      // expected-error@+1 {{T-M19: all threads of the work item arrive}}
      %last = tile.arrive %x[%n] of %n : !tile.view<?xi32>
    }
  }
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?xi32>, %n: index) attributes {family = "f", schedule = {}} {
  %t = tile.iota : !tile.tile<1x32xi32>
  %c = arith.constant true
  %takes = tile.fill %c : i1 -> !tile.tile<1x32xi1>
  %list = tile.alloc : !tile.view<64xf32, shared>
  // expected-error@+1 {{T-M24: a view of one dimension, of the tile's element, expected}}
  tile.compact %t, %list[%n] where %takes limit %n : !tile.tile<1x32xi32>, !tile.view<64xf32, shared>, !tile.tile<1x32xi1>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?xi32>, %n: index) attributes {family = "f", schedule = {}} {
  %t = tile.iota : !tile.tile<1x32xi32>
  %list = tile.alloc : !tile.view<64xi32, shared>
  // expected-error@+1 {{T-M25: one condition for each element expected}}
  tile.compact %t, %list[%n] where %t limit %n : !tile.tile<1x32xi32>, !tile.view<64xi32, shared>, !tile.tile<1x32xi32>
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  %c = arith.constant true
  %takes = tile.fill %c : i1 -> !tile.tile<1x16xi1>
  // expected-error@+1 {{T-M26: rows of 32 conditions expected}}
  %n = tile.count %takes : !tile.tile<1x16xi1>
  tile.return
}

// -----

tile.kernel @bad(%n: index) attributes {family = "f", schedule = {}} {
  %codes = tile.alloc : !tile.view<128x256xi8, shared>
  // expected-error@+1 {{T-A15: e2m1 or e4m3 expected}}
  %a = tile.load_cached %codes[%n] format bf16 : !tile.view<128x256xi8, shared> -> !tile.tile<128x16xf16, mma_b>
  tile.return
}

// -----

tile.kernel @bad(%n: index) attributes {family = "f", schedule = {}} {
  %codes = tile.alloc : !tile.view<128x128xi8, shared>
  // expected-error@+1 {{T-A17: 16 or 32 tokens as an operand in FP16}}
  %a = tile.load_cached %codes[%n] format e4m3 : !tile.view<128x128xi8, shared> -> !tile.tile<128x8xf16, mma_b>
  tile.return
}

// -----

tile.kernel @bad(%n: index) attributes {family = "f", schedule = {}} {
  %codes = tile.alloc : !tile.view<128x64xi8, shared>
  // expected-error@+1 {{T-A18: }}
  %a = tile.load_cached %codes[%n] format e4m3 : !tile.view<128x64xi8, shared> -> !tile.tile<128x16xf16, mma_b>
  tile.return
}

// -----

tile.kernel @bad(%n: index) attributes {family = "f", schedule = {}} {
  %page = tile.alloc : !tile.view<4x1024xi8, shared>
  %ring = tile.ring async 1 : !tile.ring<2, 1024xi8>
  // expected-error@+1 {{T-R6: a stage is copied from global memory}}
  tile.fill_stage %ring[%n] from %page[%n, %n] : !tile.ring<2, 1024xi8>, !tile.view<4x1024xi8, shared>
  tile.return
}

// -----

tile.kernel @bad(%y: !tile.view<?x16xf32>, %n: index) attributes {family = "f", schedule = {}} {
  %zero = arith.constant 0.0 : f32
  %t = tile.fill %zero : f32 -> !tile.tile<16x8xf32, mma_acc>
  // expected-error@+1 {{T-M23: rows are shared out over work items of a cluster, in shared memory}}
  tile.store_transposed %t, %y[%n, %n] across 2 : !tile.tile<16x8xf32, mma_acc>, !tile.view<?x16xf32>
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  %zero = arith.constant 0.0 : f32
  %acc = tile.fill %zero : f32 -> !tile.tile<16x64xf32, mma_acc>
  // expected-error@+1 {{T-A20: an accumulator of 16, 32 or 128 columns gives}}
  %r = tile.to_operand %acc : !tile.tile<16x64xf32, mma_acc> -> !tile.tile<16x64xf16, mma_a>
  tile.return
}

// -----

tile.kernel @bad(%i: index) attributes {family = "f", schedule = {}} {
  %codes = tile.alloc : !tile.view<128x64xi8, shared>
  // expected-error@+1 {{T-A16: e2m1 has scales and a table or a product, e4m3 has none of them}}
  %k = tile.load_cached %codes[%i] format e2m1 : !tile.view<128x64xi8, shared> -> !tile.tile<128x16xf16, mma_b>
  tile.return
}

// -----

tile.kernel @bad(%i: index) attributes {family = "f", schedule = {}} {
  %codes = tile.alloc : !tile.view<128x128xi8, shared>
  // expected-error@+1 {{T-A19: values have a limit, keys have none}}
  %k = tile.load_cached %codes[%i] format e4m3 : !tile.view<128x128xi8, shared> -> !tile.tile<16x128xf16, mma_b>
  tile.return
}

// -----

tile.kernel @bad(%i: index) attributes {family = "f", schedule = {}} {
  %t = tile.alloc : !tile.view<128x8xi8, shared>
  // expected-error@+1 {{T-A14: a table is 256x8 bytes in shared memory}}
  tile.code_table %t : !tile.view<128x8xi8, shared>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<4x4xi32>, %i: index) attributes {family = "f", schedule = {}} {
  %n = tile.iota : !tile.tile<1x16xi32>
  // expected-error@+1 {{T-M18: a view of one dimension and an index into it expected}}
  %g = tile.gather %x[%i] at %n : !tile.view<4x4xi32>, !tile.tile<1x16xi32> -> !tile.tile<1x16xi32>
  tile.return
}

// -----

tile.kernel @bad(%i: index) attributes {family = "f", schedule = {}} {
  %codes = tile.alloc : !tile.view<128x64xi8, shared>
  %scales = tile.alloc : !tile.view<1024xi8, shared>
  // expected-error@+1 {{T-A22: a product is 'multiply' or 'detour', of keys also 'exact', found 'exact'}}
  %v = tile.load_cached %codes[%i] scales %scales : !tile.view<1024xi8, shared> product "exact" limit %i format e2m1 : !tile.view<128x64xi8, shared> -> !tile.tile<16x128xf16, mma_b>
  tile.return
}

// -----

tile.kernel @bad(%q: !tile.view<?x128xi8>, %i: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-M27: rows of f32 or i16 give an FP16 operand in layout mma_b}}
  %b = tile.load_groups %q[%i, %i] limit %i : !tile.view<?x128xi8> -> !tile.tile<128x8xf16, mma_b>
  tile.return
}

// -----

tile.kernel @bad(%q: !tile.view<?x128xf32>, %i: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-M28: a row and a column expected, found 1}}
  %b = tile.load_groups %q[%i] limit %i : !tile.view<?x128xf32> -> !tile.tile<128x8xf16, mma_b>
  tile.return
}

// -----

tile.kernel @bad(%q: !tile.view<?x128xf32>, %i: index) attributes {family = "f", schedule = {}} {
  %codes = tile.alloc : !tile.view<128x64xi8, shared>
  %scales = tile.alloc : !tile.view<512xi8, shared>
  %b = tile.load_groups %q[%i, %i] limit %i : !tile.view<?x128xf32> -> !tile.tile<128x8xf16, mma_b>
  // expected-error@+1 {{T-A23: }}
  %s = tile.mma_groups %codes[%i] scales %scales with %b : !tile.view<128x64xi8, shared>, !tile.view<512xi8, shared>, !tile.tile<128x8xf16, mma_b> -> !tile.tile<16x8xf32, mma_acc>
  tile.return
}

// -----

tile.kernel @bad(%q: !tile.view<?x128xf32>, %i: index) attributes {family = "f", schedule = {}} {
  %codes = tile.alloc : !tile.view<128x64xi8, shared>
  %scales = tile.alloc : !tile.view<1024xi8, shared>
  %b = tile.load_groups %q[%i, %i] limit %i : !tile.view<?x128xf32> -> !tile.tile<128x8xf16, mma_b>
  // expected-error@+1 {{T-A21: an accumulator of 16 rows and the queries' columns expected}}
  %s = tile.mma_groups %codes[%i] scales %scales with %b : !tile.view<128x64xi8, shared>, !tile.view<1024xi8, shared>, !tile.tile<128x8xf16, mma_b> -> !tile.tile<16x16xf32, mma_acc>
  tile.return
}
