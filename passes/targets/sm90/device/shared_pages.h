// Slots of cache pages as right operands of products of four warps: dequantised once, multiplied
// with the rows of many queries. An operand has R rows of 128 k in two parts of 64, each in the
// order of the 128-byte swizzle (shared_rows.h).
#pragma once

#include "cached.h"
#include "shared_rows.h"

inline constexpr int slotTokens = 128;
/// Those of values are dims, and eight of ones.
inline constexpr int keyRows = slotTokens, valueRows = slotTokens + 8;

/// Run `run` of 16 bytes of a row, of sixteen.
template <int Rows> M3_INLINE u16 *operandRun(u16 *operand, int row, int run) {
  return operand + (run / 8 * Rows + row) * 64 + (run % 8 ^ row % 8) * 8;
}

//===- Keys -----------------------------------------------------------------------------------===//

/// Lane 4g + t has dims 32t … 32t + 31 of token g of eight, as a left operand has them. `read`
/// gives those of a token and a lane of four. E4M3 values are exact in BF16, which queries are in.
template <int Warps, class F> M3_INLINE void sharedKeys(F read, u16 *operand) {
  const int g = laneId() / 4, t = laneId() % 4;
  // More at once would need registers that hold the next queries (choice `ahead`).
  _Pragma("unroll 2") for (int i = 0; i < slotTokens / 8; i += Warps) {
    const int token = 8 * (i + (int)warpId()) + g;
    if (slotTokens / 8 % Warps && token >= slotTokens)
      break;
    const KeyRun<128> run = read(token, t);
    M3_UNROLL for (int c = 0; c < 16; ++c)
        storeWide((u32 *)operandRun<keyRows>(operand, token, c) + t, bf16OfF16(run.v[c]));
  }
  fenceForProducts();
}

template <int Warps>
M3_INLINE void slot_e2m1(const u8 *codes, const u8 *scales, const u8 *table, u16 *operand) {
  sharedKeys<Warps>(
      [=](int token, int t) {
        return KeyRun<128>::e2m1(codes + token * 64 + t * 16, scales + token * 8 + t * 2, table);
      },
      operand);
}
template <int Warps> M3_INLINE void slot_e4m3(const u8 *codes, u16 *operand) {
  sharedKeys<Warps>(
      [=](int token, int t) { return KeyRun<128>::e4m3(codes + token * 128 + t * 32); }, operand);
}

//===- Values ---------------------------------------------------------------------------------===//

/// A warp has sixteen dims of all tokens, a lane four tokens: what a warp stores at once is one
/// row. `read` gives the E4M3 codes of a token, dims 16g … 16g + 15.
template <int Warps, class F> M3_INLINE void sharedValues(F read, u16 *operand) {
  const int q = laneId();
  for (int g = (int)warpId(); g < 8; g += Warps) {
    u32 four[4][4];
    M3_UNROLL for (int s = 0; s < 4; ++s) read(4 * q + s, g, four[s]);
    const OperandB<f16, 16, 128> b = valuesOfCodes(four);
    M3_UNROLL for (int n = 0; n < 16; ++n)
        storeWide(operandRun<valueRows>(operand, 8 * n + g, q / 2) + q % 2 * 4,
                  uint2{b.v[n][0][0], b.v[n][0][1]});
  }
  const u32 ones = 0x3c003c00u;
  for (int i = (int)threadIdx.x; i < 8 * 16; i += Warps * warpLanes)
    storeWide(operandRun<valueRows>(operand, slotTokens + i / 16, i % 16),
              uint4{ones, ones, ones, ones});
  fenceForProducts();
}

