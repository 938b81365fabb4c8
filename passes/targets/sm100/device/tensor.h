// Products in tensor memory: operands as the instructions want them, gates between the roles that
// make, multiply and read them, and tiles whose rows lanes hold.
//
// Warp w reaches lanes 32 (w mod 4) … of tensor memory, a lane for each of its own; there lane is
// the row of a product, a token of a page or a dim of its values.
#pragma once

#include "operands.h"
#include "tensor_atoms.h"

/// Row l of 32 is lane l's; of one row (R = 1) every lane has all.
template <class T, int R, int N> struct RowTile {
  static constexpr int columns = N;
  T v[N];
};

template <class T, int R, int N> M3_INLINE T rowAt(const RowTile<T, R, N> &t, int n) {
  return t.v[N == 1 ? 0 : n];
}
template <class T, int R, int N> struct MapOver<RowTile<T, R, N>> {
  template <class F, class... Tiles>
  static M3_INLINE RowTile<T, R, N> run(F function, const Tiles &...tiles) {
    RowTile<T, R, N> out;
    M3_UNROLL for (int n = 0; n < N; ++n) out.v[n] = (T)function(rowAt(tiles, n)...);
    return out;
  }
};
template <class T, int R, int N> struct FillFragment<RowTile<T, R, N>> {
  static M3_INLINE RowTile<T, R, N> with(T value) {
    RowTile<T, R, N> t;
    M3_UNROLL for (int n = 0; n < N; ++n) t.v[n] = value;
    return t;
  }
};

/// The lane of tensor memory that is this lane's.
M3_INLINE int tensorLane() { return (int)(warpId() % 4) * warpLanes + laneId(); }
M3_INLINE RowTile<i32, 32, 1> laneNumbers() { return {{tensorLane()}}; }

template <int N> M3_INLINE bool anyOf(const RowTile<bool, 1, N> &t) {
  bool any = false;
  M3_UNROLL for (int n = 0; n < N; ++n) any |= t.v[n];
  return any;
}

/// Each column over the lanes, column c in the lanes that are c modulo N: at each step a lane keeps
/// half of its columns and gives the others to its partner.
template <int N, class F>
M3_INLINE Tile<f32, 1, N> foldLanes(const RowTile<f32, 32, N> &in, F combine) {
  static_assert((N & (N - 1)) == 0 && N <= warpLanes);
  f32 v[N];
  M3_UNROLL for (int n = 0; n < N; ++n) v[n] = in.v[n];
  M3_UNROLL for (int bit = warpLanes / 2; bit >= N; bit /= 2) M3_UNROLL for (int n = 0; n < N; ++n)
      v[n] = combine(v[n], __shfl_xor_sync(0xffffffffu, v[n], bit));
  M3_UNROLL for (int bit = N / 2; bit > 0; bit /= 2) {
    const bool high = laneId() & bit;
    M3_UNROLL for (int n = 0; n < bit; ++n) {
      const f32 keep = high ? v[n + bit] : v[n], give = high ? v[n] : v[n + bit];
      v[n] = combine(keep, __shfl_xor_sync(0xffffffffu, give, bit));
    }
  }
  Tile<f32, 1, N> out;
  out.v[0][0] = v[0];
  return out;
}
template <int N> M3_INLINE Tile<f32, 1, N> lanesAdd(const RowTile<f32, 32, N> &in) {
  return foldLanes(in, [](f32 a, f32 b) { return a + b; });
}
template <int N> M3_INLINE Tile<f32, 1, N> lanesMax(const RowTile<f32, 32, N> &in) {
  return foldLanes(in, [](f32 a, f32 b) { return fmaxf(a, b); });
}
template <int N> M3_INLINE Tile<f32, 1, N> lanesMaxOrNan(const RowTile<f32, 32, N> &in) {
  return foldLanes(in, [](f32 a, f32 b) { return maximumOrNan(a, b); });
}

