// RUN: m3-opt %s --m3-form-buckets -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: m3-opt %t.once --m3-form-buckets | diff %t.once -
// RUN: m3-opt %s --m3-form-buckets='max-rows=3' | FileCheck %s --check-prefix=THREE
// RUN: m3-opt %s --m3-form-buckets='rows=1,3,48' | FileCheck %s --check-prefix=LIST
// RUN: not m3-opt %s --m3-form-buckets='rows=4,4' 2>&1 | FileCheck %s --check-prefix=BAD
// RUN: not m3-opt %s --m3-form-buckets='rows=0,4' 2>&1 | FileCheck %s --check-prefix=BAD
// RUN: m3-opt %s --m3-form-buckets='max-rows=9223372036854775807' | FileCheck %s --check-prefix=MANY
// RUN: not m3-opt %s --m3-form-buckets='max-rows=0' 2>&1 | FileCheck %s --check-prefix=BAD

// Basic, edge (a largest bucket that is no power of two is not reached; a given list), negative.
// CHECK: module attributes {m3.buckets = array<i64: 1, 2, 4, 8, 16, 32, 64, 128, 256, 512>}
// THREE: m3.buckets = array<i64: 1, 2>
// MANY: 2305843009213693952, 4611686018427387904>
// LIST: m3.buckets = array<i64: 1, 3, 48>
// BAD: error: row counts of buckets are positive and strictly ascending
module {}
