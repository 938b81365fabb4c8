// Cached pages on matrix instructions: stages that copies fill, roles beside each other, operands and
// accumulators. Everything reads back, prints as CUDA and shows in the machine code; another number of
// stages, of consumers and another format of the cache give another text.
// RUN: m3-opt %s | m3-opt | FileCheck %s
// RUN: m3-opt %s --tile-assign-shared | FileCheck %s --check-prefix=SHARED
// RUN: rm -rf %t && mkdir %t && m3c build-kernel %s --target sm90 -o %t --print-source | FileCheck %s --check-prefix=TEXT
// RUN: sed 's/ring<2,/ring<3,/g; s/warps = 4/warps = 8/; s/warps = 5/warps = 9/; s/async 4/async 8/' %s > %t/wide.mlir
// RUN: m3c build-kernel %t/wide.mlir --target sm90 -o %t --print-source | FileCheck %s --check-prefix=WIDE
// RUN: sed '/code_table/d; /%%scales/d; s/ scales %%s : !tile.view<1024xi8, shared>//; s/ table %%table : !tile.view<256x8xi8, shared>//; s/format e2m1/format e4m3/; s/128x64xi8/128x128xi8/g' %s > %t/e4m3.mlir
// RUN: m3c build-kernel %t/e4m3.mlir --target sm90 -o %t --print-source | FileCheck %s --check-prefix=E4M3

// CHECK: tile.ring async 4 : <2, 18432xi8>
// CHECK: tile.roles {
// CHECK: tile.role "attend" warps = 4
// CHECK: tile.gather {{.*}} at
// CHECK: tile.load {{.*}} sizes [16, 128] limit {{.*}} -> <16x128xbf16, mma_a>
// CHECK: tile.to_operand {{.*}} : <16x128xbf16, mma_a> -> <16x128xf16, mma_a>
// CHECK: tile.wait %{{.*}}[%{{.*}}]
// CHECK: tile.load_cached {{.*}} format e2m1 {{.*}} -> <128x16xf16, mma_b>
// CHECK: tile.reduce max {{.*}} -> <16x1xf32, mma_rows>
// CHECK: tile.reduce max_or_nan {{.*}} -> <1x16xf32, mma_columns>
// CHECK: tile.any
// CHECK: tile.load_cached {{.*}} limit {{.*}} -> <16x128xf16, mma_b>
// CHECK: tile.release %{{.*}}[%{{.*}}]
// CHECK: tile.role "load" warps = 1
// CHECK: tile.fill_stage %{{.*}}[%{{.*}}] from

// Two stages, and their four barriers; then the table.
// SHARED: tile.ring async 4 {offset = 0 : i64}
// SHARED: tile.alloc {offset = 36928 : i64} : <256x8xi8, shared>

// TEXT: __launch_bounds__(160, 2) void pages(
// TEXT: AsyncRing<u8, 2, 18432, 4>(
// TEXT: barrier();
// TEXT: if (warpId() < 4) { // role attend
// TEXT: fillCodeTable<0, 4>(
// TEXT: barrierOf(1, 128);
// TEXT: gatherAt(
// TEXT: load<OperandA<bf16, 128>>({{.*}}, 128, {{.*}})
// TEXT: toOperand(
// TEXT: .wait(
// TEXT: cached_e2m1<OperandB<f16, 128, 16>>(
// TEXT: mmaFragments(
// TEXT: reduceMaxRows(
// TEXT: reduceMaxOrNanColumns(
// TEXT: map<RowsOfAcc<bool>>(
// TEXT: anyOf(
// TEXT: map<FragmentAcc<16>>(
// TEXT: exponential2(
// TEXT: cached_e2m1<OperandB<f16, 16, 128>>({{.*}}, s{{[0-9]+}});
// TEXT: .release(
// TEXT: (f32 *)ring{{[0-9]+}}.base
// TEXT: storeRegisters(
// TEXT: } else if (warpId() < 5) { // role load
// TEXT: .acquire(
// TEXT: .fill(
// TEXT: .commit(
// TEXT: }  // tile.roles
// TEXT: loadRegisters<FragmentAcc<16>>(
// TEXT: storeColumns(
// TEXT: storeSpread<16>(
// TEXT: arriveLast(

// WIDE: __launch_bounds__(288, 2) void pages(
// WIDE: AsyncRing<u8, 3, 18432, 8>(
// WIDE: fillCodeTable<0, 8>(
// WIDE: barrierOf(1, 256);
// WIDE: } else if (warpId() < 9)

