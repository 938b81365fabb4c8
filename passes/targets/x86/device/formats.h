// Storage formats: packed weight words, cache groups, plain codes (docs/numerics.md).
#pragma once

#include "arithmetic.h"

//===- Weight words ---------------------------------------------------------------------------===//
// A 32-bit lane holds 32/bits consecutive k of one output, the first in its lowest bits.

template <class F, int C> M3_INLINE Tile<f32, 1, C> eachWord(const Tile<i32, 1, C> &words, F f) {
  Tile<f32, 1, C> t;
  M3_UNROLL for (int c = 0; c < t.vectors; ++c) t.v[0][c] = f(words.v[0][c], c);
  return t;
}

template <int C> M3_INLINE Tile<f32, 1, C> words_f32(const Tile<i32, 1, C> &words, i64) {
  return eachWord(words, [](auto w, int) { return bitsAs<Vec<f32, Tile<f32, 1, C>::W>>(w); });
}

template <int C> M3_INLINE Tile<f32, 1, C> words_bf16(const Tile<i32, 1, C> &words, i64 part) {
  return eachWord(words, [=](auto w, int) {
    return bitsAs<Vec<f32, Tile<f32, 1, C>::W>>((w << (16 - 16 * (i32)part)) & (i32)0xffff0000);
  });
}

/// One of two BF16 values that share a lane, as FP32.
template <int W> M3_INLINE Vec<f32, W> halfOfPair(Vec<i32, W> pair, bool upper) {
  return bitsAs<Vec<f32, W>>(upper ? pair & (i32)0xffff0000 : pair << 16);
}

/// The lower byte of each 16-bit lane as a signed number times 16.
template <int N> M3_INLINE Vec<i16, N> lowBytesBy16(Vec<i16, N> lanes) {
#ifndef __AVX512F__
  if constexpr (N == 16) { // one operation in place of two
    using Bytes = char __attribute__((ext_vector_type(32)));
    return __builtin_ia32_pmaddubsw256(bitsAs<Bytes>((Vec<i16, 16>)16), bitsAs<Bytes>(lanes));
  }
#endif
  return (lanes << 8) >> 4;
}

/// E4M3 bits moved to the place of BF16 exponent and mantissa are the value times 2^-120,
/// subnormals included; the factor rides on the scale (block scales are below 2^8, checked when
/// weights are read). Codes 0 and 2 of a word move together, and codes 1 and 3.
template <int C>
M3_INLINE Tile<f32, 1, C> words_e4m3(const Tile<i32, 1, C> &words, i64 part,
                                     const Tile<f32, 1, C> &scale) {
  return eachWord(words, [&](auto w, int c) {
    constexpr int W = Tile<f32, 1, C>::W;
    auto codes = bitsAs<Vec<i16, 2 * W>>(w);
    auto pair = (part & 1 ? codes >> 4 : lowBytesBy16<2 * W>(codes)) & (i16)0x87f0;
    return halfOfPair<W>(bitsAs<Vec<i32, W>>(pair), part & 2) * (scale.v[0][c] * 0x1p120f);
  });
}

#ifdef __AVX512F__
/// A code of each word, times its scale.
M3_INLINE Vec<f32, 16> e2m1Part(Vec<i32, 16> words, i64 part, Vec<f32, 16> scale) {
  const Vec<f32, 16> table = {0, .5f, 1, 1.5f, 2, 3, 4, 6, 0, -.5f, -1, -1.5f, -2, -3, -4, -6};
  auto codes = bitsAs<Vec<i32, 16>>(bitsAs<Vec<u32, 16>>(words) >> (u32)(4 * part));
  return __builtin_ia32_permvarsf512(table, codes) * scale; // the low 4 bits of each lane count
}
#else
using Bytes = char __attribute__((ext_vector_type(32)));
/// Byte i of each half of the result: byte indices[i] of that half of `from`.
M3_INLINE Bytes shuffleBytes(Bytes from, Bytes indices) {
  return __builtin_ia32_pshufb256(from, indices);
}
M3_INLINE Bytes inBothHalves(u64 first, u64 second) {
  return bitsAs<Bytes>(Vec<u64, 4>{first, second, first, second});
}

/// A code of each word, times its scale. Parts 0 to 3 lie in the lower 16 bits of a word, 4 to 7 in
/// the upper ones: shifted down and masked, a part of each kind is an index pair (code, 0). One
/// table look-up makes each pair a BF16 value 48.5 + code: the entry of code 0 is also the upper
/// byte of all of them. (48.5 + code) · scale − 48.5 · scale is exact. What parts share is computed
/// once, as the compiler sees equal expressions.
M3_INLINE Vec<f32, 8> e2m1Part(Vec<i32, 8> words, i64 part, Vec<f32, 8> scale) {
  const Bytes table = inBothHalves(0x5a524e4a48464442, 0x2a32363a3c3e4042);
  auto codes = bitsAs<Vec<u16, 16>>(words) >> (u16)(4 * (part & 3));
  if ((part & 3) != 3) // else nothing is above the code
    codes &= (u16)0x000f;
  Bytes pairs = shuffleBytes(table, bitsAs<Bytes>(codes));
  Vec<f32, 8> value = halfOfPair<8>(bitsAs<Vec<i32, 8>>(pairs), part & 4);
  return __builtin_elementwise_fma(value, scale, scale * -48.5f);
}
#endif

