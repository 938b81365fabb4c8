// Rules of types, kernels and places.
// RUN: m3-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{T-T1: a tile has at least one row and one column}}
func.func private @bad() -> !tile.tile<0x16xf32>

// -----

// expected-error@+1 {{T-T2: 'f16' is no element type of a tile}}
func.func private @bad() -> !tile.tile<1x16xf16>

// -----

// expected-error@+1 {{T-V2: dimension 1 of a view must be a positive constant}}
func.func private @bad() -> !tile.view<4x?xf32>

// -----

// expected-error@+1 {{T-V4: the constant dimensions of a view have at most 1125899906842624 bytes}}
func.func private @bad() -> !tile.view<?x9223372036854775807xf32>

// -----

// expected-error@+1 {{T-V4: the constant dimensions of a view have at most 1125899906842624 bytes}}
func.func private @bad() -> !tile.ring<1000000000000000, 4x16xf32>

// -----

// expected-error@+1 {{T-V3: 'f16' is no element type of a view}}
func.func private @bad() -> !tile.view<4xf16>

// -----

// expected-error@+1 {{T-K2: parameter 0 must be a global view or an index}}
tile.kernel @bad(%x: f32) attributes {family = "f", schedule = {}} {

  tile.return
}

// -----

// expected-error@+1 {{T-T3: 16x24 is no tile in layout mma_a}}
func.func private @bad() -> !tile.tile<16x24xbf16, mma_a>

// -----

// expected-error@+1 {{T-K3: a cluster has at least one work item, found 0}}
tile.kernel @bad() attributes {family = "f", schedule = {}, cluster = 0} {
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-K4: stands in a kernel without 'cluster'}}
  tile.cluster_barrier
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<4xf32>, %i: index) attributes {family = "f", schedule = {}, cluster = 2} {
  // expected-error@+1 {{T-K5: work items reach each other's shared memory}}
  %p = tile.peer %x[%i] : !tile.view<4xf32>
  tile.return
}
