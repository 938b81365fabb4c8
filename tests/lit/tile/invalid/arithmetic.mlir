// Rules of register tiles: regions, products, codes.
// RUN: m3-opt %s -split-input-file -verify-diagnostics

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  %t = tile.iota : !tile.tile<1x16xi32>
  // expected-error@+1 {{T-E1: the region has one argument per operand}}
  %m = tile.map (%t : !tile.tile<1x16xi32>) -> !tile.tile<1x16xi32> {
  ^bb0(%a: i32, %b: i32):
    tile.yield %a : i32
  }
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  %t = tile.iota : !tile.tile<1x16xi32>
  // expected-error@+1 {{T-E2: region argument 'f32'}}
  %m = tile.map (%t : !tile.tile<1x16xi32>) -> !tile.tile<1x16xf32> {
  ^bb0(%a: f32):
    tile.yield %a : f32
  }
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  %t = tile.iota : !tile.tile<1x16xi32>
  // expected-error@+1 {{T-E4: the region yields one 'f32'}}
  %m = tile.map (%t : !tile.tile<1x16xi32>) -> !tile.tile<1x16xf32> {
  ^bb0(%a: i32):
    tile.yield %a : i32
  }
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  %t = tile.iota : !tile.tile<1x16xi32>
  // expected-error@+1 {{T-E7: an element of}}
  %e = tile.extract %t[0, 0] : !tile.tile<1x16xi32> -> f32
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  %c = arith.constant true
  %t = tile.fill %c : i1 -> !tile.tile<1x16xi1>
  // expected-error@+1 {{T-E14: conditions in layout mma_rows, or of one row in layout lane_rows}}
  %any = tile.any %t : !tile.tile<1x16xi1>
  tile.return
}

// -----

tile.kernel @bad(%a: !tile.view<?x16xi32>, %n: index) attributes {family = "f", schedule = {}} {
  %zero = arith.constant 0.0 : f32
  %x = tile.fill %zero : f32 -> !tile.tile<4x1xf32>
  %w = tile.load %a[%n, %n] sizes [1, 16] : !tile.view<?x16xi32> -> !tile.tile<1x16xi32>
  %acc = tile.fill %zero : f32 -> !tile.tile<4x16xf32>
  // expected-error@+1 {{T-A2: operands and accumulator are f32}}
  %y = tile.mma %x, %w, %acc : !tile.tile<4x1xf32>, !tile.tile<1x16xi32>, !tile.tile<4x16xf32> -> !tile.tile<4x16xf32>
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  %zero = arith.constant 0.0 : f32
  %x = tile.fill %zero : f32 -> !tile.tile<4x8xf32>
  %acc = tile.fill %zero : f32 -> !tile.tile<4x16xf32>
  // expected-error@+1 {{T-A3: '!tile.tile<4x8xf32>' does not broadcast to '!tile.tile<4x16xf32>'}}
  %y = tile.fma %x, %acc, %acc : !tile.tile<4x8xf32>, !tile.tile<4x16xf32>, !tile.tile<4x16xf32> -> !tile.tile<4x16xf32>
  tile.return
}

// -----

tile.kernel @bad(%a: !tile.view<?x16xi32>, %n: index) attributes {family = "f", schedule = {}} {
  %w = tile.load %a[%n, %n] sizes [1, 16] : !tile.view<?x16xi32> -> !tile.tile<1x16xi32>
  // expected-error@+1 {{T-A4: i32 words give f32 values of the same shape}}
  %y = tile.dequant_words %w[%n] format e4m3 : !tile.tile<1x16xi32> -> !tile.tile<1x32xf32>
  tile.return
}

// -----

tile.kernel @bad(%a: !tile.view<?x16xi32>, %n: index) attributes {family = "f", schedule = {}} {
  %zero = arith.constant 0.0 : f32
  %w = tile.load %a[%n, %n] sizes [1, 16] : !tile.view<?x16xi32> -> !tile.tile<1x16xi32>
  %s = tile.fill %zero : f32 -> !tile.tile<1x1xf32>
  // expected-error@+1 {{T-A5: the scale is}}
  %y = tile.dequant_words %w[%n] scale %s : !tile.tile<1x1xf32> format e4m3 : !tile.tile<1x16xi32> -> !tile.tile<1x16xf32>
  tile.return
}

// -----

tile.kernel @bad(%a: !tile.view<?x32x4xi32>, %n: index) attributes {family = "f", schedule = {}} {
  %w = tile.load %a[%n, %n, %n] sizes [1, 32, 4] : !tile.view<?x32x4xi32> -> !tile.tile<32x4xi32, per_lane>
  // expected-error@+1 {{T-A13: f32 gives a tile of f32, other formats one of bf16}}
  %y = tile.dequant_fragment %w format e2m1 : !tile.tile<32x4xi32, per_lane> -> !tile.tile<16x64xf32, mma_a>
  tile.return
}

