// Constraints of tensor memory.
// RUN: m3-opt %s -split-input-file -verify-diagnostics

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-N1: 128 lanes of a power of two of columns, 32 or more, expected}}
  %m = tile.tensor_memory : !tile.view<128x48xi32, tensor>
  tile.tensor_free %m : !tile.view<128x48xi32, tensor>
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-N2: nothing gives these columns back}}
  %m = tile.tensor_memory : !tile.view<128x64xi32, tensor>
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  %c0 = arith.constant 0 : index
  %m = tile.tensor_memory : !tile.view<128x64xi32, tensor>
  tile.tensor_free %m : !tile.view<128x64xi32, tensor>
  // expected-error@+1 {{T-N2: uses tensor memory after it was given back}}
  %p = tile.tensor_part %m[%c0] : !tile.view<128x64xi32, tensor> -> !tile.view<128x32xi32, tensor>
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  %c40 = arith.constant 40 : index
  %m = tile.tensor_memory : !tile.view<128x64xi32, tensor>
  // expected-error@+1 {{T-N5: columns 40 to 71 of}}
  %p = tile.tensor_part %m[%c40] : !tile.view<128x64xi32, tensor> -> !tile.view<128x32xi32, tensor>
  tile.tensor_free %m : !tile.view<128x64xi32, tensor>
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  %c0 = arith.constant 0 : index
  %m = tile.tensor_memory : !tile.view<128x64xi32, tensor>
  %p = tile.tensor_part %m[%c0] : !tile.view<128x64xi32, tensor> -> !tile.view<128x16xf32, tensor>
  // expected-error@+1 {{T-N6: 16 or 32 columns of tensor memory}}
  %t = tile.tensor_load %p : !tile.view<128x16xf32, tensor> -> !tile.tile<32x32xf32, lane_rows>
  tile.tensor_free %m : !tile.view<128x64xi32, tensor>
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}, warps = 2} {
  %c0 = arith.constant 0 : index
  %g = tile.gates fills 4 drains 1 : !tile.gates<2>
  tile.roles {
    tile.role "fill" warps = 1 {
      // expected-error@+1 {{T-N3: 1 signals, the gate expects 4}}
      tile.gate_signal full %g[%c0] : !tile.gates<2>
    }
    tile.role "drain" warps = 1 {
      tile.gate_wait full %g[%c0] : !tile.gates<2>
    }
  }
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  %c0 = arith.constant 0 : index
  // expected-error@+1 {{T-N4: a side of the gate is awaited and nothing signals it}}
  %g = tile.gates fills 1 drains 1 : !tile.gates<2>
  tile.gate_wait full %g[%c0] : !tile.gates<2>
  tile.return
}

// -----

tile.kernel @bad(%q: !tile.view<?x64xf32>) attributes {family = "f", schedule = {}} {
  %c0 = arith.constant 0 : index
  %o = tile.alloc : !tile.view<16x128xi8, shared>
  // expected-error@+1 {{T-N7: rows of 128 elements of f32 or BF16 expected}}
  tile.operand_queries %q[%c0] limit %c0, %o : !tile.view<?x64xf32>, !tile.view<16x128xi8, shared>
  tile.return
}

// -----

