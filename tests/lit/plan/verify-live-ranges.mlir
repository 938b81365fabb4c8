// RUN: m3-opt %s --split-input-file --verify-diagnostics --verify-each=0 \
// RUN:   --pass-pipeline='builtin.module(plan.program(plan.bucket(plan-verify-live-ranges)))' -o /dev/null
// RUN: m3-opt %s --split-input-file --verify-diagnostics --verify-each=0 \
// RUN:   --pass-pipeline='builtin.module(plan.program(plan.bucket(plan-verify-live-ranges)))' --counts -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=COUNTS

// COUNTS: plan-verify-live-ranges.reads = 5 (

// Basic: disjoint in time, shared in space.
plan.kernel @use family "test" params 2
plan.kernel @make family "test" params 1
plan.program @good {
  plan.bucket rows = 1 logit_rows = 1 {
    %a = plan.buffer "a" size = rows * 64 + blocks * 0 + 0 at 0 + blocks * 0
    %b = plan.buffer "b" size = rows * 64 + blocks * 0 + 0 at 64 + blocks * 0
    %c = plan.buffer "c" size = rows * 64 + blocks * 0 + 0 at 0 + blocks * 0
    plan.launch @make(w %a : !plan.buffer) grid [1, 1, 1] label "a"
    plan.launch @use(r %a : !plan.buffer, w %b : !plan.buffer) grid [1, 1, 1] label "b"
    plan.launch @use(r %b : !plan.buffer, w %c : !plan.buffer) grid [1, 1, 1] label "c"
    plan.output %c
  }
}

// -----

// Negative: "a" is read after "c" took its bytes. The bucket names no arena, so that only this
// pass looks.
plan.kernel @use family "test" params 2
plan.kernel @make family "test" params 1
plan.program @late_read {
  plan.bucket rows = 1 logit_rows = 1 {
    %a = plan.buffer "a" size = rows * 64 + blocks * 0 + 0 at 0 + blocks * 0
    %c = plan.buffer "c" size = rows * 64 + blocks * 0 + 0 at 0 + blocks * 0
    plan.launch @make(w %a : !plan.buffer) grid [1, 1, 1] label "a"
    // expected-note @below {{by this launch}}
    plan.launch @make(w %c : !plan.buffer) grid [1, 1, 1] label "c"
    // expected-error @below {{reads "a" after its bytes were overwritten}}
    plan.output %a
  }
}

// -----

// Edge: input and output of one launch overlap from ten blocks on only.
plan.kernel @use family "test" params 2
plan.kernel @make family "test" params 1
plan.program @grows_into {
  plan.bucket rows = 1 logit_rows = 1 {
    %s = plan.buffer "s" size = rows * 0 + blocks * 64 + 0 at 0 + blocks * 0
    %o = plan.buffer "o" size = rows * 64 + blocks * 0 + 0 at 576 + blocks * 0
    plan.launch @make(w %s : !plan.buffer) grid [1, 1, 1] label "s"
    // expected-note @below {{by this launch}}
    // expected-error @below {{reads "s" after its bytes were overwritten}}
    plan.launch @use(r %s : !plan.buffer, w %o : !plan.buffer) grid [1, 1, 1] label "o"
    plan.output %o
  }
}

// -----

// Edge: a buffer without a place.
plan.kernel @make family "test" params 1
plan.program @no_place {
  plan.bucket rows = 1 logit_rows = 1 {
    %a = plan.buffer "a" size = rows * 64 + blocks * 0 + 0
    // expected-error @below {{reads "a", which has no place in the arena}}
    plan.launch @make(w %a : !plan.buffer) grid [1, 1, 1] label "a"
    plan.output %a
  }
}