/// N contiguous elements of 32 bits, for every lane.
template <class T> struct LoadRow;
template <int N> struct LoadRow<RowTile<f32, 1, N>> {
  static M3_INLINE RowTile<f32, 1, N> from(const f32 *p) {
    RowTile<f32, 1, N> t;
    M3_UNROLL for (int n = 0; n < N; n += 4) {
      const float4 four = loadWide<float4>(p + n);
      t.v[n] = four.x, t.v[n + 1] = four.y, t.v[n + 2] = four.z, t.v[n + 3] = four.w;
    }
    return t;
  }
};
template <int N> struct LoadRow<RowTile<i32, 1, N>> {
  static M3_INLINE RowTile<i32, 1, N> from(const i32 *p) {
    RowTile<i32, 1, N> t;
    M3_UNROLL for (int n = 0; n < N; n += 4) {
      const int4 four = loadWide<int4>(p + n);
      t.v[n] = four.x, t.v[n + 1] = four.y, t.v[n + 2] = four.z, t.v[n + 3] = four.w;
    }
    return t;
  }
};
template <class T, class P> M3_INLINE T loadRow(const P *p) { return LoadRow<T>::from(p); }

/// Column n of the lanes' rows at p + n · stride, lanes side by side.
template <int N> M3_INLINE void storeLanes(const RowTile<f32, 32, N> &t, f32 *p, i64 stride) {
  warpBarrier();
  M3_UNROLL for (int n = 0; n < N; ++n) storeAt(p + n * stride + laneId(), t.v[n]);
  warpBarrier();
}
template <int N> M3_INLINE void storeLanes(const RowTile<f32, 1, N> &t, f32 *p, i64) {
  warpBarrier();
  if (laneId() == 0)
    M3_UNROLL for (int n = 0; n < N; n += 4)
        storeWide(p + n, float4{t.v[n], t.v[n + 1], t.v[n + 2], t.v[n + 3]});
  warpBarrier();
}
/// Column n of one row at p[n · stride], columns below `columns`.
template <int N>
M3_INLINE void storeColumns(const Tile<f32, 1, N> &in, f32 *p, i64 stride, i64 columns) {
  if (laneId() < in.W)
    M3_UNROLL for (int c = 0; c < in.vectors; ++c) {
      const i64 column = c * in.W + laneId();
      if (column < columns)
        storeAt(p + column * stride, in.v[0][c]);
    }
}

//===- Tensor memory --------------------------------------------------------------------------===//

/// All threads of the work item; the address of its columns.
template <int Columns> M3_INLINE u32 tensorMemory(u32 *word) {
  if (warpId() == 0)
    tensorAllocate(word, Columns);
  tensorFenceBefore();
  barrier();
  tensorFenceAfter();
  return loadAt(word);
}
template <int Columns> M3_INLINE void freeTensorMemory(u32 address) {
  tensorFenceBefore();
  barrier();
  if (warpId() == 0) {
    tensorFenceAfter();
    tensorFree(address, Columns);
  }
}
/// The same of a pair of work items, whose threads meet.
template <int Columns> M3_INLINE u32 pairTensorMemory(u32 *word) {
  if (warpId() == 0)
    pairAllocate(word, Columns);
  tensorFenceBefore();
  clusterBarrier();
  tensorFenceAfter();
  return loadAt(word);
}
template <int Columns> M3_INLINE void freePairTensorMemory(u32 address) {
  tensorFenceBefore();
  clusterBarrier();
  if (warpId() == 0) {
    tensorFenceAfter();
    pairFree(address, Columns);
  }
}
M3_INLINE u32 ownLanes(u32 address) { return address + ((u32)(warpId() % 4 * warpLanes) << 16); }

/// The warp's lanes, a column in each register.
template <class T> M3_INLINE T loadTensor(u32 address) {
  u32 words[T::columns];
  tensorLoad(words, ownLanes(address));
  waitTensorLoads(words);
  T t;
  M3_UNROLL for (int n = 0; n < T::columns; ++n) t.v[n] = bitsAs<f32>(words[n]);
  return t;
}
template <int N> M3_INLINE void storeTensor(const RowTile<f32, 32, N> &t, u32 address) {
  u32 words[N];
  M3_UNROLL for (int n = 0; n < N; ++n) words[n] = bitsAs<u32>(t.v[n]);
  tensorStore(ownLanes(address), words);
  waitTensorStores();
}

