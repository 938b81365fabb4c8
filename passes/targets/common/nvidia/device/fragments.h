// Operands of matrix instructions, m16n8k16 (PTX ISA, "Matrix fragments for mma.m16n8k16"): lane
// 4g + t holds rows g and g + 8 of A, column g of B, columns 2t and 2t + 1 of the accumulator. Of
// 64 k it has the 16 from 16t on, four in each of four instructions.
#pragma once

#include "formats.h"
#include "memory.h"

/// Row `lane * Rows / 32` of each lane, N elements.
template <class T, int Rows, int N> struct LaneTile {
  T v[N];
};
/// Elements of operands.
struct f16 {};
struct bf16 {};
/// 16 rows × K: registers of instruction s are v[s].
template <class E, int K> struct OperandA {
  u32 v[K / 16][4];
};
/// K × N columns: of instruction s and columns 8n …, v[n][s].
template <class E, int K, int N> struct OperandB {
  static constexpr int columns = N;
  u32 v[N / 8][K / 16][2];
};
/// Weights: 16 outputs × 64 k, and the rows that they are multiplied with.
using FragmentA = OperandA<bf16, 64>;
template <int N> using FragmentB = OperandB<bf16, 64, N>;
/// The same of FP32 values: three BF16 parts that add up to each, the largest first.
struct FragmentSplit {
  FragmentA part[3];
};
/// 16 × N sums.
template <int N> struct FragmentAcc {
  f32 v[N / 8][4];
};

M3_INLINE i64 warpId() { return threadIdx.x / warpLanes; }

template <class T> struct LoadFragment;

/// Words: runs of 16 bytes alternate between the lanes.
template <int Rows, int N> struct LoadFragment<LaneTile<i32, Rows, N>> {
  static_assert(Rows == warpLanes && N % 4 == 0);
  static M3_INLINE LaneTile<i32, Rows, N> from(const i32 *p, i64, i64) {
    LaneTile<i32, Rows, N> t;
    M3_UNROLL for (int run = 0; run < N / 4; ++run) {
      int4 words = loadOnce((const int4 *)p + run * warpLanes + laneId());
      t.v[4 * run] = words.x, t.v[4 * run + 1] = words.y;
      t.v[4 * run + 2] = words.z, t.v[4 * run + 3] = words.w;
    }
    return t;
  }
};
/// Scales: two bytes of each lane, or of each pair of lanes.
template <int Rows> struct LoadFragment<LaneTile<u8, Rows, 2>> {
  static M3_INLINE LaneTile<u8, Rows, 2> from(const u8 *p, i64, i64) {
    u16 both = loadOnce((const u16 *)p + laneId() * Rows / warpLanes);
    return {{(u8)both, (u8)(both >> 8)}};
  }
};
template <class T, class P> M3_INLINE T load(const P *p, i64 stride, i64 rows = 1 << 30) {
  return LoadFragment<T>::from(p, stride, rows);
}

template <class T> struct FillFragment;
template <int N> struct FillFragment<FragmentAcc<N>> {
  static M3_INLINE FragmentAcc<N> with(f32 value) {
    FragmentAcc<N> acc;
    M3_UNROLL for (int n = 0; n < N / 8; ++n) M3_UNROLL for (int i = 0; i < 4; ++i) acc.v[n][i] =
        value;
    return acc;
  }
};
template <class T> M3_INLINE T fill(f32 value) { return FillFragment<T>::with(value); }

/// p[n * stride + m] = acc[m, n].
template <int N> M3_INLINE void storeTransposed(const FragmentAcc<N> &acc, f32 *p, i64 stride) {
  const int g = laneId() / 4, t = laneId() % 4;
  M3_UNROLL for (int n = 0; n < N / 8; ++n) M3_UNROLL for (int i = 0; i < 4; ++i)
      storeAt(p + (8 * n + 2 * t + i % 2) * stride + g + 8 * (i / 2), acc.v[n][i]);
}

/// Calls `store(n, m, value)` for every sum of columns 2n and 2n + 1 of row m.
template <int N, class F> M3_INLINE void eachPair(const FragmentAcc<N> &acc, F store) {
  const int g = laneId() / 4, t = laneId() % 4;
  M3_UNROLL for (int n = 0; n < N / 8; ++n) M3_UNROLL for (int i = 0; i < 2; ++i)
      store(4 * n + t, g + 8 * i, acc.v[n][2 * i] + acc.v[n][2 * i + 1]);
}
/// p[n * stride + m] = acc[m, 2n] + acc[m, 2n + 1].
template <int N>
M3_INLINE void storePairsTransposed(const FragmentAcc<N> &acc, f32 *p, i64 stride) {
  eachPair(acc, [=](int n, int m, f32 value) { storeAt(p + n * stride + m, value); });
}

/// Small parts first, so that the large ones are added to what they lack.
template <int N>
M3_INLINE FragmentAcc<N> mmaFragments(const FragmentSplit &a, const FragmentB<N> &b,
                                      FragmentAcc<N> acc) {
  M3_UNROLL for (int i = 2; i >= 0; --i) acc = mmaFragments(a.part[i], b, acc);
  return acc;
}

