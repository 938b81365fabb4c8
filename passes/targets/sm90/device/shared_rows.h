// Products of four warps with rows of the batch in shared memory. A stage has N rows of 64 k, 128
// bytes each, in the order of the 128-byte swizzle: run c of 16 bytes of row r is at run c ^ r % 8.
// It begins at a multiple of 1,024 bytes.
#pragma once

#include "fragments.h"
#include "group_atoms.h"

/// Rows that follow each other `stride` elements apart.
struct RowsInTurn {
  const u16 *first;
  i64 stride;
  M3_INLINE const u16 *at(int row) const { return first + row * stride; }
};
/// Row r is that of number list[r] / per.
template <int per> struct ListedRows {
  const u16 *first;
  i64 stride;
  const i32 *list;
  M3_INLINE const u16 *at(int row) const { return first + loadAt(list + row) / per * stride; }
};

/// `Rows` rows, those from `rows` on zero, to rows of a stage from `to` on, a multiple of 8. The k
/// of a row are in the order in which the left operand has them (fragments.h): of 64 lane t has the
/// 16 from 16t on, and word t of run c is its pair c.
template <int Rows, typename From> M3_INLINE void packRows(From from, i64 rows, u16 *to) {
  const int run = laneId() % 8;
  M3_UNROLL for (int i = 0; i < Rows; i += 4) {
    const int row = i + laneId() / 8;
    uint4 words = {0, 0, 0, 0};
    if (row < rows) {
      const u32 *pairs = (const u32 *)from.at(row) + run;
      words = uint4{loadAt(pairs), loadAt(pairs + 8), loadAt(pairs + 16), loadAt(pairs + 24)};
    }
    storeWide(to + row * 64 + (run ^ row % 8) * 8, words);
  }
}

/// PTX ISA, "Matrix-descriptor" of wgmma: the first byte and the way from one eight of rows to the
/// next, 1,024 bytes, in 16 bytes each; mode 1 is the 128-byte swizzle, in which the distance along
/// k is not used.
M3_INLINE u64 sharedOperand(const u16 *stage) {
  const u64 start = (sharedAddress(stage) & 0x3ffffu) >> 4;
  return start | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

/// Starts acc + a · stage, 64 k; the sums are there after `awaitShared<0>`.
template <int N>
M3_INLINE FragmentAcc<N> mmaShared(const FragmentA &a, const u16 *stage, FragmentAcc<N> acc) {
  const u64 right = sharedOperand(stage);
  fenceProducts(acc.v);
  M3_UNROLL for (int s = 0; s < 4; ++s) multiplyShared(acc.v, a.v[s], right + s * (32 >> 4));
  commitProducts();
  return acc;
}
/// All products have ended but for the last `leaves`; where these are none, the sums are there.
template <int leaves, int N> M3_INLINE FragmentAcc<N> awaitShared(FragmentAcc<N> acc) {
  awaitProducts<leaves>(acc.v);
  return acc;
}
