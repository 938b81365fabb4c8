// What the kernels of a decode step are in machine code for MI350X and MI355X: compiled by clang and lld in process, and
// inspected; nothing here has run on a chip. Table and byte permutation, products of E4M3 and of FP16, loads past the
// registers; no scratch memory, and no access of which waits do not know the memory.
// RUN: rm -rf %t && mkdir %t
// RUN: m3c compile %root/tests/data/m31-nano --target gfx950 --kv nvfp4 --buckets 1,8 --keep-sources -o %t/p.m3plan --cache-dir %t/cache --progress none
// RUN: m3c extract %t/p.m3plan -o %t/x --disassembly
// RUN: m3c inspect %t/p.m3plan | FileCheck %s --check-prefix=PLAN
// RUN: cat %t/x/code/attention*.gfx950.s | FileCheck %s --check-prefix=ATTENTION
// RUN: cat %t/x/code/index_score*.gfx950.s | FileCheck %s --check-prefix=SCORE
// RUN: cat %t/x/code/block_topk*.gfx950.s | FileCheck %s --check-prefix=TOPK
// RUN: cat %t/x/source/attention*.hip | FileCheck %s --check-prefix=TEXT

// 128 registers are what sixteen waves of a compute unit have each, 168 what twelve have, 512 what four have; nothing
// is spilled. For eight rows attention keeps the sums of all of them.
// PLAN: it is not complete: {{[0-9]+}} of its {{[0-9]+}} launches are of kernels for x86-avx2; --emulate gfx950 runs it
// PLAN: attention_{{.*}}_shared_rows8{{.*}} gfx950 {{[0-9.]+}} KiB, {{4[0-9][0-9]|50[0-9]|51[0-2]}} registers{{$}}
// PLAN: attention_{{.*}}_consumers8{{.*}} gfx950 {{[0-9.]+}} KiB, 1{{[0-6][0-9]}} registers{{$}}
// PLAN: block_topk_{{.*}} gfx950 {{[0-9.]+}} KiB, {{[0-9]+}} registers{{$}}
// PLAN: index_score_{{.*}} gfx950 {{[0-9.]+}} KiB, {{[0-9][0-9]|1[01][0-9]}} registers{{$}}

// ATTENTION-NOT: {{scratch_|flat_(load|store|atomic)}}
// ATTENTION-DAG: global_load_lds_dwordx4
// ATTENTION-DAG: v_perm_b32
// ATTENTION-DAG: v_bitop3_b32
// ATTENTION-DAG: v_cvt_scalef32_pk_f16_fp8
// ATTENTION-DAG: v_mfma_f32_16x16x128_f8f6f4
// ATTENTION-DAG: v_mfma_f32_16x16x32_f16
// ATTENTION-DAG: s_waitcnt{{.*}}vmcnt(0)
// ATTENTION-DAG: s_barrier
// SCORE-NOT: {{scratch_|flat_(load|store|atomic)}}
// SCORE-DAG: global_load_lds_dwordx4
// SCORE-DAG: v_perm_b32
// SCORE-DAG: v_mfma_f32_16x16x128_f8f6f4
// SCORE-DAG: v_maximum3_f32
// TOPK-NOT: {{scratch_|flat_(load|store|atomic)}}
// TOPK: s_endpgm

// TEXT: extern "C" __global__ M3_THREADS(256) void attention_
// TEXT: fillCodeTable<0, 4>(
// TEXT: barrier();
// TEXT: .fill(
// TEXT: cached_e2m1<OperandB<e4m3, 128, 32>>(
// TEXT: cached_e2m1<OperandB<f16, 32, 128>>(
// TEXT: toOperand(
// TEXT: extern "C" __global__ M3_THREADS(768) void attention_
// TEXT: if (warpId() < 8) { // role attend
// TEXT: fillCodeTable<0, 8>(
// TEXT: barrier();
// TEXT: cached_e2m1<OperandB<e4m3, 128, 32>>(
// TEXT: toOperand(
// TEXT: cached_e2m1<OperandB<f16, 32, 128>>(
// TEXT: } else if (warpId() < 12) { // role load
// TEXT: .fill(
