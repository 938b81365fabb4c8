// One case per constraint label of the dialect.
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

// expected-error@+1 {{T-V3: 'f16' is no element type of a view}}
func.func private @bad() -> !tile.view<4xf16>

// -----

// expected-error@+1 {{T-R1: a ring has at least one stage}}
func.func private @bad() -> !tile.ring<0, 4x16xf32>

// -----

// expected-error@+1 {{T-K2: parameter 0 must be a global view or an index}}
tile.kernel @bad(%x: f32) attributes {family = "f", schedule = {}} {

  tile.return
}

// -----

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

tile.kernel @bad(%n: index) attributes {family = "f", schedule = {}} {
  %ring = tile.ring : !tile.ring<2, 4xf32>
  // expected-error@+1 {{T-R2: a stage of}}
  %s = tile.acquire %ring : !tile.ring<2, 4xf32> -> !tile.view<5xf32, shared>
  tile.return
}

// -----

// A stage that nothing waits for: the copy would never be seen to arrive.
tile.kernel @bad(%n: index) attributes {family = "f", schedule = {}} {
  %ring = tile.ring : !tile.ring<2, 4xf32>
  // expected-error@+1 {{T-P1: a ring needs acquire, commit, wait and release}}
  tile.pipeline %k = %n to %n step %n {
    tile.role "fill" {
      %stage = tile.acquire %ring : !tile.ring<2, 4xf32> -> !tile.view<4xf32, shared>
      tile.commit %ring : !tile.ring<2, 4xf32>
    }
  }
  tile.return
}

// -----

// A consumer before its producer waits for ever.
tile.kernel @bad(%n: index) attributes {family = "f", schedule = {}} {
  %ring = tile.ring : !tile.ring<2, 4xf32>
  // expected-error@+1 {{T-P1: a ring is drained by a later role than the one that fills it}}
  tile.pipeline %k = %n to %n step %n {
    tile.role "use" {
      %stage = tile.wait %ring : !tile.ring<2, 4xf32> -> !tile.view<4xf32, shared>
      tile.release %ring : !tile.ring<2, 4xf32>
    }
    tile.role "fill" {
      %stage = tile.acquire %ring : !tile.ring<2, 4xf32> -> !tile.view<4xf32, shared>
      tile.commit %ring : !tile.ring<2, 4xf32>
    }
  }
  tile.return
}

// -----

tile.kernel @bad(%n: index) attributes {family = "f", schedule = {}} {
  %ring = tile.ring : !tile.ring<2, 4xf32>
  tile.pipeline %k = %n to %n step %n {
    tile.role "fill" {
      tile.commit %ring : !tile.ring<2, 4xf32>
      // expected-error@+1 {{T-P2: a second one for the same ring}}
      tile.commit %ring : !tile.ring<2, 4xf32>
    }
  }
  tile.return
}

// -----

tile.kernel @bad(%n: index) attributes {family = "f", schedule = {}} {
  tile.pipeline %k = %n to %n step %n {
    // expected-error@+1 {{T-P3: only roles stand in a pipeline}}
    %c = arith.constant 0 : index
  }
  tile.return
}

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
  // expected-error@+1 {{T-A9: N groups are}}
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

// expected-error@+1 {{T-T3: 16x24 is no tile in layout mma_a}}
func.func private @bad() -> !tile.tile<16x24xbf16, mma_a>

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

// -----

tile.kernel @bad(%x: !tile.view<4xf32>, %i: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-M13: a counter is an i32 of global memory}}
  %last = tile.arrive %x[%i] of %i : !tile.view<4xf32>
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}, warps = 3} {
  // expected-error@+1 {{T-S1: the roles have 2 warps, the kernel has 3}}
  tile.roles {
    tile.role "a" warps = 1 {
    }
    tile.role "b" warps = 1 {
    }
  }
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}, warps = 1} {
  tile.roles {
    // expected-error@+1 {{T-S2: registers are multiples of 8 from 24 to 256, found 30}}
    tile.role "a" warps = 1 registers = 30 {
    }
  }
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}, warps = 8, residents = 1} {
  // expected-error@+1 {{T-S2: registers stand on every role or on none}}
  tile.roles {
    tile.role "a" warps = 4 registers = 256 {
    }
    tile.role "b" warps = 4 {
    }
  }
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}, warps = 4} {
  // expected-error@+1 {{T-S2: the kernel has no 'residents'}}
  tile.roles {
    tile.role "a" warps = 4 registers = 24 {
    }
  }
  tile.return
}

