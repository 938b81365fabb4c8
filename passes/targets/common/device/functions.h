// Functions of scalar regions that every target computes alike, operation by operation, from the
// primitives of its own headers (select, minimum, maximum, convert, magnitude, fusedMultiplyAdd,
// roundEven, bitsAs): the same plan gives the same bits wherever additions and products round
// alike.
#pragma once

/// e^x in FP32, within 2 units in the last place; below -87.3 the result is 0, above 88.7 infinity.
/// x = n ln 2 + r with |r| ≤ ln 2 / 2, then the Taylor polynomial of degree 7 in r.
template <class V> M3_INLINE V exponential(V x) {
  constexpr int n = LaneCount<V>::value;
  using I = Vec<i32, n>;
  V clamped = minimum(maximum(x, (V)-88.0f), (V)88.7f);
  V steps = roundEven(clamped * (V)0x1.715476p+0f);
  V r = fusedMultiplyAdd(steps, (V)-0x1.62e4p-1f, clamped);
  r = fusedMultiplyAdd(steps, (V)-0x1.7f7d1cp-20f, r); // ln 2 = 0x1.62e4p-1 + 0x1.7f7d1cp-20
  V p = (V)(1.0f / 5040);
  p = fusedMultiplyAdd(p, r, (V)(1.0f / 720));
  p = fusedMultiplyAdd(p, r, (V)(1.0f / 120));
  p = fusedMultiplyAdd(p, r, (V)(1.0f / 24));
  p = fusedMultiplyAdd(p, r, (V)(1.0f / 6));
  p = fusedMultiplyAdd(p, r, (V)0.5f);
  p = fusedMultiplyAdd(p, r, (V)1.0f);
  p = fusedMultiplyAdd(p, r, (V)1.0f);
  I exponent = (convert<i32>(steps) + 127) << 23;
  V result = p * bitsAs<V>(exponent);
  result = select(x < (V)-87.3f, (V)0.0f, result);
  result = select(x > (V)88.7f, (V)infinity, result);
  return select(x != x, x, result);
}

/// Cosine and sine of an FP32 angle, for any angle up to 2^30: reduced by multiples of π/2 in
/// double, then a Taylor polynomial in double, rounded once.
struct Turn {
  f64 r;
  i64 quadrant;
};
M3_INLINE Turn reduceAngle(f32 angle) {
  f64 n = roundEven((f64)angle * 0x1.45f306dc9c883p-1);
  f64 r = fusedMultiplyAdd(-n, 0x1.921fb54442d18p+0, (f64)angle);
  r = fusedMultiplyAdd(-n, 0x1.1a62633145c07p-54, r);
  return {r, (i64)n & 3};
}
M3_INLINE f64 sinePolynomial(f64 r) {
  f64 s = r * r, p = -1.0 / 1307674368000;
  p = p * s + 1.0 / 6227020800;
  p = p * s - 1.0 / 39916800;
  p = p * s + 1.0 / 362880;
  p = p * s - 1.0 / 5040;
  p = p * s + 1.0 / 120;
  p = p * s - 1.0 / 6;
  return r + r * s * p;
}
M3_INLINE f64 cosinePolynomial(f64 r) {
  f64 s = r * r, p = 1.0 / 20922789888000;
  p = p * s - 1.0 / 87178291200;
  p = p * s + 1.0 / 479001600;
  p = p * s - 1.0 / 3628800;
  p = p * s + 1.0 / 40320;
  p = p * s - 1.0 / 720;
  p = p * s + 1.0 / 24;
  p = p * s - 0.5;
  return 1 + s * p;
}
M3_INLINE f32 cosineOf(f32 angle) {
  Turn turn = reduceAngle(angle);
  f64 value = turn.quadrant & 1 ? sinePolynomial(turn.r) : cosinePolynomial(turn.r);
  return (f32)(turn.quadrant == 1 || turn.quadrant == 2 ? -value : value);
}
M3_INLINE f32 sineOf(f32 angle) {
  Turn turn = reduceAngle(angle);
  f64 value = turn.quadrant & 1 ? cosinePolynomial(turn.r) : sinePolynomial(turn.r);
  return (f32)(turn.quadrant >= 2 ? -value : value);
}
/// The function of each lane, one after the other.
template <class V, class F> M3_INLINE V eachLane(V x, F function) {
  if constexpr (LaneCount<V>::value == 1) {
    return function(x);
  } else {
    for (int lane = 0; lane < LaneCount<V>::value; ++lane)
      x[lane] = function(x[lane]);
    return x;
  }
}
template <class V> M3_INLINE V cosine(V angle) {
  return eachLane(angle, [](f32 x) { return cosineOf(x); });
}
template <class V> M3_INLINE V sine(V angle) {
  return eachLane(angle, [](f32 x) { return sineOf(x); });
}

/// Nearest BF16 (ties to even) of an FP32 value, as FP32.
template <class V> M3_INLINE V round_bf16(V x) {
  using I = Vec<u32, LaneCount<V>::value>;
  I bits = bitsAs<I>(x);
  I rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
  return select(x != x, x, bitsAs<V>(rounded));
}

/// E4M3 code (0 … 0xff) of an FP32 value: nearest, ties to even, saturating at ±448, NaN 0x7f.
template <class V> M3_INLINE auto encodeE4m3(V x) {
  constexpr int n = LaneCount<V>::value;
  using I = Vec<i32, n>;
  I sign = (bitsAs<I>(x) >> 24) & 0x80;
  V a = minimum(magnitude(x), (V)448.0f);
  I bits = bitsAs<I>(a);
  I normal = ((bits + 0x7ffff + ((bits >> 20) & 1)) >> 20) - (120 << 3);
  // Below 2^-6 the grid has step 2^-9, the unit in the last place of 2^14.
  I small = bitsAs<I>(a + (V)0x1p14f) - bitsAs<I>((V)0x1p14f);
  I code;
  if constexpr (n == 1)
    code = x != x ? 0x7f : (a < 0x1p-6f ? small : normal) | sign;
  else
    code = x != x ? (I)0x7f : ((a < (V)0x1p-6f ? small : normal) | sign);
  return code;
}

/// Value of an E4M3 code held in the low byte of a 32-bit lane; 0x7f and 0xff give ±480, so codes
/// that may be NaN are checked before.
template <int n> M3_INLINE Vec<f32, n> decodeE4m3Lane(Vec<i32, n> code) {
  Vec<i32, n> bits = ((code & 0x7f) << 20) | ((code & 0x80) << 24);
  return bitsAs<Vec<f32, n>>(bits) * (Vec<f32, n>)0x1p120f;
}

template <class V> M3_INLINE V round_e4m3(V x) {
  constexpr int n = LaneCount<V>::value;
  V value = decodeE4m3Lane<n>(encodeE4m3(x));
  return select(x != x, x, value);
}
