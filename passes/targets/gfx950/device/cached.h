// Slots of cache pages in shared memory to operands of matrix instructions. NVFP4 codes are looked
// up in a table of E4M3 codes by a byte permutation, four at a time, and get their sign by XOR.
// Keys stay E4M3 where queries are, values become FP16, in which E4M3 is exact.
//
// Lane 16g + r reads of a key the 32 dims from 32g on. Of values it reads dims 8r … 8r + 7 of the
// eight tokens from 8g on, in the order of their number XOR g: four rows of 64 bytes that a wave
// reads together then lie in different banks. Columns of a product with keys are these tokens:
// column 16e + 4q + b is token 8q + ((4e + b) ^ q).
#pragma once

#include "operands.h"

/// Row s of the table: E4M3 codes of the eight magnitudes of E2M1 times scale s. With NaN as a
/// scale all are NaN. `Warps` warps from `First` on fill it together.
template <int First, int Warps> M3_INLINE void fillCodeTable(u8 *table) {
  for (int scale = threadNumber() - First * warpLanes; scale < 256; scale += Warps * warpLanes) {
    const f32 factor = (scale & 0x7f) == 0x7f ? notANumber : decodeE4m3Lane<1>(scale);
    u32 row[2];
    M3_UNROLL for (int i = 0; i < 2; ++i) {
      f32 product[4];
      M3_UNROLL for (int code = 0; code < 4; ++code) {
        // An E2M1 code at the place of exponent and mantissa is its value times 2^-126.
        const f32 value = bitsAs<f32>((u32)(4 * i + code) << 22) * 0x1p126f * factor;
        product[code] = select(value > 448.0f, 448.0f, select(value < -448.0f, -448.0f, value));
      }
      row[i] = packE4m3(product[0], product[1]) | packE4m3(product[2], product[3]) << 16;
    }
    storeWide((uint2 *)(table + 8 * scale), uint2{row[0], row[1]});
  }
}

/// Eight packed codes to E4M3 by a row of the table: the even ones in out[0], the odd in out[1].
M3_INLINE void codesByTable(u32 packed, uint2 row, u32 (&out)[2]) {
  out[0] = permuteBytes(row.x, row.y, packed & 0x07070707u) ^ (packed << 4 & 0x80808080u);
  out[1] = permuteBytes(row.x, row.y, packed >> 4 & 0x07070707u) ^ (packed & 0x80808080u);
}
M3_INLINE uint2 tableRow(const u8 *table, u32 scale) {
  return loadWide<uint2>((const uint2 *)table + (scale & 0xffu));
}

//===- Keys -----------------------------------------------------------------------------------===//

/// This lane's part of a token's key.
template <int K>
M3_INLINE Line<e4m3, K> keyLine(const u8 *codes, const u8 *scales, const u8 *table, int token) {
  static_assert(K == 128);
  const int g = partOfLane();
  const uint4 words = loadWide<uint4>((const uint4 *)(codes + token * (K / 2)) + g);
  const u32 both = loadWide<u16>((const u16 *)(scales + token * (K / 16)) + g);
  const uint2 rows[2] = {tableRow(table, both), tableRow(table, both >> 8)};
  const u32 packed[4] = {words.x, words.y, words.z, words.w};
  Line<e4m3, K> line;
  M3_UNROLL for (int w = 0; w < 4; ++w) {
    u32 two[2];
    codesByTable(packed[w], rows[w / 2], two);
    line.v[0][2 * w] = two[0], line.v[0][2 * w + 1] = two[1];
  }
  return line;
}

/// The same of E4M3 codes, in the order of the element; in FP16.
M3_INLINE void keyWords(const u8 *codes, int token, u32 (&words)[8]) {
  M3_UNROLL for (int half = 0; half < 2; ++half) {
    const uint4 four =
        loadWide<uint4>((const uint4 *)(codes + token * 128) + 2 * partOfLane() + half);
    words[4 * half] = four.x, words[4 * half + 1] = four.y;
    words[4 * half + 2] = four.z, words[4 * half + 3] = four.w;
  }
}
template <int K> M3_INLINE void plainKeyLine(const u8 *codes, int token, Line<e4m3, K> &line) {
  static_assert(K == 128);
  u32 words[8];
  keyWords(codes, token, words);
  M3_UNROLL for (int i = 0; i < 8; i += 2) {
    line.v[0][i] = permuteBytes(words[i], words[i + 1], 0x06040200u);
    line.v[0][i + 1] = permuteBytes(words[i], words[i + 1], 0x07050301u);
  }
}
template <int K> M3_INLINE void plainKeyLine(const u8 *codes, int token, Line<f16, K> &line) {
  static_assert(K == 128);
  u32 words[8];
  keyWords(codes, token, words);
  M3_UNROLL for (int i = 0; i < 8; ++i) {
    line.v[i / 2][i % 2 * 2] = f16OfE4m3Low(words[i]);
    line.v[i / 2][i % 2 * 2 + 1] = f16OfE4m3High(words[i]);
  }
}

