// The emulator's form of device/atoms.h: each instruction as the PTX ISA defines it, written from
// that text and not from the kernels. An instruction that lanes do together gets the operands of
// all lanes (m3emu::together).
#pragma once

#include "access.h"
#include "codes.h"
#include "matrix.h"

struct MmaOperands {
  f32 *acc;
  const u32 *a, *b;
};

/// PTX ISA, "Matrix fragments for mma.m16n8k16": lane 4g + t holds
///   a[0…3]: rows g, g + 8, g, g + 8 at k = 2t, 2t + 1 (the last two: + 8), the first k in the low
///   half, b[0…1]: column g at the same k, acc[0…3]: rows g, g, g + 8, g + 8 at columns 2t, 2t + 1.
template <class Format> __attribute__((noinline)) void mmaM16n8k16(MmaOperands *const *lanes) {
  u16 a[16][16], b[8][16];
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i)
      for (int half = 0; half < 2; ++half)
        a[g + i % 2 * 8][i / 2 * 8 + 2 * t + half] = (u16)(lanes[lane]->a[i] >> 16 * half);
    for (int i = 0; i < 2; ++i)
      for (int half = 0; half < 2; ++half)
        b[g][i * 8 + 2 * t + half] = (u16)(lanes[lane]->b[i] >> 16 * half);
  }
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      f32 &sum = lanes[lane]->acc[i];
      sum = m3emu::fusedSum<Format, Format, 16, 25>(a[lane / 4 + i / 2 * 8],
                                                    b[2 * (lane % 4) + i % 2], sum);
    }
}

M3_INLINE void mmaBf16(f32 (&acc)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  MmaOperands mine = {acc, a, b};
  m3emu::together<MmaOperands, mmaM16n8k16<m3emu::Bf16>>("mma.sync.m16n8k16", mine);
}

