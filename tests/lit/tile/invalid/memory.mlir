// Rules of views and of what is loaded from them and stored to them.
// RUN: m3-opt %s -split-input-file -verify-diagnostics

tile.kernel @bad(%x: !tile.view<?x16xf32>, %n: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-M1: an allocation is a shared view of constant shape}}
  %a = tile.alloc : !tile.view<4x16xf32>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x16xf32>, %n: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-M2: the source is a one-dimensional array of bytes}}
  %a = tile.reinterpret %x[%n] : !tile.view<?x16xf32> -> !tile.view<4xf32>
  tile.return
}

// -----

tile.kernel @bad(%p: !tile.view<?xi8>, %n: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-M3: source and result live in the same space}}
  %a = tile.reinterpret %p[%n] : !tile.view<?xi8> -> !tile.view<4xf32, shared>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x16xf32>, %n: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-M4: 2 indices expected, found 1}}
  %a = tile.load %x[%n] sizes [1, 16] : !tile.view<?x16xf32> -> !tile.tile<1x16xf32>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x4x16xf32>, %n: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-M5: the box is not a run of equal contiguous chunks}}
  %a = tile.load %x[%n, %n, %n] sizes [2, 2, 8] : !tile.view<?x4x16xf32> -> !tile.tile<4x8xf32>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x16xf32>, %n: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-M6: size 17 of dimension 1 does not fit}}
  %a = tile.load %x[%n, %n] sizes [1, 17] : !tile.view<?x16xf32> -> !tile.tile<1x17xf32>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x16xf32>, %n: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-M7: the box has 16 elements}}
  %a = tile.load %x[%n, %n] sizes [1, 16] : !tile.view<?x16xf32> -> !tile.tile<1x8xf32>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x16xf32>, %n: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-M8: element types differ}}
  %a = tile.load %x[%n, %n] sizes [1, 16] : !tile.view<?x16xf32> -> !tile.tile<1x16xi32>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x16xf32>, %n: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-M9: a scalar of}}
  %a = tile.load_scalar %x[%n, %n] : !tile.view<?x16xf32> -> i32
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x128xf32>, %i: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-M29: part 0 or 1 of f32 rows as a left operand of f16 expected, found 2 of}}
  %a = tile.load %x[%i, %i] sizes [16, 128] part 2 : !tile.view<?x128xf32> -> !tile.tile<16x128xf16, mma_a>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x64xi16>, %i: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-M11: '!tile.tile<64x8xbf16, mma_b>' is a box of rows of K elements}}
  %b = tile.load %x[%i, %i] sizes [16, 32] : !tile.view<?x64xi16> -> !tile.tile<64x8xbf16, mma_b>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x8xi32>, %i: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-M10: '!tile.tile<32x4xi32, per_lane>' is a contiguous box}}
  %w = tile.load %x[%i, %i] sizes [32, 4] : !tile.view<?x8xi32> -> !tile.tile<32x4xi32, per_lane>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x16xf32>, %i: index) attributes {family = "f", schedule = {}} {
  %t = tile.load %x[%i, %i] sizes [1, 16] : !tile.view<?x16xf32> -> !tile.tile<1x16xf32>
  // expected-error@+1 {{T-M12: an accumulator and a view of f32 expected}}
  tile.store_transposed %t, %x[%i, %i] : !tile.tile<1x16xf32>, !tile.view<?x16xf32>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<4xf32>, %i: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-M13: a counter is an i32 of global memory}}
  %last = tile.arrive %x[%i] of %i : !tile.view<4xf32>
  tile.return
}
