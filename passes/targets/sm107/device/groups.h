// Products of queries with sixteen keys, group by group of sixteen dims: a group's codes are
// multiplied as they are, and its scale comes onto the sum. Of the sixteen k of one instruction
// lane 4g + t has dims 4t … 4t + 3 of the group.
#pragma once

#include "cached.h"
#include "mixed_atoms.h"

/// Four elements of a row as FP16 pairs.
M3_INLINE void fourOfRow(const f32 *p, u32 (&pairs)[2]) {
  const float4 four = loadWide<float4>(p);
  pairs[0] = packF16(four.x, four.y), pairs[1] = packF16(four.z, four.w);
}
M3_INLINE void fourOfRow(const u16 *p, u32 (&pairs)[2]) {
  const uint2 four = loadWide<uint2>(p);
  pairs[0] = f16OfBf16(four.x), pairs[1] = f16OfBf16(four.y);
}

/// Columns are rows of the view; rows from `rows` on repeat the last.
template <class T> struct LoadGroups;
template <int K, int N> struct LoadGroups<OperandB<f16, K, N>> {
  template <class P> static M3_INLINE OperandB<f16, K, N> from(const P *p, i64 stride, i64 rows) {
    OperandB<f16, K, N> b;
    M3_UNROLL for (int n = 0; n < N / 8; ++n) {
      const P *row = p + numberBelow(8 * n + laneId() / 4, rows) * stride + laneId() % 4 * 4;
      M3_UNROLL for (int s = 0; s < K / 16; ++s) fourOfRow(row + 16 * s, b.v[n][s]);
    }
    return b;
  }
};
template <class T, class P> M3_INLINE T loadGroups(const P *p, i64 stride, i64 rows) {
  return LoadGroups<T>::from(p, stride, rows);
}

/// Sixteen keys times the queries.
template <int K, int N>
M3_INLINE FragmentAcc<N> mmaGroups(const u8 *codes, const u8 *scales,
                                   const OperandB<f16, K, N> &queries) {
  static_assert(K == 128);
  const int g = laneId() / 4, t = laneId() % 4;
  FragmentAcc<N> sums = fill<FragmentAcc<N>>(0);
  u32 scales2[2][K / 32]; // of rows g and g + 8: FP16, those of two groups in a word
  M3_UNROLL for (int half = 0; half < 2; ++half) {
    const uint2 bytes = loadWide<uint2>(scales + (g + 8 * half) * (K / 16));
    scales2[half][0] = f16OfE4m3Low(bytes.x), scales2[half][1] = f16OfE4m3High(bytes.x);
    scales2[half][2] = f16OfE4m3Low(bytes.y), scales2[half][3] = f16OfE4m3High(bytes.y);
  }
  M3_UNROLL for (int s = 0; s < K / 16; ++s) {
    u32 a[4], scale[2];
    M3_UNROLL for (int half = 0; half < 2; ++half) {
      const u32 four = loadWide<u16>((const u16 *)(codes + (g + 8 * half) * (K / 2) + 8 * s) + t);
      a[half] = f16OfE2m1(four, 0), a[half + 2] = f16OfE2m1(four, 1);
      scale[half] = permuteBytes(scales2[half][s / 2], 0, s % 2 ? 0x3232 : 0x1010);
    }
    M3_UNROLL for (int n = 0; n < N / 8; ++n) {
      f32 group[4] = {0, 0, 0, 0};
      mmaF16(group, a, queries.v[n][s]);
      M3_UNROLL for (int half = 0; half < 2; ++half)
          fmaMixed(sums.v[n][2 * half], sums.v[n][2 * half + 1], scale[half], group[2 * half],
                   group[2 * half + 1]);
    }
  }
  return sums;
}