template <int C>
M3_INLINE Tile<f32, 1, C> words_e2m1(const Tile<i32, 1, C> &words, i64 part,
                                     const Tile<f32, 1, C> &scale) {
  return eachWord(words, [&](auto w, int c) { return e2m1Part(w, part, scale.v[0][c]); });
}

//===- Plain codes ----------------------------------------------------------------------------===//

template <class To, class From, int R, int C, class F>
M3_INLINE Tile<To, R, C> eachElement(const Tile<From, R, C> &in, F f) {
  Tile<To, R, C> out;
  constexpr int n =
      Tile<f32, R, C>::W < Tile<From, R, C>::W ? Tile<f32, R, C>::W : Tile<From, R, C>::W;
  static_assert(C % n == 0);
  const From *from = (const From *)&in;
  To *to = (To *)&out;
  M3_UNROLL for (int i = 0; i < R * C; i += n) {
    Vec<From, n> x;
    __builtin_memcpy(&x, from + i, sizeof(x));
    Vec<To, n> y = f(x);
    __builtin_memcpy(to + i, &y, sizeof(y));
  }
  return out;
}

template <int R, int C> M3_INLINE Tile<f32, R, C> decode_e4m3(const Tile<u8, R, C> &codes) {
  return eachElement<f32>(codes, [](auto x) {
    constexpr int n = LaneCount<decltype(x)>::value;
    Vec<i32, n> code = convert<i32>(x);
    return select((code & 0x7f) == 0x7f, (Vec<f32, n>)notANumber, decodeE4m3Lane<n>(code));
  });
}

/// E4M3 without sign and NaN, as block scales are: exponent and mantissa in place, times 2^120.
template <int R, int C> M3_INLINE Tile<f32, R, C> decode_ue4m3(const Tile<u8, R, C> &codes) {
  return eachElement<f32>(codes, [](auto x) {
    return bitsAs<Vec<f32, LaneCount<decltype(x)>::value>>(convert<i32>(x) << 20) * 0x1p120f;
  });
}

/// 2^(code − 127); code 0 is 2^-127, a subnormal.
template <int R, int C> M3_INLINE Tile<f32, R, C> decode_e8m0(const Tile<u8, R, C> &codes) {
  return eachElement<f32>(codes, [](auto x) {
    constexpr int n = LaneCount<decltype(x)>::value;
    Vec<i32, n> bits = convert<i32>(x) << 23, tiny = 0x00400000;
    return bitsAs<Vec<f32, n>>(__builtin_elementwise_max(bits, tiny));
  });
}

template <int R, int C> M3_INLINE Tile<f32, R, C> decode_bf16(const Tile<u16, R, C> &codes) {
  return eachElement<f32>(codes, [](auto x) {
    return bitsAs<Vec<f32, LaneCount<decltype(x)>::value>>(convert<i32>(x) << 16);
  });
}

template <int R, int C> M3_INLINE Tile<f32, R, C> decode_f32(const Tile<f32, R, C> &codes) {
  return codes;
}

template <int R, int C> M3_INLINE Tile<u8, R, C> encode_e4m3(const Tile<f32, R, C> &in) {
  return eachElement<u8>(in, [](auto x) { return convert<u8>(encodeE4m3(x)); });
}

template <int R, int C> M3_INLINE Tile<u16, R, C> encode_bf16(const Tile<f32, R, C> &in) {
  return eachElement<u16>(in, [](auto x) {
    return convert<u16>(bitsAs<Vec<u32, LaneCount<decltype(x)>::value>>(round_bf16(x)) >> 16);
  });
}

template <int R, int C> M3_INLINE Tile<f32, R, C> encode_f32(const Tile<f32, R, C> &in) {
  return in;
}

//===- NVFP4 cache groups ---------------------------------------------------------------------===//

enum class Grid { Exact, E4m3 };