template <int Warps>
M3_INLINE void slot_e2m1(const u8 *codes, const u8 *scales, const u8 *table, i64 tokens,
                         u16 *operand) {
  sharedValues<Warps>(
      [=](int token, int g, u32(&out)[4]) {
        const uint2 packed = loadWide<uint2>(codes + token * 64 + g * 8);
        uint2 row = rowOfScale(scales + token / 4 * 32 + g * 4 + token % 4, table);
        if (token >= tokens)
          row = uint2{0, 0}; // signed zeros
        u32 low[2], high[2];
        codesByTable(packed.x, row, low);
        codesByTable(packed.y, row, high);
        out[0] = low[0], out[1] = low[1], out[2] = high[0], out[3] = high[1];
      },
      operand);
}
template <int Warps> M3_INLINE void slot_e4m3(const u8 *codes, i64 tokens, u16 *operand) {
  sharedValues<Warps>(
      [=](int token, int g, u32(&out)[4]) {
        const uint4 words = loadWide<uint4>(codes + token * 128 + g * 16);
        const u32 seen = token < tokens ? ~0u : 0u;
        out[0] = words.x & seen, out[1] = words.y & seen;
        out[2] = words.z & seen, out[3] = words.w & seen;
      },
      operand);
}

//===- Products -------------------------------------------------------------------------------===//

template <bool adds>
M3_INLINE void multiplySlot(f32 (&acc)[16][4], const OperandA<bf16, 128> &a, int s, u64 right) {
  multiplyShared<adds>(acc, a.v[s], right);
}
template <bool adds>
M3_INLINE void multiplySlot(f32 (&acc)[17][4], const OperandA<f16, 128> &a, int s, u64 right) {
  multiplyValues<adds>(acc, a.v[s], right);
}
/// Of the operand of N rows 16 k from 16s on.
template <int N> M3_INLINE u64 slotPart(u64 right, int s) {
  return right + (s / 4 * (N * 128) + s % 4 * 32 >> 4);
}

/// Starts a · operand, 128 k; the sums are there after `awaitShared<0>`.
template <int N, class E>
M3_INLINE FragmentAcc<N> startShared(const OperandA<E, 128> &a, const u16 *operand) {
  FragmentAcc<N> acc;
  const u64 right = sharedOperand(operand);
  fenceProducts();
  multiplySlot<false>(acc.v, a, 0, right);
  M3_UNROLL for (int s = 1; s < 8; ++s) multiplySlot<true>(acc.v, a, s, slotPart<N>(right, s));
  commitProducts();
  return acc;
}
/// The same added to sums.
template <int N, class E>
M3_INLINE FragmentAcc<N> mmaShared(const OperandA<E, 128> &a, const u16 *operand,
                                   FragmentAcc<N> acc) {
  const u64 right = sharedOperand(operand);
  fenceProducts(acc.v);
  M3_UNROLL for (int s = 0; s < 8; ++s) multiplySlot<true>(acc.v, a, s, slotPart<N>(right, s));
  commitProducts();
  return acc;
}

//===- Sums -----------------------------------------------------------------------------------===//

/// Columns from `First` on.
template <int M, int First, int N> M3_INLINE FragmentAcc<M> columnsOf(const FragmentAcc<N> &in) {
  FragmentAcc<M> out;
  M3_UNROLL for (int n = 0; n < M / 8; ++n) M3_UNROLL for (int i = 0; i < 4; ++i) out.v[n][i] =
      in.v[First / 8 + n][i];
  return out;
}

/// As the left operand of the next product: k is the column.
M3_INLINE OperandA<f16, 128> toOperand(const FragmentAcc<128> &in) {
  OperandA<f16, 128> out;
  M3_UNROLL for (int n = 0; n < 16; ++n) M3_UNROLL for (int i = 0; i < 2; ++i)
      out.v[n / 2][n % 2 * 2 + i] = packF16(in.v[n][2 * i], in.v[n][2 * i + 1]);
  return out;
}
template <int K> M3_INLINE FragmentAcc<K> fromOperand(const OperandA<f16, K> &in) {
  FragmentAcc<K> out;
  M3_UNROLL for (int n = 0; n < K / 8; ++n) M3_UNROLL for (int i = 0; i < 2; ++i) {
    const u32 pair = in.v[n / 2][n % 2 * 2 + i];
    out.v[n][2 * i] = f32OfF16Low(pair), out.v[n][2 * i + 1] = f32OfF16High(pair);
  }
  return out;
}
