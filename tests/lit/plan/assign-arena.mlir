// RUN: m3-opt %s --pass-pipeline='builtin.module(plan.program(plan.bucket(plan-assign-arena)))' -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: m3-opt %t.once --pass-pipeline='builtin.module(plan.program(plan.bucket(plan-assign-arena)))' | diff %t.once -
// RUN: m3-opt %t.once --pass-pipeline='builtin.module(plan.program(plan.bucket(plan-verify-live-ranges)))' -o /dev/null
// RUN: m3-opt %s --pass-pipeline='builtin.module(plan.program(plan.bucket(plan-assign-arena)))' --counts -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=COUNTS

// COUNTS: plan-assign-arena.bytes-after = 576 (
// COUNTS-NEXT: plan-assign-arena.bytes-before = 704 (
// COUNTS-NEXT: plan-assign-arena.per-block-after = 192 (
// COUNTS-NEXT: plan-assign-arena.per-block-before = 192 (

plan.kernel @make family "test" params 1
plan.kernel @use family "test" params 2

// Basic: of three buffers in a chain the first and the third share their bytes.
// CHECK-LABEL: plan.program @chain
// CHECK: plan.bucket rows = 2 logit_rows = 1 arena = 256 + blocks * 0
// CHECK: plan.buffer "a" {{.*}} at [[A:[0-9]+]] + blocks * 0
// CHECK: plan.buffer "b" {{.*}} at [[B:[0-9]+]] + blocks * 0
// CHECK: plan.buffer "c" {{.*}} at [[A]] + blocks * 0
plan.program @chain {
  plan.bucket rows = 2 logit_rows = 1 {
    %a = plan.buffer "a" size = rows * 64 + blocks * 0 + 0
    %b = plan.buffer "b" size = rows * 64 + blocks * 0 + 0
    %c = plan.buffer "c" size = rows * 64 + blocks * 0 + 0
    plan.launch @make(w %a : !plan.buffer) grid [1, 1, 1] label "a"
    plan.launch @use(r %a : !plan.buffer, w %b : !plan.buffer) grid [1, 1, 1] label "b"
    plan.launch @use(r %b : !plan.buffer, w %c : !plan.buffer) grid [1, 1, 1] label "c"
    plan.output %c
  }
}

// Edge: sizes are rounded up to 64; buffers that grow with blocks lie above the fixed ones, each
// wholly above the other; a buffer that nothing touches goes.
// CHECK-LABEL: plan.program @growing
// CHECK: arena = 192 + blocks * 192
// CHECK-NOT: "unused"
// CHECK: plan.buffer "fixed" {{.*}} at 0 + blocks * 0
// CHECK: plan.buffer "s" {{.*}} at 64 + blocks * 128
// CHECK: plan.buffer "t" {{.*}} at 64 + blocks * 0
plan.program @growing {
  plan.bucket rows = 1 logit_rows = 1 {
    %fixed = plan.buffer "fixed" size = rows * 4 + blocks * 0 + 0
    %s = plan.buffer "s" size = rows * 16 + blocks * 4 + 100
    %t = plan.buffer "t" size = rows * 0 + blocks * 128 + 0
    %unused = plan.buffer "unused" size = rows * 4 + blocks * 0 + 0
    plan.launch @use(w %s : !plan.buffer, w %t : !plan.buffer) grid [1, 1, 1] label "make"
    plan.launch @use(r %s : !plan.buffer, w %fixed : !plan.buffer) grid [1, 1, 1] label "use s"
    plan.launch @use(r %t : !plan.buffer, rw %fixed : !plan.buffer) grid [1, 1, 1] label "use t"
    plan.output %fixed
  }
}

// Negative: an output read at the end keeps its bytes although nothing writes it again; input and
// output of one launch never share.
// CHECK-LABEL: plan.program @kept
// CHECK: arena = 128 + blocks * 0
// CHECK: plan.buffer "a" {{.*}} at [[A:0|64]] + blocks * 0
// CHECK-NOT: at [[A]] + blocks * 0
plan.program @kept {
  plan.bucket rows = 1 logit_rows = 1 {
    %a = plan.buffer "a" size = rows * 64 + blocks * 0 + 0
    %b = plan.buffer "b" size = rows * 64 + blocks * 0 + 0
    plan.launch @make(w %a : !plan.buffer) grid [1, 1, 1] label "a"
    plan.launch @use(r %a : !plan.buffer, w %b : !plan.buffer) grid [1, 1, 1] label "b"
    plan.output %a
  }
}
