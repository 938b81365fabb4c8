// Arithmetic on register tiles: fill, map, reductions, products.
#pragma once

#include "scalar.h"

#include "tiles.h"

template <class T, int R, int C> M3_INLINE Tile<T, R, C> fill(T value) {
  Tile<T, R, C> t;
  M3_UNROLL for (int r = 0; r < R; ++r) M3_UNROLL for (int c = 0; c < t.vectors; ++c) t.v[r][c] =
      splat<T, t.W>(value);
  return t;
}

template <int C> M3_INLINE Tile<i32, 1, C> iota() {
  Tile<i32, 1, C> t;
  M3_UNROLL for (int i = 0; i < C; ++i) setElement(t, i, i);
  return t;
}

/// Vector c of row r, single rows and columns repeated.
template <int W, class T, int R, int C>
M3_INLINE Vec<T, W> broadcastAt(const Tile<T, R, C> &t, int r, int c) {
  const int row = R == 1 ? 0 : r;
  if constexpr (C == 1)
    return splat<T, W>(t.v[row][0]);
  else
    return t.v[row][c];
}

/// A scalar region over every vector of the result.
template <class T, int R, int C, class F, class... Tiles>
M3_INLINE Tile<T, R, C> map(F function, const Tiles &...tiles) {
  Tile<T, R, C> t;
  M3_UNROLL for (int r = 0; r < R; ++r) M3_UNROLL for (int c = 0; c < t.vectors; ++c) t.v[r][c] =
      (Vec<T, t.W>)function(broadcastAt<t.W>(tiles, r, c)...);
  return t;
}

/// Lanes as a binary tree: lane i with lane i + n/2.
template <class T, int n> M3_INLINE T foldAdd(Vec<T, n> v) {
  if constexpr (n == 2)
    return v[0] + v[1];
  else
    return foldAdd<T, n / 2>(v.lo + v.hi);
}
template <class T, int n> M3_INLINE T foldMax(Vec<T, n> v) {
  if constexpr (n == 2)
    return maximum(v[0], v[1]);
  else
    return foldMax<T, n / 2>(maximum(v.lo, v.hi));
}

template <class T, int R, int C> M3_INLINE Tile<T, R, 1> reduceAdd(const Tile<T, R, C> &in) {
  Tile<T, R, 1> out;
  M3_UNROLL for (int r = 0; r < R; ++r) {
    auto sum = in.v[r][0];
    M3_UNROLL for (int c = 1; c < in.vectors; ++c) sum += in.v[r][c];
    if constexpr (Tile<T, R, C>::W == 1)
      out.v[r][0] = sum;
    else
      out.v[r][0] = foldAdd<T, Tile<T, R, C>::W>(sum);
  }
  return out;
}

/// Halves of two vectors, each of `pieces` sums in progress, added: fragment by fragment the lower
/// lanes to the upper ones. The result holds the pieces of a and b, in the order of `pieceOrder`.
template <int pieces> M3_INLINE Vec<f32, 8> addHalves(Vec<f32, 8> a, Vec<f32, 8> b) {
  if constexpr (pieces == 1)
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) +
           __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
  else if constexpr (pieces == 2)
    return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13) +
           __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  else
    return __builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14) +
           __builtin_shufflevector(a, b, 1, 3, 9, 11, 5, 7, 13, 15);
}

/// Eight rows to eight lanes. After the three steps lane 4i + j holds row 2j + i.
M3_INLINE Vec<f32, 8> addRows(const Vec<f32, 8> *v) {
  Vec<f32, 8> s0 = addHalves<1>(v[0], v[1]), s1 = addHalves<1>(v[2], v[3]);
  Vec<f32, 8> s2 = addHalves<1>(v[4], v[5]), s3 = addHalves<1>(v[6], v[7]);
  Vec<f32, 8> sum = addHalves<4>(addHalves<2>(s0, s1), addHalves<2>(s2, s3));
  return __builtin_shufflevector(sum, sum, 0, 4, 1, 5, 2, 6, 3, 7);
}

