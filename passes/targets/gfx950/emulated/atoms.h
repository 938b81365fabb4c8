// The emulator's form of device/atoms.h: each instruction as the CDNA4 ISA reference guide and
// vendors' test code define it, written from these and not from the kernels. An instruction that
// lanes do together gets the operands of all lanes (m3emu::together).
#pragma once

#include "hip.h"

#include "codes.h"

#define M3_ATOM M3EMU_INLINE

//===- Where this thread is -------------------------------------------------------------------===//

M3_ATOM i32 threadNumber() { return (i32)m3emu::self()->index.x; }
M3_ATOM i64 blockNumberX() { return m3emu::self()->block.x; }
M3_ATOM i64 blockNumberY() { return m3emu::self()->block.y; }
M3_ATOM i64 blockNumberZ() { return m3emu::self()->block.z; }

//===- Lanes of a wave ------------------------------------------------------------------------===//
// All lanes are active wherever kernels do this.

M3_ATOM u32 valueOfLane(u32 value, i32 lane) {
  return m3emu::fromLane("ds_bpermute_b32", value, (u32)lane % 64);
}
M3_ATOM u32 valueOfFirst(u32 value) { return m3emu::fromLane("v_readfirstlane_b32", value, 0); }
M3_ATOM u64 lanesThat(bool condition) {
  u64 lanes = 0;
  m3emu::fromLanes("v_cmp to scalar registers", condition,
                   [&](unsigned lane, unsigned long holds) { lanes |= (u64)holds << lane; });
  return lanes;
}
/// The value of the lane n before, within the row of 16 and around it.
template <int n> M3_ATOM u32 rotatedRow(u32 value) {
  const u32 lane = m3emu::self()->lane;
  return m3emu::fromLane("dpp row_ror", value, (lane & ~15u) | ((lane - n) & 15u));
}
/// Rows 1 and 3 of a change places with rows 0 and 2 of b.
M3_ATOM void swapRows(u32 &a, u32 &b) {
  const u32 lane = m3emu::self()->lane, odd = lane / 16 % 2;
  const u32 ofA = m3emu::fromLane("v_permlane16_swap_b32", a, lane + (odd ? 0 : 16));
  const u32 ofB = m3emu::fromLane("v_permlane16_swap_b32", b, lane - (odd ? 16 : 0));
  if (odd)
    a = ofB;
  else
    b = ofA;
}
M3_ATOM void swapHalves(u32 &a, u32 &b) {
  const u32 lane = m3emu::self()->lane, high = lane / 32;
  const u32 ofA = m3emu::fromLane("v_permlane32_swap_b32", a, lane + (high ? 0 : 32));
  const u32 ofB = m3emu::fromLane("v_permlane32_swap_b32", b, lane - (high ? 32 : 0));
  if (high)
    a = ofB;
  else
    b = ofA;
}
M3_ATOM void waveBarrier() {
  m3emu::Thread *t = m3emu::self();
  t->calls->meet(t, "wave barrier", ~0ul, nullptr, true);
}

//===- Codes and numbers ----------------------------------------------------------------------===//

/// Selector bytes 0 … 3: bytes of `low`, 4 … 7: of `high`; kernels use no others.
M3_ATOM u32 permuteBytes(u32 low, u32 high, u32 selector) {
  const u64 both = (u64)high << 32 | low;
  u32 out = 0;
  for (int i = 0; i < 4; ++i) {
    const u32 from = selector >> 8 * i & 0xffu;
    if (from > 7)
      m3emu::self()->calls->fail(m3emu::self(), "selects a byte beyond 7 with v_perm_b32");
    out |= (u32)(both >> 8 * from & 0xffu) << 8 * i;
  }
  return out;
}
M3_ATOM u32 f16OfE4m3Low(u32 codes) {
  return m3emu::f16OfE4m3(codes & 0xffu) | m3emu::f16OfE4m3(codes >> 8 & 0xffu) << 16;
}
M3_ATOM u32 f16OfE4m3High(u32 codes) { return f16OfE4m3Low(codes >> 16); }
/// With MODE.FP16_OVFL = 0, as kernels run, what is beyond 448 when rounded is NaN.
M3_ATOM u32 e4m3OrNan(f32 x) {
  const u32 code = m3emu::e4m3Of(x);
  return __builtin_fabsf(x) > 464.0f ? code | 0x7fu : code; // 464: between 448 and the next, 480
}
M3_ATOM u32 packE4m3(f32 low, f32 high) { return e4m3OrNan(low) | e4m3OrNan(high) << 8; }
M3_ATOM u32 packF16(f32 low, f32 high) { return m3emu::f16Of(low) | m3emu::f16Of(high) << 16; }
M3_ATOM u32 packBf16(f32 low, f32 high) { return m3emu::bf16Of(low) | m3emu::bf16Of(high) << 16; }
/// The nearest; the instruction is within one unit in the last place of it.
M3_ATOM f32 exponential2(f32 x) { return m3emu::nearestPower(x); }
M3_ATOM f32 maximumOrNan(f32 a, f32 b) {
  return a != a || b != b ? __builtin_nanf("") : a > b ? a : b;
}

