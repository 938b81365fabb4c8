// Operations of tensor memory print and re-read as the same text; each becomes one call, operands begin where their
// swizzle does, and the address of the columns comes into shared memory.
// RUN: m3-opt %s -o %t && m3-opt %t | FileCheck %s
// RUN: m3-opt %t -o %t.again && diff %t %t.again
// RUN: m3-opt %s --pass-pipeline='builtin.module(tile.kernel(tile-assign-shared))' | FileCheck %s --check-prefix=SHARED

// SHARED: tile.alloc {offset = 0 : i64} : <9216xi8, shared>
// SHARED: tile.alloc {offset = 9216 : i64} : <16x128xi8, shared>
// SHARED: tile.alloc {offset = 11264 : i64} : <65536xi8, shared>
// SHARED: tile.alloc {offset = 76800 : i64} : <128x16xi16, shared>
// SHARED: tile.gates fills 4 drains 1 {offset = 80896 : i64} : <2>
// SHARED: tile.gates fills 1 drains 4 {offset = 80960 : i64} : <2>
// SHARED: tile.tensor_memory {offset = 81024 : i64} : <128x128xi32, tensor>

// CHECK-LABEL: tile.kernel @everything
tile.kernel @everything(%q: !tile.view<?x128xf32>, %out: !tile.view<?x16xf32>, %n: index)
    attributes {family = "example", schedule = {}, warps = 9} {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c48 = arith.constant 48 : index
  %c1024 = arith.constant 8192 : index
  %yes = arith.constant true
  %slot = tile.alloc : !tile.view<9216xi8, shared>
  %queries = tile.alloc : !tile.view<16x128xi8, shared>
  %bytes = tile.alloc : !tile.view<65536xi8, shared>
  %weights = tile.alloc : !tile.view<128x16xi16, shared>
  // CHECK: tile.gates fills 4 drains 1 : <2>
  %filled = tile.gates fills 4 drains 1 : !tile.gates<2>
  // CHECK: tile.gates fills 1 drains 4 : <2>
  %multiplied = tile.gates fills 1 drains 4 : !tile.gates<2>
  // CHECK: tile.tensor_memory : <128x128xi32, tensor>
  %memory = tile.tensor_memory : !tile.view<128x128xi32, tensor>
  // CHECK: tile.tensor_part %{{.*}}[%{{.*}}] : <128x128xi32, tensor> -> <128x32xi32, tensor>
  %keys = tile.tensor_part %memory[%c0] : !tile.view<128x128xi32, tensor> -> !tile.view<128x32xi32, tensor>
  %sums = tile.tensor_part %memory[%c32] : !tile.view<128x128xi32, tensor> -> !tile.view<128x16xf32, tensor>
  %means = tile.tensor_part %memory[%c48] : !tile.view<128x128xi32, tensor> -> !tile.view<128x16xf32, tensor>
  %codes = tile.reinterpret %slot[%c0] : !tile.view<9216xi8, shared> -> !tile.view<128x64xi8, shared>
  %scales = tile.reinterpret %slot[%c1024] : !tile.view<9216xi8, shared> -> !tile.view<1024xi8, shared>
  %values = tile.reinterpret %bytes[%c0] : !tile.view<65536xi8, shared> -> !tile.view<2x128x64xi16, shared>
  tile.roles {
    tile.role "fill" warps = 4 {
      // CHECK: tile.gate_wait empty %{{.*}}[%{{.*}}] : <2>
      tile.gate_wait empty %filled[%c0] : !tile.gates<2>
      // CHECK: tile.tensor_keys %{{.*}} scales %{{.*}} product "multiply", %{{.*}} : <128x64xi8, shared>, <1024xi8, shared>, <128x32xi32, tensor>
      tile.tensor_keys %codes scales %scales product "multiply", %keys : !tile.view<128x64xi8, shared>, !tile.view<1024xi8, shared>, !tile.view<128x32xi32, tensor>
      // CHECK: tile.operand_values %{{.*}} scales %{{.*}} product "detour" limit %{{.*}}, %{{.*}} : <128x64xi8, shared>, <1024xi8, shared>, <2x128x64xi16, shared>
      tile.operand_values %codes scales %scales product "detour" limit %n, %values : !tile.view<128x64xi8, shared>, !tile.view<1024xi8, shared>, !tile.view<2x128x64xi16, shared>
      // CHECK: tile.gate_signal full %{{.*}}[%{{.*}}] : <2>
      tile.gate_signal full %filled[%c0] : !tile.gates<2>
    }
    tile.role "multiply" warps = 1 {
      // CHECK: tile.operand_queries %{{.*}}[%{{.*}}] limit %{{.*}}, %{{.*}} : <?x128xf32>, <16x128xi8, shared>
      tile.operand_queries %q[%c0] limit %n, %queries : !tile.view<?x128xf32>, !tile.view<16x128xi8, shared>
      tile.gate_wait full %filled[%c0] : !tile.gates<2>
      tile.gate_wait empty %multiplied[%c0] : !tile.gates<2>
      // CHECK: tile.tensor_mma %{{.*}}, %{{.*}}, %{{.*}} accumulate %{{.*}} : <128x32xi32, tensor>, <16x128xi8, shared>, <128x16xf32, tensor>
      tile.tensor_mma %keys, %queries, %sums accumulate %yes : !tile.view<128x32xi32, tensor>, !tile.view<16x128xi8, shared>, !tile.view<128x16xf32, tensor>
      // CHECK: tile.tensor_mma %{{.*}} : <2x128x64xi16, shared>, <128x16xi16, shared>, <128x16xf32, tensor>
      tile.tensor_mma %values, %weights, %means accumulate %yes : !tile.view<2x128x64xi16, shared>, !tile.view<128x16xi16, shared>, !tile.view<128x16xf32, tensor>
      // CHECK: tile.gate_commit empty %{{.*}}[%{{.*}}] : <2>
      tile.gate_commit empty %filled[%c0] : !tile.gates<2>
      tile.gate_commit full %multiplied[%c0] : !tile.gates<2>
    }
    tile.role "read" warps = 4 {
      tile.gate_wait full %multiplied[%c0] : !tile.gates<2>
      // CHECK: tile.tensor_load %{{.*}} : <128x16xf32, tensor> -> <32x16xf32, lane_rows>
      %t = tile.tensor_load %sums : !tile.view<128x16xf32, tensor> -> !tile.tile<32x16xf32, lane_rows>
      // CHECK: tile.lane_numbers : <32x1xi32, lane_rows>
      %lane = tile.lane_numbers : !tile.tile<32x1xi32, lane_rows>
      // CHECK: tile.load_row %{{.*}}[%{{.*}}, %{{.*}}] : <?x16xf32> -> <1x16xf32, lane_rows>
      %row = tile.load_row %out[%c0, %c0] : !tile.view<?x16xf32> -> !tile.tile<1x16xf32, lane_rows>
      %m = tile.map (%t, %row, %lane : !tile.tile<32x16xf32, lane_rows>, !tile.tile<1x16xf32, lane_rows>, !tile.tile<32x1xi32, lane_rows>) -> !tile.tile<32x16xf32, lane_rows> {
      ^bb0(%a: f32, %b: f32, %l: i32):
        %s = arith.addf %a, %b : f32
        tile.yield %s : f32
      }
      // CHECK: tile.operand_weights %{{.*}}, %{{.*}} : <32x16xf32, lane_rows>, <128x16xi16, shared>
      %r = tile.operand_weights %m, %weights : !tile.tile<32x16xf32, lane_rows>, !tile.view<128x16xi16, shared>
      // CHECK: tile.tensor_store %{{.*}}, %{{.*}} : <32x16xf32, lane_rows>, <128x16xf32, tensor>
      tile.tensor_store %r, %means : !tile.tile<32x16xf32, lane_rows>, !tile.view<128x16xf32, tensor>
      // CHECK: tile.reduce_lanes max_or_nan %{{.*}} : <32x16xf32, lane_rows> -> <1x16xf32>
      %top = tile.reduce_lanes max_or_nan %m : !tile.tile<32x16xf32, lane_rows> -> !tile.tile<1x16xf32>
      tile.store_columns %top, %out[%c0, %c0] stride %n limit %n : !tile.tile<1x16xf32>, !tile.view<?x16xf32>
      // CHECK: tile.store_lanes %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] : <1x16xf32, lane_rows>, <?x16xf32>
      tile.store_lanes %row, %out[%c0, %c0] : !tile.tile<1x16xf32, lane_rows>, !tile.view<?x16xf32>
      tile.gate_signal empty %multiplied[%c0] : !tile.gates<2>
    }
  }
  // CHECK: tile.tensor_free %{{.*}} : <128x128xi32, tensor>
  tile.tensor_free %memory : !tile.view<128x128xi32, tensor>
  tile.return
}

