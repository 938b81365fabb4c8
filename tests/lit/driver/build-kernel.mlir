// `m3c build-kernel`: text to machine code for every chip; faults name the line.
// RUN: rm -rf %t && mkdir %t && m3c build-kernel %s --target x86 -o %t --print-source --print-code | FileCheck %s
// RUN: test -s %t/axpy.x86-avx2.so && test -s %t/axpy.x86-avx512.so && test -s %t/axpy.x86-avx2.cpp
// RUN: m3c build-kernel %s --chip x86-avx2 -o %t --json | FileCheck %s --check-prefix=JSON
// RUN: not m3c build-kernel %s --target z80 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: sed 's/tile.fma/tile.nothing/' %s > %t/bad.mlir
// RUN: not m3c build-kernel %t/bad.mlir -o %t 2>&1 | FileCheck %s --check-prefix=BAD
// RUN: sed 's/@axpy/@"..\/axpy"/' %s > %t/name.mlir
// RUN: not m3c build-kernel %t/name.mlir -o %t 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: sed 's/^  tile.return/  %%t = arith.constant dense<1> : tensor<4xi32>\n  tile.return/' %s > %t/op.mlir
// RUN: not m3c build-kernel %t/op.mlir -o %t 2>&1 | FileCheck %s --check-prefix=OP
// RUN: sed 's/schedule = {}/schedule = {}, warps = 33 : i64/' %s > %t/warps.mlir
// RUN: not m3c build-kernel %t/warps.mlir --target sm90 -o %t 2>&1 | FileCheck %s --check-prefix=WARPS

// CHECK: axpy.x86-avx2.so: {{[0-9]+}} bytes of code
// CHECK: void axpy(
// CHECK: vfmadd{{.*}} %ymm
// CHECK: axpy.x86-avx512.so: {{[0-9]+}} bytes of code
// CHECK: vfmadd{{.*}} %zmm
// JSON: "kernel": "axpy",
// JSON-NEXT: "chip": "x86-avx2"
// JSON-NOT: avx512
// TARGET: error: unknown target 'z80'
// BAD: error: {{.*}}bad.mlir does not read as kernels
// BAD: where: {{.*}}bad.mlir{{.*}}:[[#]]:
// NAME: error: a kernel cannot have the name '../axpy'
// NAME-NEXT: where: {{.*}}name.mlir:[[#]]:1
// OP: error: kernel axpy cannot be printed
// OP-NEXT: where: {{.*}}op.mlir:[[#]]:8
// WARPS: where: {{.*}}warps.mlir:[[#]]:1
// WARPS-NEXT: has 33 warps, a work item of sm_90a has at most 32
tile.kernel @axpy(%x: !tile.view<?x16xf32>, %y: !tile.view<?x16xf32>) attributes {family = "test", schedule = {}} {
  %i = tile.block_id x
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%i, %c0] sizes [1, 16] : !tile.view<?x16xf32> -> !tile.tile<1x16xf32>
  %s = tile.load %x[%c0, %c0] sizes [1, 1] : !tile.view<?x16xf32> -> !tile.tile<1x1xf32>
  %b = tile.load %y[%i, %c0] sizes [1, 16] : !tile.view<?x16xf32> -> !tile.tile<1x16xf32>
  %r = tile.fma %s, %a, %b : !tile.tile<1x1xf32>, !tile.tile<1x16xf32>, !tile.tile<1x16xf32> -> !tile.tile<1x16xf32>
  tile.store %r, %y[%i, %c0] sizes [1, 16] : !tile.tile<1x16xf32>, !tile.view<?x16xf32>
  tile.return
}
