// Stored codes to FP32 and back: plain ones, groups of NVFP4 caches (docs/numerics.md).
#pragma once

#include "arithmetic.h"
#include "atoms.h"

/// Nearest BF16 of one value as `round_bf16` of functions.h, by the chip's conversion.
M3_INLINE f32 round_bf16(f32 x) { return bitsAs<f32>(packBf16(0.0f, x) & 0xffff0000u); }

template <class To, class From, int R, int C, class F>
M3_INLINE Tile<To, R, C> eachElement(const Tile<From, R, C> &in, F f) {
  Tile<To, R, C> out;
  M3_UNROLL for (int r = 0; r < R; ++r) M3_UNROLL for (int c = 0; c < in.vectors; ++c) out.v[r][c] =
      f(in.v[r][c]);
  return out;
}

/// An E2M1 code in the low four bits. Exponent and mantissa moved to their place in FP32 are the
/// value times 2^-126, the subnormal included.
M3_INLINE f32 e2m1Value(u32 code) {
  f32 size = bitsAs<f32>((code & 7u) << 22) * 0x1p126f;
  return bitsAs<f32>(bitsAs<u32>(size) | (code & 8u) << 28);
}

//===- Plain codes ----------------------------------------------------------------------------===//

template <int R, int C> M3_INLINE Tile<f32, R, C> decode_e4m3(const Tile<u8, R, C> &codes) {
  return eachElement<f32>(
      codes, [](u8 code) { return (code & 0x7f) == 0x7f ? notANumber : decodeE4m3Lane<1>(code); });
}

/// E4M3 without sign and NaN, as block scales are.
template <int R, int C> M3_INLINE Tile<f32, R, C> decode_ue4m3(const Tile<u8, R, C> &codes) {
  return eachElement<f32>(codes, [](u8 code) { return decodeE4m3Lane<1>(code); });
}

/// 2^(code − 127); code 0 is 2^-127, a subnormal.
template <int R, int C> M3_INLINE Tile<f32, R, C> decode_e8m0(const Tile<u8, R, C> &codes) {
  return eachElement<f32>(
      codes, [](u8 code) { return bitsAs<f32>(code ? (u32)code << 23 : 0x00400000u); });
}

template <int R, int C> M3_INLINE Tile<f32, R, C> decode_bf16(const Tile<u16, R, C> &codes) {
  return eachElement<f32>(codes, [](u16 code) { return bitsAs<f32>((u32)code << 16); });
}

template <int R, int C> M3_INLINE Tile<f32, R, C> decode_f32(const Tile<f32, R, C> &codes) {
  return codes;
}

template <int R, int C> M3_INLINE Tile<u8, R, C> encode_e4m3(const Tile<f32, R, C> &in) {
  return eachElement<u8>(in, [](f32 x) { return (u8)encodeE4m3(x); });
}

template <int R, int C> M3_INLINE Tile<u16, R, C> encode_bf16(const Tile<f32, R, C> &in) {
  return eachElement<u16>(in, [](f32 x) { return (u16)packBf16(x, 0.0f); });
}

template <int R, int C> M3_INLINE Tile<f32, R, C> encode_f32(const Tile<f32, R, C> &in) {
  return in;
}

//===- NVFP4 cache groups ---------------------------------------------------------------------===//

enum class Grid { Exact, E4m3 };

/// Sixteen codes times their scale, on the E4M3 grid or exact, as pairs (i, i + 8): lane 2i and
/// 2i + 1.
template <Grid grid>
M3_INLINE Tile<f32, 1, 16> dequantGroup(const Tile<u8, 1, 8> &codes, u8 scale) {
  const int dim = laneId() % 2 * 8 + laneId() % 16 / 2;
  u32 byte = fromLane(codes.v[0][0], dim / 2);
  f32 product = e2m1Value(byte >> (4 * (dim % 2))) * decodeE4m3Lane<1>(scale);
  Tile<f32, 1, 16> out;
  out.v[0][0] = grid == Grid::E4m3 ? round_e4m3(product) : product;
  if ((scale & 0x7f) == 0x7f)
    out.v[0][0] = notANumber;
  return out;
}
