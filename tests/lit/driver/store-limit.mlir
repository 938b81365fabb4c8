// A store with a limit keeps rows apart though they be contiguous: rows past the limit belong to others.
// RUN: rm -rf %t && mkdir %t && m3c build-kernel %s --chip x86-avx2 -o %t --print-source | FileCheck %s

// CHECK: store<64>({{[^,]*}}, {{[^,]*}}, 0);
// CHECK: store<16>({{[^,]*}}, {{[^,]*}}, 16, {{.*}} - {{.*}});
tile.kernel @tail(%x: !tile.view<?x16xf32>, %y: !tile.view<?x16xf32>) attributes {family = "test", schedule = {}} {
  %i = tile.block_id x
  %c0 = arith.constant 0 : index
  %n = arith.constant 3 : index
  %a = tile.load %x[%i, %c0] sizes [4, 16] : !tile.view<?x16xf32> -> !tile.tile<4x16xf32>
  tile.store %a, %x[%i, %c0] sizes [4, 16] : !tile.tile<4x16xf32>, !tile.view<?x16xf32>
  tile.store %a, %y[%i, %c0] sizes [4, 16] limit %n : !tile.tile<4x16xf32>, !tile.view<?x16xf32>
  tile.return
}