//===- Matrix instructions --------------------------------------------------------------------===//
// Sums are those of exact products in FP64, rounded once: how the hardware rounds on its way, and
// what it does with subnormals, is not documented.

template <int registers> struct MfmaOperands {
  f32 *acc;
  const u32 *a, *b;
};

/// `decode(lane's registers, j)` is element j of a lane, `k(lane / 16, j)` the k it has.
template <int registers, int K, class Decode, class Place>
M3_ATOM void mfma16x16(MfmaOperands<registers> *const *lanes, Decode decode, Place place) {
  static_assert(K / 4 * 16 <= registers * 32 * 4);
  f64 a[16][K], b[16][K];
  for (int lane = 0; lane < 64; ++lane)
    for (int j = 0; j < K / 4; ++j) {
      const int k = place(lane / 16, j);
      a[lane % 16][k] = decode(lanes[lane]->a, j);
      b[lane % 16][k] = decode(lanes[lane]->b, j);
    }
  for (int lane = 0; lane < 64; ++lane)
    for (int i = 0; i < 4; ++i) {
      f64 parts[4] = {}; // any order will do
      const f64 *const row = a[lane / 16 * 4 + i], *const column = b[lane % 16];
      for (int k = 0; k < K; ++k)
        parts[k % 4] += row[k] * column[k];
      f32 &sum = lanes[lane]->acc[i];
      sum = (f32)((f64)sum + (parts[0] + parts[1] + parts[2] + parts[3]));
    }
}

/// Element j of lane 16g + r: row or column r, k = 8g + j.
__attribute__((noinline)) inline void allMfmaF16(MfmaOperands<4> *const *lanes) {
  mfma16x16<4, 32>(
      lanes,
      [](const u32 *v, int j) {
        return (f64) __builtin_bit_cast(_Float16, (u16)(v[j / 2] >> 16 * (j % 2)));
      },
      [](int g, int j) { return 8 * g + j; });
}
M3_ATOM void mfmaF16(f32 (&acc)[4], const u32 (&a)[4], const u32 (&b)[4]) {
  MfmaOperands<4> mine = {acc, a, b};
  m3emu::together<MfmaOperands<4>, allMfmaF16>("v_mfma_f32_16x16x32_f16", mine);
}

/// Element j of lane 16g + r: row or column r, k = 64 (j / 16) + 16 g + j % 16.
__attribute__((noinline)) inline void allMfmaE4m3(MfmaOperands<8> *const *lanes) {
  mfma16x16<8, 128>(
      lanes,
      [](const u32 *v, int j) { return (f64)m3emu::valueOfE4m3(v[j / 4] >> 8 * (j % 4) & 0xffu); },
      [](int g, int j) { return 64 * (j / 16) + 16 * g + j % 16; });
}
M3_ATOM void mfmaE4m3(f32 (&acc)[4], const u32 (&a)[8], const u32 (&b)[8]) {
  MfmaOperands<8> mine = {acc, a, b};
  m3emu::together<MfmaOperands<8>, allMfmaE4m3>("v_mfma_f32_16x16x128_f8f6f4", mine);
}

//===- Shared memory --------------------------------------------------------------------------===//

/// The address in shared memory is a scalar: that of the first lane counts.
M3_ATOM void copyToShared(void *to, const void *from) {
  m3emu::Thread *t = m3emu::self();
  const u64 first = m3emu::fromLane("v_readfirstlane_b32", (u64)to, 0);
  t->calls->copyAsync(t, (u8 *)first + 16 * t->lane, from, 16, 16);
  t->calls->commitCopies(t);
}
M3_ATOM void waitForCopies() {
  m3emu::Thread *t = m3emu::self();
  t->calls->waitCopies(t, 0);
}
M3_ATOM void itemBarrier() {
  m3emu::Thread *t = m3emu::self();
  t->calls->barrier(t, 0, 0, true);
}
M3_ATOM void raise(u32 *counter, u32 by) {
  m3emu::Thread *t = m3emu::self();
  t->calls->raise(t, counter, by);
}
M3_ATOM void startCounter(u32 *counter) {
  m3emu::Thread *t = m3emu::self();
  t->calls->startCounter(t, counter);
}
M3_ATOM void awaitCounter(u32 *counter, u32 least) {
  m3emu::Thread *t = m3emu::self();
  t->calls->awaitCounter(t, counter, least);
}
M3_ATOM bool anyOfItem(bool holds) {
  m3emu::Thread *t = m3emu::self();
  return t->calls->barrierOr(t, holds);
}

//===- Other work items -----------------------------------------------------------------------===//

M3_ATOM i32 addToCounter(i32 *counter, i32 by) {
  m3emu::Thread *t = m3emu::self();
  t->calls->countIn(t);
  m3emu::updating(counter, sizeof *counter);
  return __atomic_fetch_add(counter, by, __ATOMIC_SEQ_CST);
}