tile.kernel @bad(%l: !tile.view<2x128x64xi16>) attributes {family = "f", schedule = {}} {
  %c0 = arith.constant 0 : index
  %no = arith.constant false
  %w = tile.alloc : !tile.view<128x16xi16, shared>
  %m = tile.tensor_memory : !tile.view<128x64xi32, tensor>
  %p = tile.tensor_part %m[%c0] : !tile.view<128x64xi32, tensor> -> !tile.view<128x16xf32, tensor>
  // expected-error@+1 {{T-N13: keys in tensor memory and queries, or values and weights expected}}
  tile.tensor_mma %l, %w, %p accumulate %no : !tile.view<2x128x64xi16>, !tile.view<128x16xi16, shared>, !tile.view<128x16xf32, tensor>
  tile.tensor_free %m : !tile.view<128x64xi32, tensor>
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  %c0 = arith.constant 0 : index
  %m = tile.tensor_memory : !tile.view<128x64xi32, tensor>
  // expected-error@+1 {{T-N18: tensor memory is read and written by tensor_load and tensor_store}}
  %t = tile.load %m[%c0, %c0] sizes [1, 32] : !tile.view<128x64xi32, tensor> -> !tile.tile<1x32xi32>
  tile.tensor_free %m : !tile.view<128x64xi32, tensor>
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-N19: a pair is the two work items of a cluster, and the kernel has 1 in one}}
  %m = tile.tensor_memory pair : !tile.view<128x64xi32, tensor>
  tile.tensor_free %m : !tile.view<128x64xi32, tensor>
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}, cluster = 2} {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %no = arith.constant false
  %q = tile.alloc : !tile.view<16x128xi8, shared>
  %m = tile.tensor_memory pair : !tile.view<128x64xi32, tensor>
  %k = tile.tensor_part %m[%c0] : !tile.view<128x64xi32, tensor> -> !tile.view<128x32xi32, tensor>
  %s = tile.tensor_part %m[%c32] : !tile.view<128x64xi32, tensor> -> !tile.view<128x16xf32, tensor>
  // expected-error@+1 {{T-N20: this is of one work item, tensor memory of the kernel is of a pair}}
  tile.tensor_mma %k, %q, %s accumulate %no : !tile.view<128x32xi32, tensor>, !tile.view<16x128xi8, shared>, !tile.view<128x16xf32, tensor>
  tile.tensor_free %m : !tile.view<128x64xi32, tensor>
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}, cluster = 2} {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %no = arith.constant false
  %q = tile.alloc : !tile.view<16x128xi8, shared>
  %m = tile.tensor_memory pair : !tile.view<128x64xi32, tensor>
  %k = tile.tensor_part %m[%c0] : !tile.view<128x64xi32, tensor> -> !tile.view<128x32xi32, tensor>
  %s = tile.tensor_part %m[%c32] : !tile.view<128x64xi32, tensor> -> !tile.view<128x16xf32, tensor>
  // expected-error@+1 {{T-N14: the sums of 32 columns are not}}
  tile.tensor_mma pair %k, %q, %s accumulate %no : !tile.view<128x32xi32, tensor>, !tile.view<16x128xi8, shared>, !tile.view<128x16xf32, tensor>
  tile.tensor_free %m : !tile.view<128x64xi32, tensor>
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}, warps = 5} {
  %c0 = arith.constant 0 : index
  %g = tile.gates fills 4 drains 1 : !tile.gates<2>
  tile.roles {
    tile.role "fill" warps = 4 {
      // expected-error@+1 {{T-N3: 1 signals, the gate expects 4}}
      tile.gate_signal full %g[%c0] alone : !tile.gates<2>
    }
    tile.role "drain" warps = 1 {
      tile.gate_wait full %g[%c0] : !tile.gates<2>
    }
  }
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}, warps = 2, cluster = 2} {
  %c0 = arith.constant 0 : index
  %g = tile.gates fills 1 drains 1 pair : !tile.gates<2>
  tile.roles {
    tile.role "fill" warps = 1 {
      // expected-error@+1 {{T-N3: 2 signals, the gate expects 1}}
      tile.gate_signal full %g[%c0] : !tile.gates<2>
    }
    tile.role "drain" warps = 1 {
      tile.gate_wait full %g[%c0] : !tile.gates<2>
    }
  }
  tile.return
}

// -----

tile.kernel @bad(%q: !tile.view<?x128xf32>, %n: index) attributes {family = "f", schedule = {}} {
  %operand = tile.alloc : !tile.view<24x128xi8, shared>
  // expected-error@+1 {{T-N8: 8, 16 or 32 rows of 128 bytes in shared memory expected}}
  tile.operand_queries %q[%n] limit %n, %operand : !tile.view<?x128xf32>, !tile.view<24x128xi8, shared>
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  %codes = tile.alloc : !tile.view<128x64xi8, shared>
  %scales = tile.alloc : !tile.view<1024xi8, shared>
  // expected-error@+1 {{T-N10: 32 columns of tensor memory hold 128 dims}}
  tile.tensor_keys %codes scales %scales product "multiply", %codes : !tile.view<128x64xi8, shared>, !tile.view<1024xi8, shared>, !tile.view<128x64xi8, shared>
  tile.return
}

// -----

tile.kernel @bad(%n: index) attributes {family = "f", schedule = {}} {
  %codes = tile.alloc : !tile.view<128x64xi8, shared>
  %scales = tile.alloc : !tile.view<1024xi8, shared>
  %values = tile.alloc : !tile.view<2x64x64xi16, shared>
  // expected-error@+1 {{T-N11: 2x128x64 elements of 16 bits in shared memory expected}}
  tile.operand_values %codes scales %scales product "multiply" limit %n, %values : !tile.view<128x64xi8, shared>, !tile.view<1024xi8, shared>, !tile.view<2x64x64xi16, shared>
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  %zero = arith.constant 0.0 : f32
  %t = tile.fill %zero : f32 -> !tile.tile<32x8xf32, lane_rows>
  %weights = tile.alloc : !tile.view<128x16xi16, shared>
  // expected-error@+1 {{T-N12: 16 weights of f32 in each lane expected}}
  %r = tile.operand_weights %t, %weights : !tile.tile<32x8xf32, lane_rows>, !tile.view<128x16xi16, shared>
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-N15: 32 rows of one i32 in layout lane_rows expected}}
  %lane = tile.lane_numbers : !tile.tile<32x2xi32, lane_rows>
  tile.return
}

// -----

tile.kernel @bad() attributes {family = "f", schedule = {}} {
  %zero = arith.constant 0.0 : f32
  %t = tile.fill %zero : f32 -> !tile.tile<32x16xf32, lane_rows>
  // expected-error@+1 {{T-N16: up to 32 columns of f32 that lanes hold give one row}}
  %r = tile.reduce_lanes max %t : !tile.tile<32x16xf32, lane_rows> -> !tile.tile<1x8xf32>
  tile.return
}

// -----

tile.kernel @bad(%x: !tile.view<?x16xi32>, %n: index) attributes {family = "f", schedule = {}} {
  // expected-error@+1 {{T-N17: }}
  %row = tile.load_row %x[%n, %n] : !tile.view<?x16xi32> -> !tile.tile<1x16xf32, lane_rows>
  tile.return
}
