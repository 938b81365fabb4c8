// Slots of cache pages in shared memory to operands of matrix instructions, FP16: every value of an
// NVFP4 slot on the E4M3 grid is exact in it. A warp takes sixteen tokens at a time.
//
// Lane 4g + t reads of keys K/4 consecutive dims from t·K/4 on, of values the eighth g of the dims
// of four tokens, whose scales lie side by side. In a tile of 16 columns column 8e + 2q + b is
// token 4q + (2e + b ^ q%2): four rows of 64 bytes that a quarter of a warp reads then lie in
// different banks, and the tokens of a lane's scores are those that it reads as values.
#pragma once

#include "operands.h"

/// Row s of the table: E4M3 codes of the eight magnitudes of E2M1 times scale s. With NaN as a
/// scale all are NaN. `Warps` warps from `First` on fill it together.
template <int First, int Warps> M3_INLINE void fillCodeTable(u8 *table) {
  for (int scale = threadIdx.x - First * warpLanes; scale < 256; scale += Warps * warpLanes) {
    const f32 factor = (scale & 0x7f) == 0x7f ? notANumber : decodeE4m3Lane<1>(scale);
    u32 row[2];
    M3_UNROLL for (int i = 0; i < 2; ++i) {
      f32 product[4];
      M3_UNROLL for (int code = 0; code < 4; ++code) product[code] =
          e2m1Value(4 * i + code) * factor;
      row[i] = packE4m3(product[0], product[1]) | packE4m3(product[2], product[3]) << 16;
    }
    storeWide((uint2 *)(table + 8 * scale), uint2{row[0], row[1]});
  }
}

/// Eight packed codes to E4M3, four in a word, by a row of the table. Signs are taken as whole
/// bytes, 255 where a code is negative; times 128/255, modulo 2^32, these are the sign bits. So the
/// multiplier puts them in place, beside the pipe of permutations and masks, which is the busy one.
M3_INLINE void codesByTable(u32 packed, uint2 row, u32 (&out)[2]) {
  constexpr u32 signBit = 0x7f7f7f80u; // 255 · 0x7f7f7f80 = 128 + 2^32 · 127
  const u32 sizes = packed & 0x77777777u, high = packed << 4;
  out[0] = permuteBytes(packed, high, 0x9d8c) * signBit + permuteBytes(row.x, row.y, sizes);
  out[1] = permuteBytes(packed, high, 0xbfae) * signBit + permuteBytes(row.x, row.y, sizes >> 16);
}

/// The row of the scale that lies there. Scales are read byte by byte: reads cost the arithmetic
/// pipe nothing, which is what these kernels wait for.
M3_INLINE uint2 rowOfScale(const u8 *scale, const u8 *table) {
  return loadWide<uint2>((const uint2 *)table + loadWide<u8>(scale));
}

/// Sixteen NVFP4 codes with the row of their scale to pairs of FP16, in order.
M3_INLINE void groupByTable(u32 low, u32 high, uint2 row, u32 *out) {
  M3_UNROLL for (int w = 0; w < 2; ++w) {
    u32 codes[2];
    codesByTable(w ? high : low, row, codes);
    M3_UNROLL for (int i = 0; i < 2; ++i) {
      out[4 * w + 2 * i] = f16OfE4m3Low(codes[i]);
      out[4 * w + 2 * i + 1] = f16OfE4m3High(codes[i]);
    }
  }
}

//===- Keys -----------------------------------------------------------------------------------===//

/// K/4 dims of a token's key, from where the lane finds them: K/8 pairs.
template <int K> struct KeyRun {
  static_assert(K == 128);
  u32 v[K / 8];

  static M3_INLINE KeyRun e2m1(const u8 *codes, const u8 *scales, const u8 *table) {
    KeyRun run;
    const uint4 words = loadWide<uint4>(codes);
    groupByTable(words.x, words.y, rowOfScale(scales, table), run.v);
    groupByTable(words.z, words.w, rowOfScale(scales + 1, table), run.v + 8);
    return run;
  }
  static M3_INLINE KeyRun e4m3(const u8 *codes) {
    KeyRun run;
    M3_UNROLL for (int half = 0; half < 2; ++half) {
      const uint4 words = loadWide<uint4>(codes + 16 * half);
      const u32 four[4] = {words.x, words.y, words.z, words.w};
      M3_UNROLL for (int i = 0; i < 4; ++i) {
        run.v[8 * half + 2 * i] = f16OfE4m3Low(four[i]);
        run.v[8 * half + 2 * i + 1] = f16OfE4m3High(four[i]);
      }
    }
    return run;
  }
};

