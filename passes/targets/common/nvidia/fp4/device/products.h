// NVFP4 codes times their scales in registers, where no table of products is needed: keys and
// values of a slot as operands of matrix instructions (cached.h has the order). `P` is how the four
// codes of half a word are multiplied by a scale.
#pragma once

#include "cached.h"
#include "fp4_atoms.h"

/// On the E4M3 grid by way of FP16: the product of a code and a scale is exact in FP16.
struct DetourProduct {
  /// Of a scale byte, for both halves.
  static M3_INLINE u32 scale(u8 byte) { return f16OfE4m3Low(byte * 0x101u); }
  /// Of the byte of a word that each nibble of `select` names; byte 4 is 0.
  static M3_INLINE u32 scaleOf(u32 word, u32 select) {
    return f16OfE4m3Low(permuteBytes(word, 0, select));
  }
  /// Four E4M3 codes.
  static M3_INLINE u32 codes(u32 word, int half, u32 scale) {
    return e4m3OfF16(multiplyF16(f16OfE2m1(word, 2 * half), scale)) |
           e4m3OfF16(multiplyF16(f16OfE2m1(word, 2 * half + 1), scale)) << 16;
  }
  static M3_INLINE void pairs(u32 word, int half, u32 scale, u32 *out) {
    const u32 products = codes(word, half, scale);
    out[0] = f16OfE4m3Low(products), out[1] = f16OfE4m3High(products);
  }
};

/// Exact products.
struct ExactProduct {
  static M3_INLINE u32 scale(u8 byte) { return DetourProduct::scale(byte); }
  static M3_INLINE void pairs(u32 word, int half, u32 scale, u32 *out) {
    out[0] = multiplyF16(f16OfE2m1(word, 2 * half), scale);
    out[1] = multiplyF16(f16OfE2m1(word, 2 * half + 1), scale);
  }
};

/// K/4 dims of a token's key, from where the lane finds them.
template <class P, int K> M3_INLINE KeyRun<K> keyRunBy(const u8 *codes, const u8 *scales) {
  KeyRun<K> run;
  const uint4 words = loadWide<uint4>(codes);
  const u32 four[4] = {words.x, words.y, words.z, words.w};
  M3_UNROLL for (int group = 0; group < 2; ++group) {
    const u32 scale = P::scale(loadWide<u8>(scales + group));
    M3_UNROLL for (int i = 0; i < 4; ++i)
        P::pairs(four[2 * group + i / 2], i % 2, scale, run.v + 8 * group + 2 * i);
  }
  return run;
}

template <class T, class P> M3_INLINE T cachedBy(const u8 *codes, const u8 *scales) {
  using Keys = KeysAs<T>;
  constexpr int K = Keys::dims, step = Keys::step;
  const int t = laneId() % 4;
  const u8 *code = codes + settled(Keys::first() * (K / 2) + t * (K / 8));
  const u8 *scale = scales + settled(Keys::first() * (K / 16) + t * (K / 64));
  const KeyRun<K> runs[2] = {keyRunBy<P, K>(code, scale),
                             keyRunBy<P, K>(code + step * (K / 2), scale + step * (K / 16))};
  return Keys::of(runs);
}
/// Sixteen values.
template <class T, class P> M3_INLINE T cachedBy(const u8 *codes, const u8 *scales, i64 tokens) {
  const int g = laneId() / 4, t = laneId() % 4, odd = t % 2;
  u32 quad = permuteBytes(loadWide<u32>((const u32 *)scales + t * 8 + g), 0, odd ? 0x2301 : 0x3210);
  if (tokens < 16) // a scale of zero makes zeros
    M3_UNROLL for (int s = 0; s < 4; ++s) if (4 * t + (s ^ odd) >= tokens) quad &=
        ~(0xffu << 8 * s);
  u32 four[4][4];
  M3_UNROLL for (int s = 0; s < 4; ++s) {
    const uint2 packed = loadWide<uint2>((const uint2 *)codes + (4 * t + (s ^ odd)) * 8 + g);
    const u32 scale = P::scale((u8)(quad >> 8 * s));
    M3_UNROLL for (int i = 0; i < 4; ++i) four[s][i] =
        P::codes(i < 2 ? packed.x : packed.y, i % 2, scale);
  }
  return valuesOfCodes(four);
}

template <class T> M3_INLINE T cachedByDetour(const u8 *codes, const u8 *scales) {
  return cachedBy<T, DetourProduct>(codes, scales);
}
template <class T> M3_INLINE T cachedByDetour(const u8 *codes, const u8 *scales, i64 tokens) {
  return cachedBy<T, DetourProduct>(codes, scales, tokens);
}
template <class T> M3_INLINE T cachedExact(const u8 *codes, const u8 *scales) {
  return cachedBy<T, ExactProduct>(codes, scales);
}
