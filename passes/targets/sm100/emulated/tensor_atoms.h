// The emulator's form of device/tensor_atoms.h, from the PTX ISA. What it assumes of the sums of a
// product: all of one instruction and the accumulator are added at once, as m3emu::fusedSum says
// for mma.sync (the same sources; of Blackwell they have 25 bits for 16-bit and for 8-bit
// elements).
#pragma once

#include "atoms.h"

M3EMU_APART u32 productsOfCodes(u32 codes, u32 scales) {
  constexpr f32 sizes[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  u32 products = 0;
  for (int i = 0; i < 4; ++i) {
    const u32 code = codes >> 4 * i & 15u, scale = scales >> 8 * i & 0xffu;
    const f32 size = sizes[code & 7], factor = m3emu::valueOfE4m3(scale);
    products |= e4m3Of(code & 8 ? -size * factor : size * factor) << 8 * i;
  }
  return products;
}
/// Nearest even, saturating at 448; NaN if one is, its sign is not defined. Products have at most
/// six significant bits.
M3_INLINE u32 multiplyE2m1E4m3(u16 codes, u32 scales) { return productsOfCodes(codes, scales); }

//===- Tensor memory --------------------------------------------------------------------------===//

struct TensorColumns {
  u32 *address;
  u32 first, count;
  bool pair;
};
M3_INLINE void allocateTensor(TensorColumns mine) {
  m3emu::together<TensorColumns, [](TensorColumns *const *lanes) {
    m3emu::Thread *t = m3emu::self();
    t->calls->tensorAllocate(t, lanes[0]->address, lanes[0]->count, lanes[0]->pair);
    t->calls->tensorRelinquish(t, lanes[0]->pair);
  }>("tcgen05.alloc", mine);
}
M3_INLINE void freeTensor(TensorColumns mine) {
  m3emu::together<TensorColumns, [](TensorColumns *const *lanes) {
    m3emu::Thread *t = m3emu::self();
    t->calls->tensorFree(t, lanes[0]->first, lanes[0]->count, lanes[0]->pair);
  }>("tcgen05.dealloc", mine);
}
M3_INLINE void tensorAllocate(u32 *address, u32 columns) {
  allocateTensor({address, 0, columns, false});
}
M3_INLINE void tensorFree(u32 address, u32 columns) {
  freeTensor({nullptr, address, columns, false});
}
M3_INLINE void pairAllocate(u32 *address, u32 columns) {
  allocateTensor({address, 0, columns, true});
}
M3_INLINE void pairFree(u32 address, u32 columns) { freeTensor({nullptr, address, columns, true}); }

M3_INLINE void tensorFenceBefore() {
  m3emu::Thread *t = m3emu::self();
  t->calls->tensorFence(t, false);
}
M3_INLINE void tensorFenceAfter() {
  m3emu::Thread *t = m3emu::self();
  t->calls->tensorFence(t, true);
}
M3_INLINE void fenceForProducts() {
  m3emu::Thread *t = m3emu::self();
  t->calls->fenceProxy(t);
}

/// All lanes name one address.
M3_INLINE void sameAddress(const char *what, u32 address) {
  struct Named {
    u32 address;
  } mine = {address};
  m3emu::together<Named, [](Named *const *lanes) {
    for (int lane = 1; lane < 32; ++lane)
      if (lanes[lane]->address != lanes[0]->address)
        m3emu::self()->calls->fail(m3emu::self(),
                                   "names an address of tensor memory that other lanes "
                                   "of its warp do not");
  }>(what, mine);
}
template <int N> M3_INLINE void loadTensorWords(u32 (&v)[N], u32 address) {
  m3emu::Thread *t = m3emu::self();
  sameAddress("tcgen05.ld", address);
  for (int i = 0; i < N; ++i) {
    v[i] = 0x7fffdeadu; // a NaN until the wait
    t->calls->tensorLoad(t, (address >> 16) + t->lane, (address & 0xffffu) + i);
  }
}
template <int N> M3_INLINE void takeTensorWords(u32 (&v)[N]) {
  m3emu::Thread *t = m3emu::self();
  t->calls->meet(
      t, "tcgen05.wait::ld", ~0ul,
      [](void *const *) { m3emu::self()->calls->tensorWait(m3emu::self(), false); }, false);
  t->calls->tensorTake(t, v, N);
}
template <int N> M3_INLINE void storeTensorWords(u32 address, const u32 (&v)[N]) {
  m3emu::Thread *t = m3emu::self();
  sameAddress("tcgen05.st", address);
  for (int i = 0; i < N; ++i)
    t->calls->tensorStore(t, (address >> 16) + t->lane, (address & 0xffffu) + i, v[i]);
}
M3_INLINE void tensorLoad(u32 (&v)[16], u32 address) { loadTensorWords(v, address); }
M3_INLINE void waitTensorLoads(u32 (&v)[16]) { takeTensorWords(v); }
M3_INLINE void tensorStore(u32 address, const u32 (&v)[16]) { storeTensorWords(address, v); }
M3_INLINE void tensorLoad(u32 (&v)[32], u32 address) { loadTensorWords(v, address); }
M3_INLINE void waitTensorLoads(u32 (&v)[32]) { takeTensorWords(v); }
M3_INLINE void tensorStore(u32 address, const u32 (&v)[32]) { storeTensorWords(address, v); }
M3_INLINE void waitTensorStores() {
  m3emu::Thread *t = m3emu::self();
  t->calls->meet(
      t, "tcgen05.wait::st", ~0ul,
      [](void *const *) { m3emu::self()->calls->tensorWait(m3emu::self(), true); }, false);
}

/// Formats by the instruction descriptor: of kind::f16 0 FP16, 1 BF16; of kind::f8f6f4 0 E4M3.
M3_INLINE void multiplyTensor(u32 d, bool aInTensor, u64 a, u64 b, u32 instruction, bool accumulate,
                              bool wide, bool pair = false) {
  m3emu::Thread *t = m3emu::self();
  const u32 left = instruction >> 7 & 7u, right = instruction >> 10 & 7u;
  m3emu::TensorProduct product = {d,           aInTensor,  (u32)a, a,    b,
                                  instruction, accumulate, wide,   pair, nullptr};
  if (wide && left == 0 && right == 0)
    product.sum = m3emu::fusedSum<m3emu::F16, m3emu::F16, 16, 25>;
  else if (wide && left == 1 && right == 1)
    product.sum = m3emu::fusedSum<m3emu::Bf16, m3emu::Bf16, 16, 25>;
  else if (!wide && left == 0 && right == 0)
    product.sum = m3emu::fusedSum<m3emu::E4m3, m3emu::E4m3, 32, 25>;
  else
    t->calls->fail(t, "starts a product of formats that are not emulated");
  t->calls->tensorMultiply(t, product);
}
M3_INLINE void tensorMmaE4m3(u32 d, u32 a, u64 b, u32 instruction, bool accumulate) {
  multiplyTensor(d, true, a, b, instruction, accumulate, false);
}
M3_INLINE void tensorMmaE4m3(u32 d, u64 a, u64 b, u32 instruction, bool accumulate) {
  multiplyTensor(d, false, a, b, instruction, accumulate, false);
}
M3_INLINE void tensorMmaF16(u32 d, u32 a, u64 b, u32 instruction, bool accumulate) {
  multiplyTensor(d, true, a, b, instruction, accumulate, true);
}
M3_INLINE void tensorMmaF16(u32 d, u64 a, u64 b, u32 instruction, bool accumulate) {
  multiplyTensor(d, false, a, b, instruction, accumulate, true);
}
M3_INLINE void tensorCommit(u64 *barrier) {
  m3emu::Thread *t = m3emu::self();
  t->calls->tensorCommit(t, barrier, false, 0);
}

M3_INLINE void pairMmaE4m3(u32 d, u32 a, u64 b, u32 instruction, bool accumulate) {
  multiplyTensor(d, true, a, b, instruction, accumulate, false, true);
}
M3_INLINE void pairCommit(u64 *barrier, u32 ranks) {
  m3emu::Thread *t = m3emu::self();
  t->calls->tensorCommit(t, barrier, true, ranks);
}
M3_INLINE void arriveAtRank(u64 *barrier, u32 rank) {
  m3emu::Thread *t = m3emu::self();
  t->calls->arriveAtPeer(t, barrier, rank);
}
M3_INLINE bool phaseEndedInCluster(u64 *barrier, u32 parity) { return phaseEnded(barrier, parity); }
