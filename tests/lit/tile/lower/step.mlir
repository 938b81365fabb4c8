// From m3 operations to kernels, weight buffers and launches.
// RUN: m3-opt %s -m3-to-tile="chip=x86-avx2 buckets=1,64" | FileCheck %s
// RUN: m3-opt %s -m3-to-tile="chip=x86-avx2 buckets=64 schedule=project.rows=3,project.k_chunk=64" | FileCheck %s --check-prefix=SCHEDULE
// RUN: not m3-opt %s -m3-to-tile="chip=x86-avx2 schedule=rows" 2>&1 | FileCheck %s --check-prefix=BADSCHEDULE
// RUN: not m3-opt %s -m3-to-tile="chip=x86-avx2 buckets=0" 2>&1 | FileCheck %s --check-prefix=NOROWS
// RUN: not m3-opt %s -m3-to-tile="chip=x86-avx2 buckets=1,65537" 2>&1 | FileCheck %s --check-prefix=MANYROWS
// RUN: m3-opt %s -m3-to-tile="chip=x86-avx2 buckets=1,64" --counts -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=COUNTS

// COUNTS: m3-to-tile.kernels = 6 (
// COUNTS-NEXT: m3-to-tile.launches = 8 (

// NOROWS: error: a bucket of 0 rows: from 1 to 65536 are possible
// MANYROWS: error: a bucket of 65537 rows: from 1 to 65536 are possible
// BADSCHEDULE: schedule choice 'rows' is not of the form family.choice=number

// CHECK-NOT: m3.weight
// CHECK-DAG: plan.weight_buffer @embed.raw raw bits = 16
// CHECK-DAG: plan.weight_buffer @layers.0.q_proj.words panel_words bits = 8 row_length = 128 panels = 32 abreast = 2 bytes = 65536
// CHECK-DAG: plan.weight_buffer @layers.0.q_proj.scales panel_scales bits = 8 row_length = 4 panels = 32 abreast = 2 bytes = 2048
// CHECK-DAG: plan.weight_buffer @layers.0.o_proj.global scalar
// One row streams codes through registers; many rows go through a ring between two roles.
// CHECK: tile.kernel @[[ONE:project_mxfp8_512x128_ahead64_panels2_ring0_rows1]]
// CHECK: tile.copy {{.*}} bytes 128
// CHECK-NOT: tile.pipeline
// CHECK: tile.kernel @[[MANY:project_mxfp8_512x128_k_chunk128_panels1_ring1_row_block192_rows6_stages1]]
// CHECK: tile.role "dequantise"
// CHECK: tile.role "multiply"
// CHECK: plan.program @step
// CHECK: plan.bucket rows = 1 logit_rows = 1
// CHECK: plan.launch @[[ONE]]({{.*}}) grid [16, 1, 1] label "layers.0.q_proj"
// CHECK: plan.bucket rows = 64 logit_rows = 64
// CHECK: plan.launch @[[MANY]]({{.*}}) grid [32, 1, 1] label "layers.0.q_proj"

// The schedule decides the register tile and the stage of the ring.
// SCHEDULE: tile.ring : <1, 64x16xf32>
// SCHEDULE: tile.mma {{.*}} : <3x1xf32>, <1x16xf32>, <3x16xf32>

m3.weight @embed : !m3.weight<512x128, bf16> {parts = [#m3.part<values, "e", "BF16", [512, 128]>]}
m3.weight @norm : !m3.weight<128, bf16> {parts = [#m3.part<values, "n", "BF16", [128]>]}
m3.weight @layers.0.q_proj : !m3.weight<512x128, mxfp8> {parts = [
  #m3.part<values, "q", "F8_E4M3", [512, 128]>, #m3.part<block_scale, "qs", "U8", [512, 4]>]}
m3.weight @layers.0.o_proj : !m3.weight<128x512, nvfp4> {parts = [
  #m3.part<values, "o", "U8", [128, 256]>, #m3.part<block_scale, "os", "F8_E4M3", [128, 32]>,
  #m3.part<global_scale, "og", "F32", []>]}
func.func @step(%batch: !m3.batch) -> tensor<?x128xf32> attributes {m3.step} {
  %h = m3.embed %batch, @embed : tensor<?x128xf32>
  %n = m3.norm %h, @norm {eps = 1.0e-6} : tensor<?x128xf32>
  %q = m3.project %n, @layers.0.q_proj : tensor<?x128xf32> -> tensor<?x512xf32>
  %h1 = m3.fused "residual_project"(%a = %h : tensor<?x128xf32>, %b = %q : tensor<?x512xf32>) -> (tensor<?x128xf32>) {
    %p = m3.project %b, @layers.0.o_proj : tensor<?x512xf32> -> tensor<?x128xf32>
    %sum = arith.addf %a, %p : tensor<?x128xf32>
    m3.yield %sum : tensor<?x128xf32>
  }
  return %h1 : tensor<?x128xf32>
}