/// One BF16 product, nearest even. The exact product fits FP64; on its way it is cut to FP32 with
/// its last bit set where something was cut, so that it is rounded once.
M3_INLINE u32 multiplyOneBf16(u32 a, u32 b) {
  const f64 exact = (f64)bitsAs<f32>(a << 16) * (f64)bitsAs<f32>(b << 16);
  if (exact != exact)
    return 0x7fffu;
  const f32 near = (f32)exact;
  u32 bits = bitsAs<u32>(near);
  if ((f64)near != exact && (bits & 0x7fffffffu) != 0x7f800000u)
    bits = (bits - (__builtin_fabs((f64)near) > __builtin_fabs(exact))) | 1u;
  return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
M3_INLINE u32 multiplyBf16(u32 a, u32 b) {
  return multiplyOneBf16(a & 0xffffu, b & 0xffffu) | multiplyOneBf16(a >> 16, b >> 16) << 16;
}

M3_INLINE int4 loadOnce(const int4 *p) { return loadAt(p); }
M3_INLINE u16 loadOnce(const u16 *p) { return loadAt(p); }

M3_INLINE i32 countIn(i32 *counter) {
  m3emu::Thread *t = m3emu::self();
  t->calls->countIn(t);
  return atomicAdd(counter, 1);
}

/// A prefetch changes nothing and never faults.
M3_INLINE void prefetchLine(const u8 *) {}

M3_INLINE void mmaF16(f32 (&acc)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  MmaOperands mine = {acc, a, b};
  m3emu::together<MmaOperands, mmaM16n8k16<m3emu::F16>>("mma.sync.m16n8k16", mine);
}

M3_INLINE i32 settled(i32 number) { return number; }

M3_INLINE u32 permuteBytes(u32 a, u32 b, u32 selector) { return __byte_perm(a, b, selector); }

//===- Conversions ----------------------------------------------------------------------------===//

using m3emu::bf16Of;
using m3emu::e4m3Of;
using m3emu::f16Of;
using m3emu::f16OfE4m3;

M3_INLINE u32 f16OfE4m3Low(u32 codes) {
  return f16OfE4m3(codes & 0xffu) | f16OfE4m3(codes >> 8 & 0xffu) << 16;
}
M3_INLINE u32 f16OfE4m3High(u32 codes) { return f16OfE4m3Low(codes >> 16); }
M3_INLINE u32 packF16(f32 low, f32 high) { return f16Of(low) | f16Of(high) << 16; }
M3_INLINE u32 packE4m3(f32 low, f32 high) { return e4m3Of(low) | e4m3Of(high) << 8; }
M3_INLINE f32 f32OfF16Low(u32 pair) { return (f32) __builtin_bit_cast(_Float16, (u16)pair); }
M3_INLINE f32 f32OfF16High(u32 pair) { return f32OfF16Low(pair >> 16); }
M3_INLINE u32 packBf16(f32 low, f32 high) { return bf16Of(low) | bf16Of(high) << 16; }

/// The instruction is within 2^-22 of it.
M3_INLINE f32 exponential2(f32 x) { return m3emu::nearestPower(x); }
M3_INLINE f32 maximumOrNan(f32 a, f32 b) { return a != a || b != b ? notANumber : a > b ? a : b; }

//===- Barriers in shared memory and copies ---------------------------------------------------===//

M3_INLINE void barrierOf(u32 id, u32 threads) {
  m3emu::Thread *t = m3emu::self();
  t->calls->barrier(t, id, threads, true);
}
M3_INLINE void initBarrier(u64 *barrier, u32 arrivals) {
  m3emu::Thread *t = m3emu::self();
  t->calls->initBarrier(t, barrier, arrivals);
}
/// PTX ISA, "fence.mbarrier_init".
M3_INLINE void fenceBarriers() {
  m3emu::Thread *t = m3emu::self();
  t->calls->fenceBarriers(t);
}
M3_INLINE void arriveAt(u64 *barrier) {
  m3emu::Thread *t = m3emu::self();
  t->calls->arrive(t, barrier, 1, 0);
}
M3_INLINE void arriveExpecting(u64 *barrier, u32 bytes) {
  m3emu::Thread *t = m3emu::self();
  t->calls->arrive(t, barrier, 1, bytes);
}
/// Waits as long as it takes.
M3_INLINE bool phaseEnded(u64 *barrier, u32 parity) {
  m3emu::Thread *t = m3emu::self();
  t->calls->waitBarrier(t, barrier, parity);
  return true;
}
M3_INLINE void copyBulk(void *to, const void *from, u32 bytes, u64 *barrier) {
  m3emu::Thread *t = m3emu::self();
  t->calls->copyBulk(t, to, from, bytes, barrier);
}

/// Addresses of 32 bits are those within shared memory.
M3_INLINE u32 sharedAddress(const void *p) { return (u32)((u64)p - (u64)sharedMemory()); }

//===- Registers ------------------------------------------------------------------------------===//

/// PTX ISA, "setmaxnreg": a warpgroup is four warps.
template <u32 count> M3_INLINE void takeRegisters() {
  m3emu::Thread *t = m3emu::self();
  t->calls->setRegisters(t, "setmaxnreg.inc", count, 4, true);
}
template <u32 count> M3_INLINE void giveRegisters() {
  m3emu::Thread *t = m3emu::self();
  t->calls->setRegisters(t, "setmaxnreg.dec", count, 4, false);
}

//===- Launches -------------------------------------------------------------------------------===//
// They run one after the other; what is touched before the wait is looked at.

M3_INLINE void awaitLaunch() {
  m3emu::Thread *t = m3emu::self();
  t->calls->awaitLaunch(t);
}
M3_INLINE void allowLaunch() {}

//===- Clusters -------------------------------------------------------------------------------===//

M3_INLINE u32 rankInCluster() { return m3emu::self()->rank; }
M3_INLINE void clusterArriveAndWait() {
  m3emu::Thread *t = m3emu::self();
  t->calls->clusterBarrier(t);
}
M3_INLINE void arriveAtCluster() {
  m3emu::Thread *t = m3emu::self();
  t->calls->arriveAtCluster(t);
}
M3_INLINE void awaitCluster() {
  m3emu::Thread *t = m3emu::self();
  t->calls->awaitCluster(t);
}
M3_INLINE u64 sharedOfRank(u64 address, u32 rank) {
  const m3emu::Thread *t = m3emu::self();
  return address + ((i64)rank - (i64)t->rank) * (i64)t->peerStride;
}