// -----

// expected-error@+1 {{T-K1: a kernel returns nothing}}
tile.kernel @bad() -> f32 attributes {family = "f", schedule = {}} {
  tile.return
}

// -----

// expected-error@+1 {{T-V1: a view has at least one dimension}}
func.func private @bad() -> !tile.view<f32>

// -----

tile.kernel @bad(%x: !tile.view<?x16xf32>, %n: index) attributes {family = "f", schedule = {}} {
  %v = tile.load %x[%n, %n] sizes [1, 16] : !tile.view<?x16xf32> -> !tile.tile<1x16xf32>
  // expected-error@+1 {{T-E3: '!tile.tile<1x16xf32>' does not broadcast to '!tile.tile<1x8xf32>'}}
  %y = tile.map (%v : !tile.tile<1x16xf32>) -> !tile.tile<1x8xf32> {
  ^bb0(%p: f32):
    tile.yield %p : f32
  }
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x16xf32>, %n: index) attributes {family = "f", schedule = {}} {
  %v = tile.load %x[%n, %n] sizes [1, 16] : !tile.view<?x16xf32> -> !tile.tile<1x16xf32>
  // expected-error@+1 {{T-E5:}}
  %y = tile.reduce add %v : !tile.tile<1x16xf32> -> !tile.tile<1x2xf32>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x16xf32>, %n: index) attributes {family = "f", schedule = {}} {
  %v = tile.load %x[%n, %n] sizes [1, 16] : !tile.view<?x16xf32> -> !tile.tile<1x16xf32>
  // expected-error@+1 {{T-E6: coordinates outside}}
  %y = tile.extract %v[0, 16] : !tile.tile<1x16xf32> -> f32
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x16xf32>, %n: index) attributes {family = "f", schedule = {}} {
  %v = tile.load %x[%n, %n] sizes [1, 16] : !tile.view<?x16xf32> -> !tile.tile<1x16xf32>
  // expected-error@+1 {{T-E8:}}
  %y = tile.reshape %v : !tile.tile<1x16xf32> -> !tile.tile<3x5xf32>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x16xf32>, %n: index) attributes {family = "f", schedule = {}} {
  %v = tile.load %x[%n, %n] sizes [1, 16] : !tile.view<?x16xf32> -> !tile.tile<1x16xf32>
  // expected-error@+1 {{T-E9:}}
  %y = tile.slice %v[0, 8] : !tile.tile<1x16xf32> -> !tile.tile<1x16xf32>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x16xf32>, %n: index) attributes {family = "f", schedule = {}} {
  %v = tile.load %x[%n, %n] sizes [1, 16] : !tile.view<?x16xf32> -> !tile.tile<1x16xf32>
  %u = tile.load %x[%n, %n] sizes [4, 1] : !tile.view<?x16xf32> -> !tile.tile<4x1xf32>
  // expected-error@+1 {{T-A1: shapes}}
  %z = tile.mma %u, %v, %v : !tile.tile<4x1xf32>, !tile.tile<1x16xf32>, !tile.tile<1x16xf32> -> !tile.tile<1x16xf32>
  tile.return
}

// -----

tile.kernel @bad(%a: !tile.view<?x16xi32>, %n: index) attributes {family = "f", schedule = {}} {
  %x = tile.load %a[%n, %n] sizes [1, 16] : !tile.view<?x16xi32> -> !tile.tile<1x16xi32>
  // expected-error@+1 {{T-A6: e8m0 is a scale format}}
  %y = tile.dequant_words %x[%n] format e8m0 : !tile.tile<1x16xi32> -> !tile.tile<1x16xf32>
  tile.return
}

// -----

tile.kernel @bad(%a: !tile.view<?x16xi32>, %n: index) attributes {family = "f", schedule = {}} {
  %x = tile.load %a[%n, %n] sizes [1, 16] : !tile.view<?x16xi32> -> !tile.tile<1x16xi32>
  // expected-error@+1 {{T-A6: ue4m3 is a scale format}}
  %y = tile.dequant_words %x[%n] format ue4m3 : !tile.tile<1x16xi32> -> !tile.tile<1x16xf32>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x16xf32>, %n: index) attributes {family = "f", schedule = {}} {
  %v = tile.load %x[%n, %n] sizes [1, 16] : !tile.view<?x16xf32> -> !tile.tile<1x16xf32>
  // expected-error@+1 {{T-A7: e4m3 codes are i8}}
  %y = tile.encode %v format e4m3 : !tile.tile<1x16xf32> -> !tile.tile<1x16xi16>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x32xf32>, %n: index) attributes {family = "f", schedule = {}} {
  %v = tile.load %x[%n, %n] sizes [1, 32] : !tile.view<?x32xf32> -> !tile.tile<1x32xf32>
  // expected-error@+1 {{T-A8: a group is 8 bytes}}
  %c, %s = tile.quant_group %v : !tile.tile<1x32xf32> -> !tile.tile<1x16xi8>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x32xf32>, %n: index) attributes {family = "f", schedule = {}} {
  %v = tile.load %x[%n, %n] sizes [1, 32] : !tile.view<?x32xf32> -> !tile.tile<1x32xf32>
  // expected-error@+1 {{T-A24: N groups are}}
  %c, %s = tile.quant_groups %v : !tile.tile<1x32xf32> -> !tile.tile<1x16xi8>, !tile.tile<1x4xi8>
  tile.return
}

