// Instructions without a spelling in C++, as clang's builtins: CDNA4 ISA reference guide. They
// stand in this file alone.
#pragma once

#include "hip.h"

#define M3_ATOM __device__ __forceinline__

using u32x2 = u32 __attribute__((ext_vector_type(2)));
using i32x8 = i32 __attribute__((ext_vector_type(8)));
using f32x4 = f32 __attribute__((ext_vector_type(4)));
using f16x8 = _Float16 __attribute__((ext_vector_type(8)));
using f16x2 = _Float16 __attribute__((ext_vector_type(2)));
using f32x2 = f32 __attribute__((ext_vector_type(2)));
using bf16x2 = __bf16 __attribute__((ext_vector_type(2)));

//===- Where this thread is -------------------------------------------------------------------===//

M3_ATOM i32 threadNumber() { return (i32)__builtin_amdgcn_workitem_id_x(); }
M3_ATOM i64 blockNumberX() { return __builtin_amdgcn_workgroup_id_x(); }
M3_ATOM i64 blockNumberY() { return __builtin_amdgcn_workgroup_id_y(); }
M3_ATOM i64 blockNumberZ() { return __builtin_amdgcn_workgroup_id_z(); }

//===- Lanes of a wave ------------------------------------------------------------------------===//

/// DS_BPERMUTE_B32: the value of lane `lane`.
M3_ATOM u32 valueOfLane(u32 value, i32 lane) {
  return (u32)__builtin_amdgcn_ds_bpermute(4 * lane, (i32)value);
}
/// V_READFIRSTLANE_B32: the value of the first lane, a scalar.
M3_ATOM u32 valueOfFirst(u32 value) { return __builtin_amdgcn_readfirstlane(value); }
/// V_CMP into a pair of scalar registers: a bit for each lane.
M3_ATOM u64 lanesThat(bool condition) { return __builtin_amdgcn_ballot_w64(condition); }
/// DPP_ROW_RR: of the row of 16 lanes, the value of the lane n before, around the row.
template <int n> M3_ATOM u32 rotatedRow(u32 value) {
  return (u32)__builtin_amdgcn_update_dpp(0, (i32)value, 0x120 + n, 15, 15, true);
}
/// V_PERMLANE16_SWAP_B32: odd rows of 16 lanes of a change places with even rows of b.
M3_ATOM void swapRows(u32 &a, u32 &b) {
  auto both = __builtin_amdgcn_permlane16_swap(a, b, false, false);
  a = both[0], b = both[1];
}
/// V_PERMLANE32_SWAP_B32: the upper 32 lanes of a change places with the lower ones of b.
M3_ATOM void swapHalves(u32 &a, u32 &b) {
  auto both = __builtin_amdgcn_permlane32_swap(a, b, false, false);
  a = both[0], b = both[1];
}
/// Memory accesses of the wave before this are done in order before those after it.
M3_ATOM void waveBarrier() {
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
}

//===- Codes and numbers ----------------------------------------------------------------------===//

/// V_PERM_B32: byte i of the result is byte `selector` byte i of low (0 … 3), high (4 … 7).
M3_ATOM u32 permuteBytes(u32 low, u32 high, u32 selector) {
  return __builtin_amdgcn_perm(high, low, selector);
}
/// V_CVT_SCALEF32_PK_F16_FP8 with scale 1: two E4M3 codes, in the low or high half, to FP16, exact.
M3_ATOM u32 f16OfE4m3Low(u32 codes) {
  return __builtin_bit_cast(u32, __builtin_amdgcn_cvt_scalef32_pk_f16_fp8(codes, 1.0f, false));
}
M3_ATOM u32 f16OfE4m3High(u32 codes) {
  return __builtin_bit_cast(u32, __builtin_amdgcn_cvt_scalef32_pk_f16_fp8(codes, 1.0f, true));
}
/// V_CVT_PK_FP8_F32: two FP32 of at most 448 to E4M3, nearest even; `low` in the low byte. Beyond
/// 448 it depends on MODE.FP16_OVFL.
M3_ATOM u32 packE4m3(f32 low, f32 high) {
  return (u32)__builtin_amdgcn_cvt_pk_fp8_f32(low, high, 0, false) & 0xffffu;
}
/// V_CVT_PK_F16_F32, V_CVT_PK_BF16_F32: two FP32, nearest even, `low` in the low half.
M3_ATOM u32 packF16(f32 low, f32 high) {
  return __builtin_bit_cast(u32, __builtin_convertvector((f32x2){low, high}, f16x2));
}
M3_ATOM u32 packBf16(f32 low, f32 high) {
  return __builtin_bit_cast(u32, __builtin_convertvector((f32x2){low, high}, bf16x2));
}
/// V_EXP_F32: 2^x within one unit in the last place; subnormals count as zero.
M3_ATOM f32 exponential2(f32 x) { return __builtin_amdgcn_exp2f(x); }
/// V_MAXIMUM3_F32: NaN if one of them is.
M3_ATOM f32 maximumOrNan(f32 a, f32 b) { return __builtin_elementwise_maximum(a, b); }