// -----

tile.kernel @bad(%n: index) attributes {family = "f", schedule = {}, warps = 4, residents = 1} {
  scf.for %i = %n to %n step %n {
    // expected-error@+1 {{T-S4: registers are given once, not in a loop}}
    tile.roles {
      tile.role "a" warps = 4 registers = 24 {
      }
    }
  }
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}, warps = 4, residents = 1} {
  // expected-error@+1 {{T-S4: other roles of the kernel are given registers as well}}
  tile.roles {
    tile.role "a" warps = 4 registers = 24 {
    }
  }
  tile.roles {
    tile.role "a" warps = 4 registers = 24 {
    }
  }
  tile.return
}

// -----

tile.kernel @bad(%i: index) attributes {family = "f", schedule = {}, warps = 2} {
  %ring = tile.ring async 1 : !tile.ring<2, 16xi8>
  // expected-error@+1 {{T-S3: a ring is filled by one role and drained by one other}}
  tile.roles {
    tile.role "a" warps = 1 {
      %stage = tile.acquire %ring[%i] : !tile.ring<2, 16xi8> -> !tile.view<16xi8, shared>
      tile.commit %ring[%i] : !tile.ring<2, 16xi8>
    }
    tile.role "b" warps = 1 {
    }
  }
  tile.return
}

// -----

tile.kernel @bad(%i: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-R3: stages of an asynchronous ring are multiples of 16 bytes}}
  %ring = tile.ring async 1 : !tile.ring<2, 17xi8>
  tile.return
}

// -----

tile.kernel @ring_of_turns(%i: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-R8: 3 groups wait for the uses of an asynchronous ring in turn, so it has as many stages or more, not 2}}
  %ring = tile.ring async 1 turns 3 : !tile.ring<2, 16xi8>
  tile.return
}

// -----

tile.kernel @bad(%i: index) attributes {family = "f", schedule = {}} {
  %ring = tile.ring async 1 : !tile.ring<2, 16xi8>
  // expected-error@+1 {{T-R4: the uses of a ring are numbered if it is asynchronous}}
  tile.release %ring : !tile.ring<2, 16xi8>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?xi8>, %i: index) attributes {family = "f", schedule = {}} {
  %ring = tile.ring : !tile.ring<2, 16xi8>
  // expected-error@+1 {{T-R5: only the stages of an asynchronous ring are filled by copies}}
  tile.fill_stage %ring[%i] from %x[%i] : !tile.ring<2, 16xi8>, !tile.view<?xi8>
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  %ring = tile.ring async 1 : !tile.ring<2, 16xi8>
  // expected-error@+1 {{T-R7: '!tile.view<33xi8, shared>' does not fit the memory of}}
  %m = tile.ring_memory %ring : !tile.ring<2, 16xi8> -> !tile.view<33xi8, shared>
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

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  %zero = arith.constant 0.0 : f32
  %acc = tile.fill %zero : f32 -> !tile.tile<16x64xf32, mma_acc>
  // expected-error@+1 {{T-A20: an accumulator of 16 or 32 columns gives}}
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
  // expected-error@+1 {{T-M22: rows of f32 or i16 give an FP16 operand in layout mma_b}}
  %b = tile.load_groups %q[%i, %i] limit %i : !tile.view<?x128xi8> -> !tile.tile<128x8xf16, mma_b>
  tile.return
}

// -----

tile.kernel @bad(%q: !tile.view<?x128xf32>, %i: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-M23: a row and a column expected, found 1}}
  %b = tile.load_groups %q[%i] limit %i : !tile.view<?x128xf32> -> !tile.tile<128x8xf16, mma_b>
  tile.return
}

// -----

tile.kernel @bad(%q: !tile.view<?x128xf32>, %i: index) attributes {family = "f", schedule = {}} {
  %codes = tile.alloc : !tile.view<128x64xi8, shared>
  %scales = tile.alloc : !tile.view<512xi8, shared>
  %b = tile.load_groups %q[%i, %i] limit %i : !tile.view<?x128xf32> -> !tile.tile<128x8xf16, mma_b>
  // expected-error@+1 {{T-A20: }}
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
