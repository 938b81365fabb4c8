// Rotation: pieces of 16 dimensions are written out; the 63 single ones of an odd half are a loop.
// RUN: m3-opt %s -m3-to-tile="chip=x86-avx2 buckets=1" | FileCheck %s
// RUN: sed 's/rotary = 126/rotary = 64/; s/x126xf32/x64xf32/g' %s | m3-opt -m3-to-tile="chip=x86-avx2 buckets=1" \
// RUN:   | FileCheck %s --check-prefix=PIECES

// CHECK: tile.kernel @rope_1x128_126
// CHECK: scf.for %[[I:.*]] = %c0{{.*}} to %c63{{.*}} step %c1
// CHECK: %[[J:.*]] = arith.addi %[[I]], %c63
// CHECK-COUNT-4: tile.load {{.*}} -> <1x1xf32>
// CHECK-NOT: tile.load {{.*}} -> <1x1xf32>

// PIECES: tile.kernel @rope_1x128_64
// PIECES-COUNT-8: tile.load {{.*}} -> <1x16xf32>

m3.weight @embed : !m3.weight<64x128, bf16> {parts = [#m3.part<values, "embed", "BF16", [64, 128]>]}

func.func @step(%batch: !m3.batch) -> tensor<?x128xf32> attributes {m3.step} {
  %cs = m3.rope_table %batch {theta = 10000.0, rotary = 126} : tensor<?x126xf32>
  %h = m3.embed %batch, @embed : tensor<?x128xf32>
  %y = m3.rope %h, %cs {heads = 1} : tensor<?x128xf32>, tensor<?x126xf32>
  return %y : tensor<?x128xf32>
}