/// Keys as rows, or as columns: `line` gives that of a token.
template <class T> struct CachedKeys;
template <class E, int K> struct CachedKeys<OperandA<E, K>> {
  template <class F> static M3_INLINE OperandA<E, K> from(F line) {
    OperandA<E, K> keys;
    line(rowOfLane(), keys.line);
    return keys;
  }
};
template <class E, int K> struct CachedKeys<OperandB<E, K, 32>> {
  template <class F> static M3_INLINE OperandB<E, K, 32> from(F line) {
    const int q = rowOfLane() / 4, b = rowOfLane() % 4;
    OperandB<E, K, 32> keys;
    M3_UNROLL for (int e = 0; e < 2; ++e) line(8 * q + ((4 * e + b) ^ q), keys.line[e]);
    return keys;
  }
};
template <class T> M3_INLINE T cached_e2m1(const u8 *codes, const u8 *scales, const u8 *table) {
  return CachedKeys<T>::from(
      [=](int token, Line<e4m3, 128> &line) { line = keyLine<128>(codes, scales, table, token); });
}
template <class T> M3_INLINE T cached_e4m3(const u8 *codes) {
  return CachedKeys<T>::from([=](int token, auto &line) { plainKeyLine(codes, token, line); });
}

//===- Values ---------------------------------------------------------------------------------===//

/// Scales of values lie in quads of tokens: byte t of quad `tokens/4` and group of 16 dims is that
/// of its token t. Here byte s is that of token s ^ g; those that are not seen are zero.
M3_INLINE u32 quadOfScales(const u8 *scales, int quad, i64 tokens) {
  const int g = partOfLane(), group = rowOfLane() / 2;
  u32 bytes = loadWide<u32>((const u32 *)scales + quad * 8 + group);
  bytes = permuteBytes(bytes, 0, 0x03020100u ^ (u32)g * 0x01010101u);
  if (tokens < 32) // a scale of zero makes zeros
    M3_UNROLL for (int s = 0; s < 4; ++s) if (4 * quad + (s ^ g) >= tokens) bytes &=
        ~(0xffu << 8 * s);
  return bytes;
}

/// Two tokens' codes of four dims to pairs of FP16, a dim in each word.
M3_INLINE void pairsOfTokens(u32 first, u32 second, u32 (&out)[4]) {
  const u32 low = permuteBytes(first, second, 0x05010400u);
  const u32 high = permuteBytes(first, second, 0x07030602u);
  out[0] = f16OfE4m3Low(low), out[1] = f16OfE4m3High(low);
  out[2] = f16OfE4m3Low(high), out[3] = f16OfE4m3High(high);
}

/// 32 tokens, of which those from `tokens` on are zero. Column 16n + r is dim 8r + n.
template <class T>
M3_INLINE T cached_e2m1(const u8 *codes, const u8 *scales, const u8 *table, i64 tokens) {
  const int g = partOfLane();
  T values;
  M3_UNROLL for (int pair = 0; pair < 4; ++pair) {
    const u32 quad = quadOfScales(scales, 2 * g + pair / 2, tokens);
    u32 two[2][2];
    M3_UNROLL for (int i = 0; i < 2; ++i) {
      const int s = 2 * pair + i, token = 8 * g + (s ^ g);
      const u32 packed = loadWide<u32>((const u32 *)codes + token * 16 + rowOfLane());
      codesByTable(packed, tableRow(table, quad >> 8 * (s % 4)), two[i]);
    }
    M3_UNROLL for (int odd = 0; odd < 2; ++odd) {
      u32 dims[4];
      pairsOfTokens(two[0][odd], two[1][odd], dims);
      M3_UNROLL for (int i = 0; i < 4; ++i) values.line[2 * i + odd].v[0][pair] = dims[i];
    }
  }
  return values;
}
template <class T> M3_INLINE T cached_e4m3(const u8 *codes, i64 tokens) {
  const int g = partOfLane();
  T values;
  M3_UNROLL for (int pair = 0; pair < 4; ++pair) {
    uint2 two[2];
    M3_UNROLL for (int i = 0; i < 2; ++i) {
      const int token = 8 * g + ((2 * pair + i) ^ g);
      const uint2 words = loadWide<uint2>((const uint2 *)codes + token * 16 + rowOfLane());
      const u32 seen = token < tokens ? ~0u : 0u;
      two[i] = uint2{words.x & seen, words.y & seen};
    }
    u32 low[4], high[4];
    pairsOfTokens(two[0].x, two[1].x, low);
    pairsOfTokens(two[0].y, two[1].y, high);
    M3_UNROLL for (int i = 0; i < 4; ++i) {
      values.line[i].v[0][pair] = low[i];
      values.line[4 + i].v[0][pair] = high[i];
    }
  }
  return values;
}