/// Sixteen rows of sixteen lanes to sixteen lanes, by the same steps with one more before.
M3_INLINE Vec<f32, 16> addRows(const Vec<f32, 16> *v) {
  Vec<f32, 16> s[8];
  M3_UNROLL for (int i = 0; i < 8; ++i) s[i] = // lanes of row 2i, then of row 2i + 1
      __builtin_shufflevector(v[2 * i], v[2 * i + 1], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20,
                              21, 22, 23) +
      __builtin_shufflevector(v[2 * i], v[2 * i + 1], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27,
                              28, 29, 30, 31);
  M3_UNROLL for (int i = 0; i < 4; ++i) s[i] =
      __builtin_shufflevector(s[2 * i], s[2 * i + 1], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24,
                              25, 26, 27) +
      __builtin_shufflevector(s[2 * i], s[2 * i + 1], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15,
                              28, 29, 30, 31);
  M3_UNROLL for (int i = 0; i < 2; ++i) s[i] =
      __builtin_shufflevector(s[2 * i], s[2 * i + 1], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12,
                              13, 28, 29) +
      __builtin_shufflevector(s[2 * i], s[2 * i + 1], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27,
                              14, 15, 30, 31);
  Vec<f32, 16> sum = __builtin_shufflevector(s[0], s[1], 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26,
                                             12, 14, 28, 30) +
                     __builtin_shufflevector(s[0], s[1], 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27,
                                             13, 15, 29, 31);
  return __builtin_shufflevector(sum, sum, 0, 8, 4, 12, 1, 9, 5, 13, 2, 10, 6, 14, 3, 11, 7, 15);
}

/// One lane per row, the sums of reduceAdd bit for bit: as many rows as a vector has lanes are
/// added across vectors, which is cheaper than row by row. Fewer rows of sixteen lanes are halved
/// before.
template <int R, int C> M3_INLINE Tile<f32, 1, R> reduceAddLanes(const Tile<f32, R, C> &in) {
  constexpr int W = Tile<f32, R, C>::W;
  Tile<f32, 1, R> out;
  Vec<f32, W> sums[R];
  M3_UNROLL for (int r = 0; r < R; ++r) {
    sums[r] = in.v[r][0];
    M3_UNROLL for (int c = 1; c < in.vectors; ++c) sums[r] += in.v[r][c];
  }
  if constexpr (W == 16 && R % 16 == 0) {
    M3_UNROLL for (int r = 0; r < R; r += 16) {
      Vec<f32, 16> lanes = addRows(sums + r);
      __builtin_memcpy((f32 *)&out + r, &lanes, sizeof(lanes));
    }
  } else if constexpr (W >= 8 && R % 4 == 0) {
    Vec<f32, 8> eights[R + 4];
    M3_UNROLL for (int r = 0; r < R; ++r) {
      if constexpr (W == 8)
        eights[r] = sums[r];
      else
        eights[r] = sums[r].lo + sums[r].hi;
    }
    M3_UNROLL for (int r = 0; r < 4; ++r) eights[R + r] = eights[R - 1];
    f32 *to = (f32 *)&out;
    M3_UNROLL for (int r = 0; r < R; r += 8) {
      Vec<f32, 8> lanes = addRows(eights + r);
      __builtin_memcpy(to + r, &lanes, sizeof(f32) * (R - r < 8 ? 4 : 8));
    }
  } else {
    M3_UNROLL for (int r = 0; r < R; ++r) setElement(out, r, foldAdd<f32, W>(sums[r]));
  }
  return out;
}

/// The sum of the columns before each one.
template <int C> M3_INLINE Tile<i32, 1, C> scan(const Tile<i32, 1, C> &in) {
  Tile<i32, 1, C> out;
  i32 before = 0;
  M3_UNROLL for (int i = 0; i < C; ++i) {
    setElement(out, i, before);
    before += element(in, i);
  }
  return out;
}

template <class T, int R, int C> M3_INLINE Tile<T, R, 1> reduceMax(const Tile<T, R, C> &in) {
  Tile<T, R, 1> out;
  M3_UNROLL for (int r = 0; r < R; ++r) {
    auto best = in.v[r][0];
    M3_UNROLL for (int c = 1; c < in.vectors; ++c) best = maximum(best, in.v[r][c]);
    if constexpr (Tile<T, R, C>::W == 1)
      out.v[r][0] = best;
    else
      out.v[r][0] = foldMax<T, Tile<T, R, C>::W>(best);
  }
  return out;
}