/// Gates of one work item.
struct OwnGates {
  static M3_INLINE bool ended(u64 *barrier, u32 parity) { return phaseEnded(barrier, parity); }
  static M3_INLINE void arrive(u64 *barrier) { arriveAt(barrier); }
  static M3_INLINE void commit(u64 *barrier) { tensorCommit(barrier); }
};
/// Of a pair of work items: warps of both signal to the first, which starts the products; products
/// to both.
struct PairGates {
  static M3_INLINE bool ended(u64 *barrier, u32 parity) {
    return phaseEndedInCluster(barrier, parity);
  }
  static M3_INLINE void arrive(u64 *barrier) { arriveAtRank(barrier, 0); }
  static M3_INLINE void commit(u64 *barrier) { pairCommit(barrier, 3); }
};
/// Barriers of stages: use i is in stage i % Stages. A stage is full after `fills` signals, empty
/// again after `drains`. The fences of tensor memory stand around each of them.
template <int Stages, class Kind = OwnGates> struct Gates {
  u64 *full, *empty;
  M3_INLINE Gates(u64 *words, u32 fills, u32 drains) : full(words), empty(words + Stages) {
    if (threadIdx.x == 0) {
      M3_UNROLL for (int i = 0; i < Stages; ++i) {
        initBarrier(full + i, fills);
        initBarrier(empty + i, drains);
      }
      fenceBarriers();
    }
  }
  static M3_INLINE i32 stage(i64 i) { return (u32)i % Stages; }
  static M3_INLINE u32 parity(i64 i) { return (u32)i / Stages & 1; }
  static M3_INLINE void waitFor(u64 *barrier, u32 parity) {
    while (!Kind::ended(barrier, parity)) {
    }
    tensorFenceAfter();
  }
  M3_INLINE void waitFull(i64 i) { waitFor(full + stage(i), parity(i)); }
  M3_INLINE void waitEmpty(i64 i) { waitFor(empty + stage(i), parity(i) ^ 1); }
  static M3_INLINE void signal(u64 *barrier) {
    tensorFenceBefore();
    warpBarrier();
    if (laneId() == 0)
      Kind::arrive(barrier);
  }
  M3_INLINE void signalFull(i64 i) { signal(full + stage(i)); }
  M3_INLINE void signalEmpty(i64 i) { signal(empty + stage(i)); }
  static M3_INLINE void commit(u64 *barrier) {
    if (laneId() == 0)
      Kind::commit(barrier);
  }
  M3_INLINE void commitFull(i64 i) { commit(full + stage(i)); }
  M3_INLINE void commitEmpty(i64 i) { commit(empty + stage(i)); }
};

//===- Operands -------------------------------------------------------------------------------===//
// Rows of 128 bytes in shared memory have their runs of 16 bytes in the order of the 128-byte
// swizzle, rows of 32 bytes in that of the 32-byte swizzle (PTX ISA, "Shared memory matrix
// layouts"). What was written is seen by products that the same warp starts, or another one after a
// barrier.

/// Four values to E4M3 codes.
M3_INLINE u32 codesOfFour(const f32 *p) {
  const float4 v = loadWide<float4>(p);
  return packE4m3(v.x, v.y) | packE4m3(v.z, v.w) << 16;
}
M3_INLINE u32 codesOfFour(const u16 *p) {
  const uint2 v = loadWide<uint2>(p);
  return packE4m3(bitsAs<f32>(v.x << 16), bitsAs<f32>(v.x & 0xffff0000u)) |
         packE4m3(bitsAs<f32>(v.y << 16), bitsAs<f32>(v.y & 0xffff0000u)) << 16;
}

