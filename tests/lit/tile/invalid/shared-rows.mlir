// Constraints of products with rows in shared memory.
// RUN: m3-opt %s -split-input-file -verify-diagnostics

tile.kernel @bad(%x: !tile.view<?x96xi16>, %stages: !tile.view<?x128x64xi16>) attributes {family = "f", schedule = {}} {
  %c0 = arith.constant 0 : index
  // expected-error@+1 {{T-G1: rows of BF16 codes (i16), a multiple of 64 in each, expected}}
  tile.pack_rows %x[%c0, %c0] limit %c0, %stages[%c0, %c0] count 16 : !tile.view<?x96xi16>, !tile.view<?x128x64xi16>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x64xi16>, %stages: !tile.view<?x96x64xi16>) attributes {family = "f", schedule = {}} {
  %c0 = arith.constant 0 : index
  // expected-error@+1 {{T-G2: stages of 64, 128 or 256 rows of 64 codes}}
  tile.pack_rows %x[%c0, %c0] limit %c0, %stages[%c0, %c0] count 16 : !tile.view<?x64xi16>, !tile.view<?x96x64xi16>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x64xi16>, %stages: !tile.view<?x64x64xi16>) attributes {family = "f", schedule = {}} {
  %c0 = arith.constant 0 : index
  // expected-error@+1 {{T-G5: a count of rows that is a multiple of 8, at most 64, expected, found 12}}
  tile.pack_rows %x[%c0, %c0] limit %c0, %stages[%c0, %c0] count 12 : !tile.view<?x64xi16>, !tile.view<?x64x64xi16>
  tile.return
}

// -----

tile.kernel @bad(%stage: !tile.view<128x64xi16>, %a: !tile.view<?x64xi16>) attributes {family = "f", schedule = {}} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %left = tile.load %a[%c0, %c0] sizes [16, 64] : !tile.view<?x64xi16> -> !tile.tile<16x64xbf16, mma_a>
  %acc = tile.fill %zero : f32 -> !tile.tile<16x128xf32, mma_acc>
  // expected-error@+1 {{T-G2: a stage of 64, 128 or 256 rows of 64 codes (i16) in shared memory expected}}
  %s = tile.mma_shared %left, %stage, %acc : !tile.tile<16x64xbf16, mma_a>, !tile.view<128x64xi16>, !tile.tile<16x128xf32, mma_acc>
  tile.return
}

// -----

tile.kernel @bad(%a: !tile.view<?x64xf32>) attributes {family = "f", schedule = {}} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %stage = tile.alloc : !tile.view<128x64xi16, shared>
  %left = tile.load %a[%c0, %c0] sizes [16, 64] : !tile.view<?x64xf32> -> !tile.tile<16x64xf16, mma_a>
  %acc = tile.fill %zero : f32 -> !tile.tile<16x128xf32, mma_acc>
  // expected-error@+1 {{T-G6: a left operand of 16 rows and 64 k in BF16 expected}}
  %s = tile.mma_shared %left, %stage, %acc : !tile.tile<16x64xf16, mma_a>, !tile.view<128x64xi16, shared>, !tile.tile<16x128xf32, mma_acc>
  tile.return
}

// -----

tile.kernel @bad(%a: !tile.view<?x64xi16>) attributes {family = "f", schedule = {}} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %stage = tile.alloc : !tile.view<128x64xi16, shared>
  %left = tile.load %a[%c0, %c0] sizes [16, 64] : !tile.view<?x64xi16> -> !tile.tile<16x64xbf16, mma_a>
  %acc = tile.fill %zero : f32 -> !tile.tile<16x64xf32, mma_acc>
  // expected-error@+1 {{T-G7: an accumulator of 16 rows and 128 columns expected}}
  %s = tile.mma_shared %left, %stage, %acc : !tile.tile<16x64xbf16, mma_a>, !tile.view<128x64xi16, shared>, !tile.tile<16x64xf32, mma_acc>
  tile.return
}

// -----

tile.kernel @bad(%a: !tile.view<?x64xi16>, %y: !tile.view<?x64xf32>) attributes {family = "f", schedule = {}} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %stage = tile.alloc : !tile.view<128x64xi16, shared>
  %left = tile.load %a[%c0, %c0] sizes [16, 64] : !tile.view<?x64xi16> -> !tile.tile<16x64xbf16, mma_a>
  %acc = tile.fill %zero : f32 -> !tile.tile<16x128xf32, mma_acc>
  // expected-error@+1 {{T-G3: tile.store_transposed takes sums of products under way; wait for them with tile.mma_wait}}
  %s = tile.mma_shared %left, %stage, %acc : !tile.tile<16x64xbf16, mma_a>, !tile.view<128x64xi16, shared>, !tile.tile<16x128xf32, mma_acc>
  tile.store_transposed %s, %y[%c0, %c0] : !tile.tile<16x128xf32, mma_acc>, !tile.view<?x64xf32>
  tile.return
}

