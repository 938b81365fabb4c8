// A kernel for H100 and H200: one warp a work item, the columns of its tiles along the lanes.
// RUN: rm -rf %t && mkdir %t && m3c build-kernel %s --target sm90 -o %t --print-source --print-code | FileCheck %s
// RUN: test -s %t/rows.sm_90a.cubin && test -s %t/rows.sm_90a.cu
//
// Its machine code is shown by nvdisasm; without one that is said, and the kernel still builds.
// RUN: m3c build-kernel %s --target sm90 -o %t --json | FileCheck %s --check-prefix=JSON
// RUN: env M3C_NVDISASM=%t/absent m3c build-kernel %s --target sm90 -o %t 2>&1 | FileCheck %s --check-prefix=ABSENT
// RUN: env M3C_NVDISASM=%t/absent not m3c build-kernel %s --target sm90 -o %t --print-code 2>&1 | FileCheck %s --check-prefix=NOCODE
// JSON: "inspector": "nvdisasm {{[0-9]+}}.
// ABSENT: nvdisasm was not found, so it was not checked {{.*}}pip install 'nvidia-cuda-nvdisasm
// ABSENT: rows.sm_90a.cubin: {{[0-9]+}} bytes of code
// NOCODE: error: the machine code of NVIDIA GPUs cannot be shown
// NOCODE: why: {{.*}}absent (M3C_NVDISASM): no such program
// NOCODE: next: pip install

// CHECK: rows.sm_90a.cubin: {{[0-9]+}} bytes of code, {{[0-9]+}} registers, 0 bytes spilled
// CHECK: extern "C" __global__ __launch_bounds__(32) void rows(f32 * p0, i64 p1)
// CHECK: loadScalar(p0
// CHECK: reduceAdd
// CHECK: storeScalar(p0
// CHECK: .text.rows:
// CHECK: SHFL
// CHECK: EXIT
tile.kernel @rows(%x: !tile.view<?x48xf32>, %last: index) attributes {family = "test", schedule = {}} {
  %i = tile.block_id x
  %c0 = arith.constant 0 : index
  %first = tile.load_scalar %x[%i, %c0] : !tile.view<?x48xf32> -> f32
  %a = tile.load %x[%i, %c0] sizes [1, 48] : !tile.view<?x48xf32> -> !tile.tile<1x48xf32>
  %s = tile.reduce add %a : !tile.tile<1x48xf32> -> !tile.tile<1x1xf32>
  %t = tile.extract %s[0, 0] : !tile.tile<1x1xf32> -> f32
  %u = arith.addf %t, %first : f32
  tile.store_scalar %u, %x[%last, %c0] : f32, !tile.view<?x48xf32>
  tile.return
}
