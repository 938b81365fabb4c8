// RUN: m3-opt %s --pass-pipeline='builtin.module(plan.program(plan.bucket(plan-schedule-launches)))' -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: m3-opt %t.once --pass-pipeline='builtin.module(plan.program(plan.bucket(plan-schedule-launches)))' | diff %t.once -
// RUN: m3-opt %s --pass-pipeline='builtin.module(plan.program(plan.bucket(plan-schedule-launches)))' --counts -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=COUNTS

// COUNTS: plan-schedule-launches.moved = 3 (
// COUNTS-NEXT: plan-schedule-launches.peak-bytes-after = 4160 (
// COUNTS-NEXT: plan-schedule-launches.peak-bytes-before = 8256 (

plan.kernel @make family "test" params 1
plan.kernel @use family "test" params 2
plan.kernel @mix family "test" params 3

// Basic: two chains that were interleaved; each big buffer dies before the next is made.
// CHECK-LABEL: plan.program @interleaved
// CHECK: plan.launch @make{{.*}} label "make a"
// CHECK-NEXT: plan.launch @use{{.*}} label "use a"
// CHECK-NEXT: plan.launch @make{{.*}} label "make b"
// CHECK-NEXT: plan.launch @use{{.*}} label "use b"
// CHECK-NEXT: plan.output
plan.program @interleaved {
  plan.bucket rows = 1 logit_rows = 1 {
    %a = plan.buffer "a" size = rows * 4096 + blocks * 0 + 0
    %b = plan.buffer "b" size = rows * 4096 + blocks * 0 + 0
    %x = plan.buffer "x" size = rows * 64 + blocks * 0 + 0
    %y = plan.buffer "y" size = rows * 64 + blocks * 0 + 0
    plan.launch @make(w %a : !plan.buffer) grid [1, 1, 1] label "make a"
    plan.launch @make(w %b : !plan.buffer) grid [1, 1, 1] label "make b"
    plan.launch @use(r %a : !plan.buffer, w %x : !plan.buffer) grid [1, 1, 1] label "use a"
    plan.launch @use(r %b : !plan.buffer, w %y : !plan.buffer) grid [1, 1, 1] label "use b"
    plan.output %y
  }
}

// Edge: a tap moves up to right after the launch that makes its buffer; a second write to the
// tapped buffer stays behind the tap.
// CHECK-LABEL: plan.program @taps
// CHECK: plan.launch @make{{.*}} label "first"
// CHECK-NEXT: plan.tap hidden
// CHECK-NEXT: plan.launch @use{{.*}} label "copy"
// CHECK-NEXT: plan.launch @make{{.*}} label "second"
plan.program @taps {
  plan.bucket rows = 1 logit_rows = 1 {
    %a = plan.buffer "a" size = rows * 64 + blocks * 0 + 0
    %x = plan.buffer "x" size = rows * 64 + blocks * 0 + 0
    plan.launch @make(w %a : !plan.buffer) grid [1, 1, 1] label "first"
    plan.launch @use(r %a : !plan.buffer, w %x : !plan.buffer) grid [1, 1, 1] label "copy"
    plan.tap hidden layer = 0 row_bytes = 64 %a
    plan.launch @make(w %a : !plan.buffer) grid [1, 1, 1] label "second"
    plan.output %a
  }
}

// Negative: launches that write the cache pool keep their order, although the other order would
// free the big buffer earlier.
// CHECK-LABEL: plan.program @pool
// CHECK: label "make big"
// CHECK: label "write small"
// CHECK: label "write big"
plan.program @pool {
  plan.bucket rows = 1 logit_rows = 1 {
    %big = plan.buffer "big" size = rows * 4096 + blocks * 0 + 0
    %out = plan.buffer "out" size = rows * 64 + blocks * 0 + 0
    %kv = plan.pool offset 0
    plan.launch @make(w %big : !plan.buffer) grid [1, 1, 1] label "make big"
    plan.launch @mix(r %big : !plan.buffer, rw %kv : !plan.pointer, w %out : !plan.buffer) grid [1, 1, 1] label "write small"
    plan.launch @use(r %big : !plan.buffer, rw %kv : !plan.pointer) grid [1, 1, 1] label "write big"
    plan.output %out
  }
}