// E4M3-NOT: fillCodeTable
// E4M3: cached_e4m3<OperandB<f16, 128, 16>>(
// E4M3: cached_e4m3<OperandB<f16, 16, 128>>(
tile.kernel @pages(%query: !tile.view<?x128xi16>, %pool: !tile.view<?xi8>, %list: !tile.view<?xi32>, %out: !tile.view<?x128xi16>, %best: !tile.view<?xf32>, %counters: !tile.view<?xi32>, %n: index)
    attributes {family = "test", schedule = {}, warps = 5, residents = 2} {
  %ring = tile.ring async 4 : !tile.ring<2, 18432xi8>
  %table = tile.alloc : !tile.view<256x8xi8, shared>
  %rows = tile.alloc : !tile.view<1x2x16xf32, shared>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  %warp = tile.warp_id
  tile.barrier
  tile.roles {
    tile.role "attend" warps = 4 {
      tile.code_table %table : !tile.view<256x8xi8, shared>
      tile.barrier
      %number = tile.iota : !tile.tile<1x16xi32, mma_columns>
      %position = tile.gather %list[%c0] at %number : !tile.view<?xi32>, !tile.tile<1x16xi32, mma_columns> -> !tile.tile<1x16xi32, mma_columns>
      %stored = tile.load %query[%c0, %c0] sizes [16, 128] limit %c16 : !tile.view<?x128xi16> -> !tile.tile<16x128xbf16, mma_a>
      %q = tile.to_operand %stored : !tile.tile<16x128xbf16, mma_a> -> !tile.tile<16x128xf16, mma_a>
      %start = tile.fill %zero : f32 -> !tile.tile<16x128xf32, mma_acc>
      %none = tile.fill %zero : f32 -> !tile.tile<16x16xf32, mma_acc>
      %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %start) -> !tile.tile<16x128xf32, mma_acc> {
        %stage = tile.wait %ring[%i] : !tile.ring<2, 18432xi8> -> !tile.view<18432xi8, shared>
        %k = tile.reinterpret %stage[%c0] : !tile.view<18432xi8, shared> -> !tile.view<128x64xi8, shared>
        %s = tile.reinterpret %stage[%c16] : !tile.view<18432xi8, shared> -> !tile.view<1024xi8, shared> // %scales
        %keys = tile.load_cached %k[%c16] scales %s : !tile.view<1024xi8, shared> table %table : !tile.view<256x8xi8, shared> format e2m1 : !tile.view<128x64xi8, shared> -> !tile.tile<128x16xf16, mma_b>
        %score = tile.mma %q, %keys, %none : !tile.tile<16x128xf16, mma_a>, !tile.tile<128x16xf16, mma_b>, !tile.tile<16x16xf32, mma_acc> -> !tile.tile<16x16xf32, mma_acc>
        %top = tile.reduce max %score : !tile.tile<16x16xf32, mma_acc> -> !tile.tile<16x1xf32, mma_rows>
        %column = tile.reduce max_or_nan %score : !tile.tile<16x16xf32, mma_acc> -> !tile.tile<1x16xf32, mma_columns>
        %grows = tile.map (%top : !tile.tile<16x1xf32, mma_rows>) -> !tile.tile<16x1xi1, mma_rows> {
        ^bb0(%x: f32):
          %g = arith.cmpf ogt, %x, %zero : f32
          tile.yield %g : i1
        }
        %any = tile.any %grows : !tile.tile<16x1xi1, mma_rows>
        scf.if %any {
          tile.store_columns %column, %best[%c0] stride %n limit %c16 : !tile.tile<1x16xf32, mma_columns>, !tile.view<?xf32>
        }
        %p = tile.map (%score, %top, %column : !tile.tile<16x16xf32, mma_acc>, !tile.tile<16x1xf32, mma_rows>, !tile.tile<1x16xf32, mma_columns>) -> !tile.tile<16x16xf32, mma_acc> {
        ^bb0(%x: f32, %y: f32, %z: f32):
          %d = arith.subf %x, %y : f32
          %m = arith.maximumf %d, %z : f32
          %e = math.exp2 %m : f32
          tile.yield %e : f32
        }
        %left = tile.to_operand %p : !tile.tile<16x16xf32, mma_acc> -> !tile.tile<16x16xf16, mma_a>
        %seen = arith.subi %n, %i : index
        %values = tile.load_cached %k[%c16] scales %s : !tile.view<1024xi8, shared> table %table : !tile.view<256x8xi8, shared> limit %seen format e2m1 : !tile.view<128x64xi8, shared> -> !tile.tile<16x128xf16, mma_b>
        %next = tile.mma %left, %values, %acc : !tile.tile<16x16xf16, mma_a>, !tile.tile<16x128xf16, mma_b>, !tile.tile<16x128xf32, mma_acc> -> !tile.tile<16x128xf32, mma_acc>
        tile.release %ring[%i] : !tile.ring<2, 18432xi8>
        scf.yield %next : !tile.tile<16x128xf32, mma_acc>
      }
      %memory = tile.ring_memory %ring : !tile.ring<2, 18432xi8> -> !tile.view<1x16x32x4xf32, shared>
      tile.store %sum, %memory[%c0, %c0, %c0, %c0] sizes [1, 16, 32, 4] : !tile.tile<16x128xf32, mma_acc>, !tile.view<1x16x32x4xf32, shared>
    }
    tile.role "load" warps = 1 {
      scf.for %i = %c0 to %n step %c1 {
        %stage = tile.acquire %ring[%i] : !tile.ring<2, 18432xi8> -> !tile.view<18432xi8, shared>
        tile.fill_stage %ring[%i] from %pool[%i] : !tile.ring<2, 18432xi8>, !tile.view<?xi8>
        tile.commit %ring[%i] : !tile.ring<2, 18432xi8>
      }
    }
  }
  tile.barrier
  %memory = tile.ring_memory %ring : !tile.ring<2, 18432xi8> -> !tile.view<1x16x32x4xf32, shared>
  %part = tile.load %memory[%c0, %c0, %c0, %c0] sizes [1, 2, 32, 4] : !tile.view<1x16x32x4xf32, shared> -> !tile.tile<16x16xf32, mma_acc>
  %largest = tile.reduce max_or_nan %part : !tile.tile<16x16xf32, mma_acc> -> !tile.tile<1x16xf32, mma_columns>
  tile.store_columns %largest, %best[%c0] stride %n limit %c16 : !tile.tile<1x16xf32, mma_columns>, !tile.view<?xf32>
  tile.store_spread %part, %out[%c0, %c0] spread 16 limit %c16 : !tile.tile<16x16xf32, mma_acc>, !tile.view<?x128xi16>
  %last = tile.arrive %counters[%c0] of %n : !tile.view<?xi32>
  scf.if %last {
    tile.store_scalar %zero, %best[%c0] : f32, !tile.view<?xf32>
  }
  tile.return
}