/// N rows of 128 dims, those from `rows` on zero: one warp.
template <int N, class T>
M3_INLINE void operandQueries(const T *from, i64 stride, i64 rows, u8 *operand) {
  M3_UNROLL for (int i = 0; i < N * 8; i += warpLanes) {
    const int row = (i + laneId()) / 8, run = (i + laneId()) % 8;
    uint4 codes = {0, 0, 0, 0};
    if (row < rows) {
      const T *p = from + row * stride + run * 16;
      codes = uint4{codesOfFour(p), codesOfFour(p + 4), codesOfFour(p + 8), codesOfFour(p + 12)};
    }
    storeWide((uint4 *)(operand + row * 128 + (run ^ row % 8) * 16), codes);
  }
  fenceForProducts();
  warpBarrier();
}

/// Sixteen packed codes and their scale, as P takes it, to sixteen E4M3 codes.
template <class P> M3_INLINE void multiplyGroup(u32 low, u32 high, u32 scale, u32 *out) {
  M3_UNROLL for (int i = 0; i < 4; ++i) out[i] = P::codes(i < 2 ? low : high, i % 2, scale);
}

/// The warp's tokens, a key in each lane: 32 columns.
template <class P> M3_INLINE void tensorKeysBy(const u8 *codes, const u8 *scales, u32 address) {
  const int token = tensorLane();
  const uint2 eight = loadWide<uint2>((const uint2 *)scales + token);
  u32 words[32];
  M3_UNROLL for (int i = 0; i < 4; ++i) {
    const uint4 four = loadWide<uint4>((const uint4 *)codes + token * 4 + i);
    const u32 scale = i < 2 ? eight.x : eight.y;
    multiplyGroup<P>(four.x, four.y, P::scaleOf(scale, i % 2 ? 0x2222 : 0), words + 8 * i);
    multiplyGroup<P>(four.z, four.w, P::scaleOf(scale, i % 2 ? 0x3333 : 0x1111), words + 8 * i + 4);
  }
  tensorStore(ownLanes(address), words);
  waitTensorStores();
}
M3_INLINE void tensorKeys(const u8 *codes, const u8 *scales, u32 address) {
  tensorKeysBy<MultipliedProduct>(codes, scales, address);
}
M3_INLINE void tensorKeysByDetour(const u8 *codes, const u8 *scales, u32 address) {
  tensorKeysBy<DetourProduct>(codes, scales, address);
}

/// The warp's tokens: two rows of 64 dims for each, those from `tokens` on zero.
template <class P>
M3_INLINE void operandValuesBy(const u8 *codes, const u8 *scales, i64 tokens, u16 *operand) {
  const int token = tensorLane();
  const u32 select = token < tokens ? (u32)(token % 4) * 0x1111u : 0x4444u; // byte 4: 0
  M3_UNROLL for (int i = 0; i < 4; ++i) {
    const uint4 four = loadWide<uint4>((const uint4 *)codes + token * 4 + i);
    const uint2 quads = loadWide<uint2>((const uint2 *)scales + token / 4 * 4 + i);
    M3_UNROLL for (int side = 0; side < 2; ++side) {
      u32 products[4], pairs[8];
      multiplyGroup<P>(side ? four.z : four.x, side ? four.w : four.y,
                       P::scaleOf(side ? quads.y : quads.x, select), products);
      M3_UNROLL for (int w = 0; w < 4; ++w) {
        pairs[2 * w] = f16OfE4m3Low(products[w]);
        pairs[2 * w + 1] = f16OfE4m3High(products[w]);
      }
      u16 *row = operand + (i / 2 * 128 + token) * 64;
      M3_UNROLL for (int run = 0; run < 2; ++run) storeWide(
          (uint4 *)(row + ((i % 2 * 4 + side * 2 + run) ^ token % 8) * 8),
          uint4{pairs[4 * run], pairs[4 * run + 1], pairs[4 * run + 2], pairs[4 * run + 3]});
    }
  }
  fenceForProducts();
}
M3_INLINE void operandValues(const u8 *codes, const u8 *scales, i64 tokens, u16 *operand) {
  operandValuesBy<MultipliedProduct>(codes, scales, tokens, operand);
}
M3_INLINE void operandValuesByDetour(const u8 *codes, const u8 *scales, i64 tokens, u16 *operand) {
  operandValuesBy<DetourProduct>(codes, scales, tokens, operand);
}