//===- Matrix instructions --------------------------------------------------------------------===//

/// V_MFMA_F32_16X16X32_F16: acc += a · b. Lane l has of a the row, of b the column l % 16 at
/// k = 8 (l / 16) + 0 … 7, of acc rows 4 (l / 16) + 0 … 3 of column l % 16.
M3_ATOM void mfmaF16(f32 (&acc)[4], const u32 (&a)[4], const u32 (&b)[4]) {
  f32x4 sum = {acc[0], acc[1], acc[2], acc[3]};
  sum = __builtin_amdgcn_mfma_f32_16x16x32_f16(
      __builtin_bit_cast(f16x8, (uint4){a[0], a[1], a[2], a[3]}),
      __builtin_bit_cast(f16x8, (uint4){b[0], b[1], b[2], b[3]}), sum, 0, 0, 0);
  acc[0] = sum[0], acc[1] = sum[1], acc[2] = sum[2], acc[3] = sum[3];
}
/// V_MFMA_F32_16X16X128_F8F6F4, both E4M3: the same, 16 k from 16 (l / 16) on in the first four
/// registers and from 64 + 16 (l / 16) on in the last four.
M3_ATOM void mfmaE4m3(f32 (&acc)[4], const u32 (&a)[8], const u32 (&b)[8]) {
  f32x4 sum = {acc[0], acc[1], acc[2], acc[3]};
  const i32x8 left = {(i32)a[0], (i32)a[1], (i32)a[2], (i32)a[3],
                      (i32)a[4], (i32)a[5], (i32)a[6], (i32)a[7]};
  const i32x8 right = {(i32)b[0], (i32)b[1], (i32)b[2], (i32)b[3],
                       (i32)b[4], (i32)b[5], (i32)b[6], (i32)b[7]};
  sum = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(left, right, sum, 0, 0, 0, 0, 0, 0);
  acc[0] = sum[0], acc[1] = sum[1], acc[2] = sum[2], acc[3] = sum[3];
}

//===- Shared memory --------------------------------------------------------------------------===//

/// GLOBAL_LOAD_LDS_DWORDX4: 16 bytes of each lane to `to` + 16 · lane, past the registers. They are
/// there once the wave has waited (waitForCopies).
M3_ATOM void copyToShared(void *to, const void *from) {
  __builtin_amdgcn_global_load_lds((__attribute__((address_space(1))) void *)from,
                                   (__attribute__((address_space(3))) void *)to, 16, 0, 0);
}
/// S_WAITCNT VMCNT(0): all copies of this wave are there.
M3_ATOM void waitForCopies() {
  __builtin_amdgcn_s_waitcnt(0x0f70); // the counters of shared memory and exports as they are
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
}
/// S_BARRIER: all waves of the work item; what they stored is seen after it.
M3_ATOM void itemBarrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
/// DS_ADD_U32, after all that this wave has done: whoever sees the sum sees that.
M3_ATOM void raise(u32 *counter, u32 by) {
  __scoped_atomic_fetch_add((__attribute__((address_space(3))) u32 *)counter, by, __ATOMIC_RELEASE,
                            __MEMORY_SCOPE_WRKGRP);
}
M3_ATOM void startCounter(u32 *counter) { *counter = 0; }
/// Reads a counter until it is `least` or more; S_SLEEP between.
M3_ATOM void awaitCounter(u32 *counter, u32 least) {
  while (__scoped_atomic_load_n((__attribute__((address_space(3))) u32 *)counter, __ATOMIC_ACQUIRE,
                                __MEMORY_SCOPE_WRKGRP) < least)
    __builtin_amdgcn_s_sleep(1);
}
/// Of all threads of the work item: whether one of them says so.
M3_ATOM bool anyOfItem(bool holds) {
  static __shared__ u32 answer;
  if (threadNumber() == 0)
    answer = 0;
  itemBarrier();
  if (holds)
    answer = 1;
  itemBarrier();
  return answer;
}

//===- Other work items -----------------------------------------------------------------------===//

/// GLOBAL_ATOMIC_ADD: the value before. What this thread knows is seen by whoever adds later.
M3_ATOM i32 addToCounter(i32 *counter, i32 by) {
  return __scoped_atomic_fetch_add(counter, by, __ATOMIC_ACQ_REL, __MEMORY_SCOPE_DEVICE);
}