// Of two work items: each has half of the queries, signals of warps count for both.
// CHECK-LABEL: tile.kernel @pair
tile.kernel @pair() attributes {family = "example", schedule = {}, warps = 9, cluster = 2} {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %no = arith.constant false
  %queries = tile.alloc : !tile.view<8x128xi8, shared>
  // CHECK: tile.gates fills 8 drains 1 pair : <2>
  %filled = tile.gates fills 8 drains 1 pair : !tile.gates<2>
  // CHECK: tile.gates fills 1 drains 8 pair : <2>
  %multiplied = tile.gates fills 1 drains 8 pair : !tile.gates<2>
  // CHECK: tile.tensor_memory pair : <128x64xi32, tensor>
  %memory = tile.tensor_memory pair : !tile.view<128x64xi32, tensor>
  %keys = tile.tensor_part %memory[%c0] : !tile.view<128x64xi32, tensor> -> !tile.view<128x32xi32, tensor>
  %sums = tile.tensor_part %memory[%c32] : !tile.view<128x64xi32, tensor> -> !tile.view<128x16xf32, tensor>
  tile.roles {
    tile.role "fill" warps = 4 {
      tile.gate_wait empty %filled[%c0] : !tile.gates<2>
      tile.gate_signal full %filled[%c0] : !tile.gates<2>
    }
    tile.role "multiply" warps = 1 {
      tile.gate_wait full %filled[%c0] : !tile.gates<2>
      tile.gate_wait empty %multiplied[%c0] : !tile.gates<2>
      // CHECK: tile.tensor_mma pair %{{.*}}, %{{.*}}, %{{.*}} accumulate %{{.*}} : <128x32xi32, tensor>, <8x128xi8, shared>, <128x16xf32, tensor>
      tile.tensor_mma pair %keys, %queries, %sums accumulate %no : !tile.view<128x32xi32, tensor>, !tile.view<8x128xi8, shared>, !tile.view<128x16xf32, tensor>
      tile.gate_commit empty %filled[%c0] : !tile.gates<2>
      tile.gate_commit full %multiplied[%c0] : !tile.gates<2>
    }
    tile.role "read" warps = 4 {
      tile.gate_wait full %multiplied[%c0] : !tile.gates<2>
      tile.gate_signal empty %multiplied[%c0] : !tile.gates<2>
    }
  }
  tile.tensor_free %memory : !tile.view<128x64xi32, tensor>
  tile.return
}