/// For each scale byte the products with the E2M1 values, on the E4M3 grid or exact: all sixteen
/// where a vector holds them, else the eight magnitudes with the code's lower three bits added to
/// bits 28 … 30, so that one XOR with the code at the top of the lane takes them away and sets the
/// sign.
struct GroupTable {
#ifdef __AVX512F__
  f32 row[256][16];
#else
  f32 row[256][8];
#endif
};
constexpr f32 e4m3Value(int code) {
  if ((code & 0x7f) == 0x7f)
    return notANumber;
  int exponent = (code >> 3) & 15;
  f32 value = exponent ? 8 + (code & 7) : code & 7;
  for (int e = exponent ? exponent : 1; e < 10; ++e)
    value /= 2;
  for (int e = 10; e < exponent; ++e)
    value *= 2;
  return code & 0x80 ? -value : value;
}
constexpr f32 onE4m3Grid(f32 value) {
  if (value == 0)
    return value;
  f32 size = value < 0 ? -value : value, step = 1.0f / 512;
  if (size > 448)
    size = 448;
  while (size >= 16 * step)
    step *= 2;
  f32 quotient = size / step; // exact: step is a power of two
  i64 whole = (i64)quotient;
  f32 rest = quotient - (f32)whole;
  whole += rest > 0.5f || (rest == 0.5f && (whole & 1));
  return (value < 0 ? -1 : 1) * (f32)whole * step;
}
template <Grid grid> constexpr f32 groupProduct(int code, int scale) {
  constexpr f32 magnitudes[8] = {0, .5f, 1, 1.5f, 2, 3, 4, 6};
  if ((scale & 0x7f) == 0x7f)
    return notANumber;
  f32 product = magnitudes[code & 7] * e4m3Value(scale);
  product = grid == Grid::E4m3 ? onE4m3Grid(product) : product;
  return code & 8 ? -product : product;
}
template <Grid grid> constexpr GroupTable makeGroupTable() {
  GroupTable table{};
  for (int scale = 0; scale < 256; ++scale) {
#ifdef __AVX512F__
    for (int code = 0; code < 16; ++code)
      table.row[scale][code] = groupProduct<grid>(code, scale);
#else
    for (int code = 0; code < 8; ++code)
      table.row[scale][code] = __builtin_bit_cast(
          f32, __builtin_bit_cast(u32, groupProduct<grid>(code, scale)) ^ (u32)code << 28);
#endif
  }
  return table;
}
template <Grid grid> alignas(64) inline constexpr GroupTable groupTable = makeGroupTable<grid>();

/// Sixteen codes as pairs (i, i + 8): the word in every 64-bit lane, each 32-bit half shifted to
/// its own code; no lane has to move.
template <Grid grid>
M3_INLINE Tile<f32, 1, 16> dequantGroup(const Tile<u8, 1, 8> &codes, u8 scale) {
  u64 word = bitsAs<u64>(codes.v[0][0]);
  const f32 *row = groupTable<grid>.row[scale];
  Tile<f32, 1, 16> out;
#ifdef __AVX512F__
  const Vec<u32, 16> shifts = {0, 0, 4, 4, 8, 8, 12, 12, 16, 16, 20, 20, 24, 24, 28, 28};
  Vec<i32, 16> lanes = bitsAs<Vec<i32, 16>>(bitsAs<Vec<u32, 16>>(splat<u64, 8>(word)) >> shifts);
  Vec<f32, 16> table;
  __builtin_memcpy(&table, row, sizeof(table));
  out.v[0][0] = __builtin_ia32_permvarsf512(table, lanes); // the low 4 bits of each lane count
#else
  const Vec<u32, 8> shifts[2] = {{0, 0, 4, 4, 8, 8, 12, 12}, {16, 16, 20, 20, 24, 24, 28, 28}};
  Vec<f32, 8> table;
  __builtin_memcpy(&table, row, sizeof(table));
  M3_UNROLL for (int half = 0; half < 2; ++half) {
    Vec<i32, 8> lanes =
        bitsAs<Vec<i32, 8>>(bitsAs<Vec<u32, 8>>(splat<u64, 4>(word)) >> shifts[half]);
    Vec<f32, 8> size = __builtin_ia32_permvarsf256(table, lanes); // the low 3 bits count
    out.v[0][half] = bitsAs<Vec<f32, 8>>(bitsAs<Vec<i32, 8>>(size) ^ (lanes << 28));
  }
#endif
  return out;
}

struct Group {
  Tile<u8, 1, 8> codes;
  u8 scale;
};

/// Scale byte E4M3(clamp(amax/6, 1/512, 448)); codes by exact comparison of |x| with bound·scale,
/// which is rounding to nearest even on the E2M1 grid. Never −0.
M3_INLINE Group quantGroup(const Tile<f32, 1, 16> &in) {
  Vec<f32, 16> x;
  __builtin_memcpy(&x, &in, sizeof(x));
  Vec<f32, 16> size = magnitude(x);
  f32 amax = maximum(foldMax<f32, 16>(size), 1e-12f);
  f32 wanted = minimum(maximum(amax / 6, 1.0f / 512), 448.0f);
  Group group;
  group.scale = (u8)encodeE4m3(wanted);
  Vec<f32, 16> s = splat<f32, 16>(e4m3Value(group.scale));
  Vec<i32, 16> code = 0; // each comparison that holds adds 1 (it yields −1)
  code -= size > 0.25f * s;
  code -= size >= 0.75f * s;
  code -= size > 1.25f * s;
  code -= size >= 1.75f * s;
  code -= size > 2.5f * s;
  code -= size >= 3.5f * s;
  code -= size > 5.0f * s;
  code |= (x < 0.0f) & (code != 0) & 8;
  Vec<i32, 8> low = __builtin_shufflevector(code, code, 0, 2, 4, 6, 8, 10, 12, 14);
  Vec<i32, 8> high = __builtin_shufflevector(code, code, 1, 3, 5, 7, 9, 11, 13, 15);
  group.codes.v[0][0] = __builtin_convertvector(low | (high << 4), Vec<u8, 8>);
  return group;
}