/// Weights of the warp's tokens; those that the product takes.
M3_INLINE RowTile<f32, 32, 16> operandWeights(const RowTile<f32, 32, 16> &weights, u16 *operand) {
  const int token = tensorLane();
  RowTile<f32, 32, 16> rounded;
  u32 pairs[8];
  M3_UNROLL for (int i = 0; i < 8; ++i) {
    pairs[i] = packF16(weights.v[2 * i], weights.v[2 * i + 1]);
    rounded.v[2 * i] = f32OfF16Low(pairs[i]);
    rounded.v[2 * i + 1] = f32OfF16High(pairs[i]);
  }
  M3_UNROLL for (int run = 0; run < 2; ++run)
      storeWide((uint4 *)(operand + token * 16 + (run ^ token / 4 % 2) * 8),
                uint4{pairs[4 * run], pairs[4 * run + 1], pairs[4 * run + 2], pairs[4 * run + 3]});
  fenceForProducts();
  return rounded;
}

//===- Products -------------------------------------------------------------------------------===//

/// PTX ISA, "Matrix descriptor": bytes from one eight of rows (of k, where rows lie side by side)
/// to the next, `leading` from one 128 bytes of a row to the next where rows lie side by side.
enum class Swizzle : u32 { Bytes128 = 2, Bytes32 = 6 };
M3_INLINE u64 sharedDescriptor(const void *p, u32 leading, u32 stride, Swizzle swizzle) {
  return (u64)((sharedAddress(p) & 0x3ffffu) >> 4) | (u64)(leading >> 4) << 16 |
         (u64)(stride >> 4) << 32 | (u64)1 << 46 | (u64)swizzle << 61;
}
/// PTX ISA, "Instruction descriptor": M rows, N columns, FP32 sums, E4M3 or FP16.
template <int N, int M = 128> M3_INLINE constexpr u32 instructionOf(bool sideBySide) {
  return 1u << 4 | (sideBySide ? 3u << 15 : 0u) | (u32)N / 8 << 17 | (u32)M / 16 << 24;
}

/// Keys of 128 dims, N columns of queries.
template <int N>
M3_INLINE void tensorProductE4m3(u32 keys, const u8 *queries, u32 sums, bool accumulate) {
  if (laneId() == 0)
    M3_UNROLL for (int i = 0; i < 4; ++i) tensorMmaE4m3(
        sums, keys + 8 * i, sharedDescriptor(queries + 32 * i, 16, 1024, Swizzle::Bytes128),
        instructionOf<N>(false), accumulate || i > 0);
}
/// The same of the keys of two work items, each of which has half of the queries.
template <int N>
M3_INLINE void pairProductE4m3(u32 keys, const u8 *queries, u32 sums, bool accumulate) {
  if (laneId() == 0)
    M3_UNROLL for (int i = 0; i < 4; ++i) pairMmaE4m3(
        sums, keys + 8 * i, sharedDescriptor(queries + 32 * i, 16, 1024, Swizzle::Bytes128),
        instructionOf<N, 256>(false), accumulate || i > 0);
}
/// 128 dims of the values of 128 tokens, 16 columns of weights.
template <int N>
M3_INLINE void tensorProductF16(const u16 *values, const u16 *weights, u32 sums, bool accumulate) {
  if (laneId() == 0)
    M3_UNROLL for (int i = 0; i < 8; ++i) // 16 tokens each
        tensorMmaF16(sums, sharedDescriptor(values + i * 16 * 64, 16384, 1024, Swizzle::Bytes128),
                     sharedDescriptor(weights + i * 16 * 16, 16, 256, Swizzle::Bytes32),
                     instructionOf<N>(true), accumulate || i > 0);
}
