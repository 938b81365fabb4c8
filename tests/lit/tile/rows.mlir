// Rows of integers: sums of what is before, columns that go to places of their own.
// RUN: m3-opt %s | m3-opt | FileCheck %s
// RUN: rm -rf %t && mkdir %t && m3c build-kernel %s --target x86 -o %t --print-source | FileCheck %s --check-prefix=TEXT
// RUN: m3c build-kernel %s --target sm90 -o %t --print-source | FileCheck %s --check-prefix=TEXT

// CHECK: tile.scan
// CHECK: tile.scatter {{.*}} at
// TEXT: = scan(
// TEXT: scatter({{.*}}, p0 + 1)
tile.kernel @places(%y: !tile.view<?xi32>) attributes {family = "test", schedule = {}} {
  %c1 = arith.constant 1 : index
  %number = tile.iota : !tile.tile<1x48xi32>
  %before = tile.scan %number : !tile.tile<1x48xi32>
  tile.scatter %number at %before, %y[%c1] : !tile.tile<1x48xi32>, !tile.view<?xi32>
  tile.return
}