/// Sixteen keys: a lane has the runs of tokens first() and first() + step.
template <class T> struct KeysAs;
template <int K> struct KeysAs<OperandB<f16, K, 16>> {
  static constexpr int dims = K, step = 2;
  static M3_INLINE int first() {
    const int q = laneId() / 8, odd = laneId() / 4 % 2;
    return 4 * q + (odd ^ q % 2);
  }
  static M3_INLINE OperandB<f16, K, 16> of(const KeyRun<K> (&runs)[2]) {
    OperandB<f16, K, 16> b;
    M3_UNROLL for (int e = 0; e < 2; ++e) M3_UNROLL for (int i = 0; i < K / 8; ++i)
        b.v[e][i / 2][i % 2] = runs[e].v[i];
    return b;
  }
};
template <int K> struct KeysAs<OperandA<f16, K>> {
  static constexpr int dims = K, step = 8;
  static M3_INLINE int first() { return laneId() / 4; }
  static M3_INLINE OperandA<f16, K> of(const KeyRun<K> (&runs)[2]) {
    OperandA<f16, K> a;
    M3_UNROLL for (int half = 0; half < 2; ++half) M3_UNROLL for (int i = 0; i < K / 8; ++i)
        a.v[i / 2][half + 2 * (i % 2)] = runs[half].v[i];
    return a;
  }
};

template <class T> M3_INLINE T cached_e2m1(const u8 *codes, const u8 *scales, const u8 *table) {
  using Keys = KeysAs<T>;
  constexpr int K = Keys::dims, step = Keys::step;
  const int t = laneId() % 4;
  const u8 *code = codes + settled(Keys::first() * (K / 2) + t * (K / 8));
  const u8 *scale = scales + settled(Keys::first() * (K / 16) + t * (K / 64));
  const KeyRun<K> runs[2] = {
      KeyRun<K>::e2m1(code, scale, table),
      KeyRun<K>::e2m1(code + step * (K / 2), scale + step * (K / 16), table)};
  return Keys::of(runs);
}
template <class T> M3_INLINE T cached_e4m3(const u8 *codes) {
  using Keys = KeysAs<T>;
  constexpr int K = Keys::dims;
  const u8 *code = codes + settled(Keys::first() * K + laneId() % 4 * (K / 4));
  const KeyRun<K> runs[2] = {KeyRun<K>::e4m3(code), KeyRun<K>::e4m3(code + Keys::step * K)};
  return Keys::of(runs);
}

//===- Values ---------------------------------------------------------------------------------===//

/// E4M3 codes of a lane's four tokens, sixteen dims: the operand of sixteen values.
M3_INLINE OperandB<f16, 16, 128> valuesOfCodes(const u32 (&codes)[4][4]) {
  OperandB<f16, 16, 128> b;
  M3_UNROLL for (int w = 0; w < 4; ++w) M3_UNROLL for (int pair = 0; pair < 2; ++pair)
      M3_UNROLL for (int side = 0; side < 2; ++side) {
    const u32 two =
        permuteBytes(codes[2 * pair][w], codes[2 * pair + 1][w], side ? 0x7362 : 0x5140);
    const int dim = 4 * w + 2 * side;
    b.v[dim][0][pair] = f16OfE4m3Low(two);
    b.v[dim + 1][0][pair] = f16OfE4m3High(two);
  }
  return b;
}

template <class T>
M3_INLINE T cached_e2m1(const u8 *codes, const u8 *scales, const u8 *table, i64 tokens) {
  const int g = laneId() / 4, t = laneId() % 4, odd = t % 2;
  // Token 4t + (s ^ odd) is s behind 4t + odd where s is even, behind 4t − odd where it is odd.
  const u8 *code[2] = {codes + (4 * t + odd) * 64 + g * 8, codes + (4 * t - odd) * 64 + g * 8};
  const u8 *scale[2] = {scales + t * 32 + g * 4 + odd, scales + t * 32 + g * 4 - odd};
  u32 four[4][4];
  M3_UNROLL for (int s = 0; s < 4; ++s) {
    const uint2 packed = loadWide<uint2>(code[s % 2] + s * 64);
    uint2 row = rowOfScale(scale[s % 2] + s, table);
    if (4 * t + (s ^ odd) >= tokens)
      row = uint2{0, 0}; // signed zeros
    u32 low[2], high[2];
    codesByTable(packed.x, row, low);
    codesByTable(packed.y, row, high);
    four[s][0] = low[0], four[s][1] = low[1], four[s][2] = high[0], four[s][3] = high[1];
  }
  return valuesOfCodes(four);
}

template <class T> M3_INLINE T cached_e4m3(const u8 *codes, i64 tokens) {
  const int g = laneId() / 4, t = laneId() % 4, odd = t % 2;
  u32 four[4][4];
  M3_UNROLL for (int s = 0; s < 4; ++s) {
    const int token = 4 * t + (s ^ odd);
    const uint4 words = loadWide<uint4>((const uint4 *)codes + token * 8 + g);
    const u32 seen = token < tokens ? ~0u : 0u;
    four[s][0] = words.x & seen, four[s][1] = words.y & seen;
    four[s][2] = words.z & seen, four[s][3] = words.w & seen;
  }
  return valuesOfCodes(four);
}
