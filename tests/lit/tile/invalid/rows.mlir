// Rules of rows of integers and of listed rows.
// RUN: m3-opt %s -split-input-file -verify-diagnostics

tile.kernel @bad(%x: !tile.view<?x64xi16>, %l: !tile.view<?xi32>, %i: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-M21: a list of i32 and a positive divisor expected}}
  %b = tile.load_rows %x[%i] by %l[%i] per 0 limit %i : !tile.view<?x64xi16>, !tile.view<?xi32> -> !tile.tile<64x8xbf16, mma_b>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x64xf32>, %l: !tile.view<?xi32>, %i: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-M20: rows of i16 give a tile in layout mma_b}}
  %b = tile.load_rows %x[%i] by %l[%i] per 2 limit %i : !tile.view<?x64xf32>, !tile.view<?xi32> -> !tile.tile<64x8xbf16, mma_b>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?xf32>, %i: index) attributes {family = "f", schedule = {}} {
  %t = tile.load %x[%i] sizes [16] : !tile.view<?xf32> -> !tile.tile<1x16xf32>
  // expected-error@+1 {{T-E15: one row of i32 expected}}
  %s = tile.scan %t : !tile.tile<1x16xf32>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?xf32>, %i: index) attributes {family = "f", schedule = {}} {
  %t = tile.iota : !tile.tile<1x16xi32>
  // expected-error@+1 {{T-M22: one row of i32 goes to a view of i32}}
  tile.scatter %t at %t, %x[%i] : !tile.tile<1x16xi32>, !tile.view<?xf32>
  tile.return
}