template <int Row, int Col, class T, int R, int C> M3_INLINE T extract(const Tile<T, R, C> &t) {
  return element(t, Row * C + Col);
}

template <class T, int R2, int C2, int R, int C>
M3_INLINE Tile<T, R2, C2> reshape(const Tile<T, R, C> &in) {
  Tile<T, R2, C2> out;
  if constexpr (Tile<T, R, C>::W == Tile<T, R2, C2>::W) {
    M3_UNROLL for (int i = 0; i < R * in.vectors; ++i) out.v[i / out.vectors][i % out.vectors] =
        in.v[i / in.vectors][i % in.vectors];
  } else {
    M3_UNROLL for (int i = 0; i < R * C; ++i) setElement(out, i, element(in, i));
  }
  return out;
}

template <class T, int R, int C> M3_INLINE Tile<T, C, R> transpose(const Tile<T, R, C> &in) {
  Tile<T, C, R> out;
  M3_UNROLL for (int r = 0; r < R; ++r) M3_UNROLL for (int c = 0; c < C; ++c)
      setElement(out, c * R + r, element(in, r * C + c));
  return out;
}

template <int R2, int C2, int Row, int Col, class T, int R, int C>
M3_INLINE Tile<T, R2, C2> slice(const Tile<T, R, C> &in) {
  using Out = Tile<T, R2, C2>;
  Out out;
  M3_UNROLL for (int r = 0; r < R2; ++r) {
    if constexpr (Out::W == Tile<T, R, C>::W && Col % Out::W == 0) {
      M3_UNROLL for (int c = 0; c < Out::vectors; ++c) out.v[r][c] =
          in.v[Row + r][Col / Out::W + c];
    } else {
      M3_UNROLL for (int c = 0; c < C2; ++c)
          setElement(out, r * C2 + c, element(in, (Row + r) * C + Col + c));
    }
  }
  return out;
}

/// acc[m,n] += Σ_k a[m,k] b[k,n], lanes along n.
template <int M, int K, int N>
M3_INLINE Tile<f32, M, N> mma(const Tile<f32, M, K> &a, const Tile<f32, K, N> &b,
                              Tile<f32, M, N> acc) {
  M3_UNROLL for (int k = 0; k < K; ++k) M3_UNROLL for (int m = 0; m < M; ++m)
      M3_UNROLL for (int n = 0; n < acc.vectors; ++n) acc.v[m][n] =
      __builtin_elementwise_fma(splat<f32, acc.W>(element(a, m * K + k)), b.v[k][n], acc.v[m][n]);
  return acc;
}

/// The same product kept transposed: a [K,M], b [N,K], acc [N,M], lanes along m.
template <int M, int K, int N>
M3_INLINE Tile<f32, N, M> mmaLanesA(const Tile<f32, K, M> &a, const Tile<f32, N, K> &b,
                                    Tile<f32, N, M> acc) {
  M3_UNROLL for (int k = 0; k < K; ++k) M3_UNROLL for (int n = 0; n < N; ++n)
      M3_UNROLL for (int m = 0; m < acc.vectors; ++m) acc.v[n][m] =
      __builtin_elementwise_fma(splat<f32, acc.W>(element(b, n * K + k)), a.v[k][m], acc.v[n][m]);
  return acc;
}

/// Element-wise a·b + acc, single rows and columns of a and b repeated.
template <class A, class B, int R, int C>
M3_INLINE Tile<f32, R, C> fma(const A &a, const B &b, Tile<f32, R, C> acc) {
  M3_UNROLL for (int r = 0; r < R; ++r) M3_UNROLL for (int c = 0; c < acc.vectors; ++c)
      acc.v[r][c] = __builtin_elementwise_fma(broadcastAt<acc.W>(a, r, c),
                                              broadcastAt<acc.W>(b, r, c), acc.v[r][c]);
  return acc;
}
