// Storage formats: packed weight words, new groups of NVFP4 caches (docs/numerics.md).
#pragma once

#include "stored.h"

//===- Weight words ---------------------------------------------------------------------------===//
// A 32-bit lane holds 32/bits consecutive k of one output, the first in its lowest bits.

template <int C, class F> M3_INLINE Tile<f32, 1, C> eachWord(const Tile<i32, 1, C> &words, F f) {
  Tile<f32, 1, C> t;
  M3_UNROLL for (int c = 0; c < t.vectors; ++c) t.v[0][c] = f((u32)words.v[0][c], c);
  return t;
}

template <int C> M3_INLINE Tile<f32, 1, C> words_f32(const Tile<i32, 1, C> &words, i64) {
  return eachWord(words, [](u32 w, int) { return bitsAs<f32>(w); });
}

template <int C> M3_INLINE Tile<f32, 1, C> words_bf16(const Tile<i32, 1, C> &words, i64 part) {
  return eachWord(
      words, [=](u32 w, int) { return bitsAs<f32>(w << (16 - 16 * (u32)part) & 0xffff0000u); });
}

template <int C>
M3_INLINE Tile<f32, 1, C> words_e4m3(const Tile<i32, 1, C> &words, i64 part,
                                     const Tile<f32, 1, C> &scale) {
  return eachWord(words, [&](u32 w, int c) {
    return decodeE4m3Lane<1>((i32)(w >> (8 * (u32)part) & 0xffu)) * scale.v[0][c];
  });
}

template <int C>
M3_INLINE Tile<f32, 1, C> words_e2m1(const Tile<i32, 1, C> &words, i64 part,
                                     const Tile<f32, 1, C> &scale) {
  return eachWord(words,
                  [&](u32 w, int c) { return e2m1Value(w >> (4 * (u32)part)) * scale.v[0][c]; });
}

//===- NVFP4 cache groups ---------------------------------------------------------------------===//

struct Group {
  Tile<u8, 1, 8> codes;
  u8 scale;
};

/// Scale byte E4M3(clamp(amax/6, 1/512, 448)) of a group whose largest magnitude is `amax`.
M3_INLINE u8 groupScale(f32 amax) {
  f32 wanted = __fdiv_rn(maximum(amax, 1e-12f), 6.0f);
  return (u8)encodeE4m3(minimum(maximum(wanted, 1.0f / 512), 448.0f));
}
/// By exact comparison of |x| with bound·scale, which is rounding to nearest even on the E2M1 grid.
/// Never −0.
M3_INLINE u32 groupCode(f32 x, u8 scale) {
  f32 s = decodeE4m3Lane<1>(scale), size = magnitude(x);
  u32 code = (size > 0.25f * s) + (size >= 0.75f * s) + (size > 1.25f * s) + (size >= 1.75f * s) +
             (size > 2.5f * s) + (size >= 3.5f * s) + (size > 5.0f * s);
  return code | (x < 0 && code ? 8u : 0u);
}

M3_INLINE Group quantGroup(const Tile<f32, 1, 16> &in) {
  Tile<f32, 1, 16> sizes = eachElement<f32>(in, [](f32 x) { return magnitude(x); });
  Group group;
  group.scale = groupScale(reduceMax(sizes).v[0][0]);
  u32 code = groupCode(in.v[0][0], group.scale);
  u32 even = fromLane(code, laneId() % 8 * 2), odd = fromLane(code, laneId() % 8 * 2 + 1);
  group.codes.v[0][0] = (u8)(even | odd << 4);
  return group;
}

template <int C> struct GroupsOf {
  Tile<u8, 1, C / 2> codes;
  Tile<u8, 1, C / 16> scales;
};
/// Two groups for each 32 lanes.
template <int C> M3_INLINE GroupsOf<C> quantGroups(const Tile<f32, 1, C> &in) {
  static_assert(C == warpLanes, "a group has sixteen lanes");
  GroupsOf<C> groups;
  f32 amax = magnitude(in.v[0][0]);
  M3_UNROLL for (int far = 1; far < 16; far *= 2) amax =
      maximum(amax, fromLane(amax, laneId() ^ far));
  u8 scale = groupScale(amax);
  u32 code = groupCode(in.v[0][0], scale);
  u32 even = fromLane(code, laneId() % 16 * 2), odd = fromLane(code, laneId() % 16 * 2 + 1);
  groups.codes.v[0][0] = (u8)(even | odd << 4);
  groups.scales.v[0][0] = fromLane(scale, laneId() % 2 * 16);
  return groups;
}
