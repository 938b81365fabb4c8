// RUN: m3-opt %s --m3-share-rope-table -o %t.once
// RUN: FileCheck %s < %t.once
// RUN: m3-opt %t.once --m3-share-rope-table | diff %t.once -
// RUN: m3-opt %s --m3-share-rope-table --counts -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=COUNTS

// COUNTS: m3-share-rope-table.shared = 1 (

// Basic: one table, at the start.
// CHECK-LABEL: func.func @basic
// CHECK-NEXT: %[[T:.*]] = m3.rope_table
// CHECK-NEXT: m3.rope %{{.*}}, %[[T]]
// CHECK-NEXT: m3.rope %{{.*}}, %[[T]]
// CHECK-NOT: m3.rope_table
func.func @basic(%b: !m3.batch, %x: tensor<?x256xf32>) -> tensor<?x256xf32> {
  %t1 = m3.rope_table %b {theta = 5.0e6, rotary = 64} : tensor<?x64xf32>
  %y = m3.rope %x, %t1 {heads = 2} : tensor<?x256xf32>, tensor<?x64xf32>
  %t2 = m3.rope_table %b {theta = 5.0e6, rotary = 64} : tensor<?x64xf32>
  %z = m3.rope %y, %t2 {heads = 2} : tensor<?x256xf32>, tensor<?x64xf32>
  return %z : tensor<?x256xf32>
}

// Edge: a single table in the middle moves to the start.
// CHECK-LABEL: func.func @moves
// CHECK-NEXT: m3.rope_table
// CHECK-NEXT: arith.addf
func.func @moves(%b: !m3.batch, %x: tensor<?x256xf32>) -> tensor<?x256xf32> {
  %s = arith.addf %x, %x : tensor<?x256xf32>
  %t = m3.rope_table %b {theta = 5.0e6, rotary = 64} : tensor<?x64xf32>
  %z = m3.rope %s, %t {heads = 2} : tensor<?x256xf32>, tensor<?x64xf32>
  return %z : tensor<?x256xf32>
}

// Negative: other batch, other frequencies: other tables.
// CHECK-LABEL: func.func @different
// CHECK-COUNT-3: m3.rope_table
func.func @different(%b: !m3.batch, %c: !m3.batch) -> (tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xf32>) {
  %t1 = m3.rope_table %b {theta = 5.0e6, rotary = 64} : tensor<?x64xf32>
  %t2 = m3.rope_table %c {theta = 5.0e6, rotary = 64} : tensor<?x64xf32>
  %t3 = m3.rope_table %b {theta = 1.0e4, rotary = 64} : tensor<?x64xf32>
  return %t1, %t2, %t3 : tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xf32>
}