/// Row n of that to the work item n % Across of the cluster, as row n / Across.
template <int Across, int N>
M3_INLINE void storeTransposedAcross(const FragmentAcc<N> &acc, f32 *p, i64 stride) {
  const int g = laneId() / 4, t = laneId() % 4;
  M3_UNROLL for (int n = 0; n < N / 8; ++n) M3_UNROLL for (int i = 0; i < 2; ++i) {
    const int row = 8 * n + 2 * t + i;
    f32 *there = peer(p, row % Across) + row / Across * stride + g;
    storeAt(there, acc.v[n][i]);
    storeAt(there + 8, acc.v[n][i + 2]);
  }
}

template <int Across, int N>
M3_INLINE void storePairsTransposedAcross(const FragmentAcc<N> &acc, f32 *p, i64 stride) {
  eachPair(acc, [=](int n, int m, f32 value) {
    storeAt(peer(p, n % Across) + n / Across * stride + m, value);
  });
}

//===- Dequantisation -------------------------------------------------------------------------===//
// A register holds two neighbours of k. Codes are moved to the place of exponent and mantissa in
// BF16, which is their value times a power of two; the power rides on the scale.

/// Two BF16 of the same value.
M3_INLINE u32 pairOf(f32 value) { return (bitsAs<u32>(value) >> 16) * 0x10001u; }

M3_INLINE FragmentA fragment_bf16(const LaneTile<i32, 32, 16> &words) {
  FragmentA a;
  M3_UNROLL for (int s = 0; s < 4; ++s) M3_UNROLL for (int i = 0; i < 4; ++i) a.v[s][i] =
      words.v[8 * (i % 2) + 2 * s + i / 2];
  return a;
}

/// FP32: 24 significant bits are cut into three times eight, each part what the ones before leave.
M3_INLINE FragmentSplit fragment_f32(const LaneTile<i32, 32, 32> &words) {
  FragmentSplit split;
  M3_UNROLL for (int q = 0; q < 8; ++q) M3_UNROLL for (int half = 0; half < 2; ++half) {
    f32 first = bitsAs<f32>(words.v[16 * half + 2 * q]);
    f32 second = bitsAs<f32>(words.v[16 * half + 2 * q + 1]);
    M3_UNROLL for (int i = 0; i < 3; ++i) {
      const u32 low = bitsAs<u32>(first) & 0xffff0000u, high = bitsAs<u32>(second) & 0xffff0000u;
      split.part[i].v[q / 2][2 * (q % 2) + half] = low >> 16 | high;
      first -= bitsAs<f32>(low), second -= bitsAs<f32>(high);
    }
  }
  return split;
}

/// E4M3: sign to bit 15, seven bits to 10 … 4, the value times 2^-120.
M3_INLINE FragmentA fragment_e4m3(const LaneTile<i32, 32, 8> &words,
                                  const LaneTile<u8, 16, 2> &scales) {
  FragmentA a;
  M3_UNROLL for (int half = 0; half < 2; ++half) {
    // 2^(code − 127 + 120); block scales are below 2^8, checked when weights are read
    const u32 scale = pairOf(bitsAs<f32>((u32)scales.v[half] + 120 << 23));
    M3_UNROLL for (int s = 0; s < 4; ++s) {
      const u32 w = words.v[4 * half + s];
      a.v[s][half] = multiplyBf16(w << 8 & 0x80008000u | w << 4 & 0x07f007f0u, scale);
      a.v[s][2 + half] = multiplyBf16(w & 0x80008000u | w >> 4 & 0x07f007f0u, scale);
    }
  }
  return a;
}

/// E2M1: sign to bit 15, three bits to 8 … 6, the value times 2^-126; FragmentWords of plan.fbs
/// says where a word has them. The scale brings 2^117 of it, as much as BF16 can hold beside a
/// scale of 448: results are the values times 2^-9.
M3_INLINE FragmentA fragment_e2m1(const LaneTile<i32, 32, 4> &words,
                                  const LaneTile<u8, 32, 2> &scales) {
  FragmentA a;
  const u32 ofValue = 0x81c081c0u;
  M3_UNROLL for (int half = 0; half < 2; ++half) {
    const u32 scale = pairOf(decodeE4m3Lane<1>(scales.v[half]) * 0x1p117f);
    M3_UNROLL for (int i = 0; i < 2; ++i) { // a word holds the operands of two instructions
      const u32 w = words.v[2 * half + i];
      const u32 last = w << 4 & 0x80008000u | w >> 6 & 0x01800180u | w >> 4 & 0x00400040u;
      a.v[2 * i][half] = multiplyBf16(w & ofValue, scale);
      a.v[2 * i][2 + half] = multiplyBf16(w << 3 & ofValue, scale);
      a.v[2 * i + 1][half] = multiplyBf16(w << 6 & ofValue, scale);
      a.v[2 * i + 1][2 + half] = multiplyBf16(last, scale);
    }
  }
  return a;
}
