// NVFP4 codes times their scales by one instruction for four of them.
#pragma once

#include "products.h"
#include "tensor_atoms.h"

struct MultipliedProduct {
  /// Of a scale byte, for each of four codes.
  static M3_INLINE u32 scale(u8 byte) { return permuteBytes(byte, 0, 0); }
  /// Of the byte of a word that each nibble of `select` names; byte 4 is 0.
  static M3_INLINE u32 scaleOf(u32 word, u32 select) { return permuteBytes(word, 0, select); }
  static M3_INLINE u32 codes(u32 word, int half, u32 scale) {
    return multiplyE2m1E4m3((u16)(word >> 16 * half), scale);
  }
  static M3_INLINE void pairs(u32 word, int half, u32 scale, u32 *out) {
    const u32 products = codes(word, half, scale);
    out[0] = f16OfE4m3Low(products), out[1] = f16OfE4m3High(products);
  }
};

template <class T> M3_INLINE T cachedMultiplied(const u8 *codes, const u8 *scales) {
  return cachedBy<T, MultipliedProduct>(codes, scales);
}
template <class T> M3_INLINE T cachedMultiplied(const u8 *codes, const u8 *scales, i64 tokens) {
  return cachedBy<T, MultipliedProduct>(codes, scales, tokens);
}