// -----

tile.kernel @bad(%n: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-E10: one row of i32 expected}}
  %i = tile.iota : !tile.tile<2x16xi32>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x16xf32>, %n: index) attributes {family = "f", schedule = {}} {
  %v = tile.load %x[%n, %n] sizes [1, 16] : !tile.view<?x16xf32> -> !tile.tile<1x16xf32>
  // expected-error@+1 {{T-E11:}}
  %y = tile.transpose %v : !tile.tile<1x16xf32> -> !tile.tile<1x16xf32>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x16xf32>, %n: index) attributes {family = "f", schedule = {}} {
  %v = tile.load %x[%n, %n] sizes [1, 16] : !tile.view<?x16xf32> -> !tile.tile<1x16xf32>
  // expected-error@+1 {{T-E12: 2 rows stand in}}
  %y = tile.stack %v, %v : !tile.tile<1x16xf32>, !tile.tile<1x16xf32> -> !tile.tile<3x16xf32>
  tile.return
}

// -----

tile.kernel @bad(%w: !tile.view<1x1x32x4xi32>, %i: index) attributes {family = "f", schedule = {}} {
  %t = tile.load %w[%i, %i, %i, %i] sizes [1, 1, 32, 4] : !tile.view<1x1x32x4xi32> -> !tile.tile<32x4xi32, per_lane>
  // expected-error@+1 {{T-A12: e4m3 and e2m1 have scales, bf16 and f32 have none}}
  %a = tile.dequant_fragment %t format e2m1 : !tile.tile<32x4xi32, per_lane> -> !tile.tile<16x64xbf16, mma_a>
  tile.return
}

// -----

tile.kernel @bad(%w: !tile.view<1x1x32x4xi32>, %i: index) attributes {family = "f", schedule = {}} {
  %t = tile.load %w[%i, %i, %i, %i] sizes [1, 1, 32, 4] : !tile.view<1x1x32x4xi32> -> !tile.tile<32x4xi32, per_lane>
  // expected-error@+1 {{T-A11: 16 words of i32 in each lane give a tile in layout mma_a}}
  %a = tile.dequant_fragment %t format bf16 : !tile.tile<32x4xi32, per_lane> -> !tile.tile<16x64xbf16, mma_a>
  tile.return
}

// -----

tile.kernel @bad(%w: !tile.view<1x1x32x4xi32>, %i: index) attributes {family = "f", schedule = {}} {
  %t = tile.load %w[%i, %i, %i, %i] sizes [1, 1, 32, 4] : !tile.view<1x1x32x4xi32> -> !tile.tile<32x4xi32, per_lane>
  // expected-error@+1 {{T-A10: f32, bf16, e4m3 or e2m1 expected}}
  %a = tile.dequant_fragment %t format e8m0 : !tile.tile<32x4xi32, per_lane> -> !tile.tile<16x64xbf16, mma_a>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x64xi16>, %i: index, %n: !tile.view<16xf32>) attributes {family = "f", schedule = {}} {
  %zero = arith.constant 0.0 : f32
  %acc = tile.fill %zero : f32 -> !tile.tile<16x8xf32, mma_acc>
  %b = tile.load %x[%i, %i] sizes [16, 64] : !tile.view<?x64xi16> -> !tile.tile<64x16xbf16, mma_b>
  // expected-error@+1 {{T-A9: layouts mma_a, mma_b and mma_acc of equal K, columns and operand}}
  %r = tile.mma %b, %b, %acc : !tile.tile<64x16xbf16, mma_b>, !tile.tile<64x16xbf16, mma_b>, !tile.tile<16x8xf32, mma_acc> -> !tile.tile<16x8xf32, mma_acc>
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  %zero = arith.constant 0.0 : f32
  %acc = tile.fill %zero : f32 -> !tile.tile<16x16xf32, mma_acc>
  // expected-error@+1 {{T-E13: an accumulator gives its rows with max, its columns with max_or_nan}}
  %r = tile.reduce add %acc : !tile.tile<16x16xf32, mma_acc> -> !tile.tile<16x1xf32, mma_rows>
  tile.return
}
