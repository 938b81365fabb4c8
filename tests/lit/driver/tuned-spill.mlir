// A schedule that is marked as tuned promises that its values stay in registers: two rows of 64 vectors
// of 256 bits that change places do not, and the build fails. Without the mark it is built and the bytes
// are said. On a GPU 32 lanes share the rows, and only longer ones are too many.
// RUN: rm -rf %t && mkdir %t && not m3c build-kernel %s --target x86 --chip x86-avx2 -o %t 2>&1 | FileCheck %s
// RUN: sed 's/, tuned = 1//' %s > %t/untuned.mlir
// RUN: m3c build-kernel %t/untuned.mlir --target x86 --chip x86-avx2 -o %t | FileCheck %s --check-prefix=UNTUNED
// RUN: m3c build-kernel %s --target sm90 -o %t | FileCheck %s --check-prefix=SM90
// RUN: sed 's/1x512x/1x16384x/g; s/1, 512/1, 16384/g; s/?x512x/?x16384x/g' %s > %t/large.mlir
// RUN: not m3c build-kernel %t/large.mlir --target sm90 -o %t 2>&1 | FileCheck %s --check-prefix=LARGE

// CHECK: error: kernel wide spills registers on x86-avx2
// CHECK: where: test on x86-avx2, schedule rows = 1, tuned = 1
// CHECK: why: {{[0-9]+}} bytes of each thread lie in memory for want of registers
// CHECK: next: take smaller tiles
// UNTUNED: wide.x86-avx2.so: {{[0-9]+}} bytes of code, {{[1-9][0-9]*}} bytes spilled
// SM90: wide.sm_90a.cubin: {{[0-9]+}} bytes of code, {{[0-9]+}} registers, 0 bytes spilled
// LARGE: error: kernel wide spills registers on sm_90a
// LARGE: why: {{[0-9]+}} bytes of each thread {{.*}} ({{[0-9]+}} are used)
tile.kernel @wide(%x: !tile.view<?x512xf32>, %y: !tile.view<?x512xf32>) attributes {family = "test", schedule = {rows = 1, tuned = 1}} {
  %i = tile.block_id x
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%i, %c0] sizes [1, 512] : !tile.view<?x512xf32> -> !tile.tile<1x512xf32>
  %b = tile.load %y[%i, %c0] sizes [1, 512] : !tile.view<?x512xf32> -> !tile.tile<1x512xf32>
  tile.store %a, %y[%i, %c0] sizes [1, 512] : !tile.tile<1x512xf32>, !tile.view<?x512xf32>
  tile.store %b, %x[%i, %c0] sizes [1, 512] : !tile.tile<1x512xf32>, !tile.view<?x512xf32>
  tile.return
}