// -----

tile.kernel @bad(%a: !tile.view<?x64xi16>) attributes {family = "f", schedule = {}} {
  %zero = arith.constant 0.0 : f32
  %acc = tile.fill %zero : f32 -> !tile.tile<16x128xf32, mma_acc>
  // expected-error@+1 {{T-G4: leaves 2 products under way, at most one}}
  %s = tile.mma_wait %acc leaves 2 : !tile.tile<16x128xf32, mma_acc>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x64xi16>, %stages: !tile.view<?x128x64xi16>, %list: !tile.view<?xi32>, %n: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-G8: a list of i32 and a positive divisor expected}}
  tile.pack_rows %x[%n, %n] by %list[%n] per 0 limit %n, %stages[%n, %n] count 16 : !tile.view<?x64xi16>, !tile.view<?x128x64xi16>, !tile.view<?xi32>
  tile.return
}

// -----

tile.kernel @bad(%a: !tile.view<?x128xf32>) attributes {family = "f", schedule = {}} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %keys = tile.alloc : !tile.view<2x128x64xi16, shared>
  %left = tile.load %a[%c0, %c0] sizes [16, 128] : !tile.view<?x128xf32> -> !tile.tile<16x128xf16, mma_a>
  %acc = tile.fill %zero : f32 -> !tile.tile<16x128xf32, mma_acc>
  // expected-error@+1 {{T-G9: keys (2x128x64, BF16) or values (2x136x64, FP16) in shared memory expected}}
  %s = tile.mma_shared %left, %keys, %acc : !tile.tile<16x128xf16, mma_a>, !tile.view<2x128x64xi16, shared>, !tile.tile<16x128xf32, mma_acc>
  tile.return
}

// -----

tile.kernel @bad(%codes: !tile.view<128x64xi8>) attributes {family = "f", schedule = {}} {
  %keys = tile.alloc : !tile.view<2x128x64xi16, shared>
  // expected-error@+1 {{T-G10: e2m1 with scales and a table, or e4m3 with none of them, expected}}
  tile.share_slot %codes format e2m1, %keys : !tile.view<128x64xi8>, !tile.view<2x128x64xi16, shared>
  tile.return
}

// -----

tile.kernel @bad(%codes: !tile.view<128x64xi8>) attributes {family = "f", schedule = {}} {
  %keys = tile.alloc : !tile.view<2x128x64xi16, shared>
  // expected-error@+1 {{T-G11: '!tile.view<128x64xi8>' holds no 128 tokens of 128 dims}}
  tile.share_slot %codes format e4m3, %keys : !tile.view<128x64xi8>, !tile.view<2x128x64xi16, shared>
  tile.return
}

// -----

tile.kernel @bad(%codes: !tile.view<128x128xi8>, %n: index) attributes {family = "f", schedule = {}} {
  %keys = tile.alloc : !tile.view<2x128x64xi16, shared>
  // expected-error@+1 {{T-G9: keys (2x128x64) or, with a limit, values (2x136x64) of i16}}
  tile.share_slot %codes limit %n format e4m3, %keys : !tile.view<128x128xi8>, !tile.view<2x128x64xi16, shared>
  tile.return
}

// -----

tile.kernel @bad(%a: !tile.view<?x128xi16>) attributes {family = "f", schedule = {}} {
  %c0 = arith.constant 0 : index
  %left = tile.load %a[%c0, %c0] sizes [16, 128] : !tile.view<?x128xi16> -> !tile.tile<16x128xbf16, mma_a>
  // expected-error@+1 {{T-A25: a left operand in FP16 gives an accumulator of its shape}}
  %acc = tile.from_operand %left : !tile.tile<16x128xbf16, mma_a> -> !tile.tile<16x128xf32, mma_acc>
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  %zero = arith.constant 0.0 : f32
  %acc = tile.fill %zero : f32 -> !tile.tile<16x16xf32, mma_acc>
  // expected-error@+1 {{T-E16:}}
  %s = tile.slice %acc[0, 4] : !tile.tile<16x16xf32, mma_acc> -> !tile.tile<16x8xf32, mma_acc>
  tile.return
}
