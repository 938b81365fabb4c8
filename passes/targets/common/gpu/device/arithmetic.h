// Arithmetic on register tiles: fill, map, reductions, products.
#pragma once

#include "scalar.h"

#include "tiles.h"

template <class T, int R, int C> M3_INLINE Tile<T, R, C> fill(T value) {
  Tile<T, R, C> t;
  M3_UNROLL for (int r = 0; r < R; ++r) M3_UNROLL for (int c = 0; c < t.vectors; ++c) t.v[r][c] =
      value;
  return t;
}

template <int C> M3_INLINE Tile<i32, 1, C> iota() {
  Tile<i32, 1, C> t;
  M3_UNROLL for (int c = 0; c < t.vectors; ++c) t.v[0][c] = c * t.W + laneId() % t.W;
  return t;
}

/// Slot c of row r, single rows and columns repeated.
template <class T, int R, int C> M3_INLINE T broadcastAt(const Tile<T, R, C> &t, int r, int c) {
  return t.v[R == 1 ? 0 : r][C == 1 ? 0 : c];
}

/// A scalar region over every element of the result.
template <class T, int R, int C, class F, class... Tiles>
M3_INLINE Tile<T, R, C> map(F function, const Tiles &...tiles) {
  Tile<T, R, C> t;
  M3_UNROLL for (int r = 0; r < R; ++r) M3_UNROLL for (int c = 0; c < t.vectors; ++c) t.v[r][c] =
      (T)function(broadcastAt(tiles, r, c)...);
  return t;
}

/// One row to one value in every lane: first the vectors of `V` columns in order, column by column,
/// then the columns as a binary tree, i with i + n/2. V is 16 whatever the warp's width, so that a
/// sum is the same on every target with vectors of sixteen.
template <class T, int R, int C, class F>
M3_INLINE T foldRow(const Tile<T, R, C> &in, int r, F combine) {
  using In = Tile<T, R, C>;
  constexpr int V = In::W < 16 ? In::W : 16, parts = In::W / V;
  T value = in.v[r][0];
  M3_UNROLL for (int c = 0; c < In::vectors; ++c)
      M3_UNROLL for (int part = 0; part < parts; ++part) {
    T next = parts == 1 ? in.v[r][c] : fromLane(in.v[r][c], laneId() % V + part * V);
    value = c + part == 0 ? next : combine(value, next);
  }
  M3_UNROLL for (int n = V / 2; n > 0; n /= 2) {
    T low = fromLane(value, laneId() % n), high = fromLane(value, laneId() % n + n);
    value = combine(low, high);
  }
  return value;
}

template <class T, int R, int C> M3_INLINE Tile<T, R, 1> reduceAdd(const Tile<T, R, C> &in) {
  Tile<T, R, 1> out;
  M3_UNROLL for (int r = 0; r < R; ++r) out.v[r][0] =
      foldRow(in, r, [](T a, T b) { return a + b; });
  return out;
}

/// The sum of the columns before each one.
template <int C> M3_INLINE Tile<i32, 1, C> scan(const Tile<i32, 1, C> &in) {
  Tile<i32, 1, C> out;
  i32 before = 0;
  const int lane = laneId() % in.W;
  M3_UNROLL for (int c = 0; c < in.vectors; ++c) {
    i32 sum = in.v[0][c];
    M3_UNROLL for (int n = 1; n < in.W; n *= 2) {
      i32 left = fromLane(sum, laneId() - (lane >= n ? n : 0));
      sum += lane >= n ? left : 0;
    }
    out.v[0][c] = before + sum - in.v[0][c];
    before += fromLane(sum, in.W - 1);
  }
  return out;
}

/// Of integers the order does not matter: lanes are folded by one instruction.
template <int R, int C> M3_INLINE Tile<i32, R, 1> reduceMax(const Tile<i32, R, C> &in) {
  Tile<i32, R, 1> out;
  M3_UNROLL for (int r = 0; r < R; ++r) {
    i32 most = in.v[r][0];
    M3_UNROLL for (int c = 1; c < in.vectors; ++c) most = maximum(most, in.v[r][c]);
    out.v[r][0] = in.W == 1 ? most : largestOfLanes(most);
  }
  return out;
}

template <class T, int R, int C> M3_INLINE Tile<T, R, 1> reduceMax(const Tile<T, R, C> &in) {
  Tile<T, R, 1> out;
  M3_UNROLL for (int r = 0; r < R; ++r) out.v[r][0] =
      foldRow(in, r, [](T a, T b) { return maximum(a, b); });
  return out;
}

/// The sums of reduceAdd, one lane per row.
template <int R, int C> M3_INLINE Tile<f32, 1, R> reduceAddLanes(const Tile<f32, R, C> &in) {
  Tile<f32, R, 1> sums = reduceAdd(in);
  Tile<f32, 1, R> out;
  M3_UNROLL for (int r = 0; r < R; ++r) if (laneId() % out.W == r % out.W) out.v[0][r / out.W] =
      sums.v[r][0];
  return out;
}

template <int Row, int Col, class T, int R, int C> M3_INLINE T extract(const Tile<T, R, C> &t) {
  return element(t, Row * C + Col);
}

template <class T, int R2, int C2, int R, int C>
M3_INLINE Tile<T, R2, C2> reshape(const Tile<T, R, C> &in) {
  using Out = Tile<T, R2, C2>;
  if constexpr (Out::W == Tile<T, R, C>::W) {
    Out out;
    M3_UNROLL for (int i = 0; i < R * in.vectors; ++i) out.v[i / out.vectors][i % out.vectors] =
        in.v[i / in.vectors][i % in.vectors];
    return out;
  } else {
    return gather<Out>(in, [](int i) { return i; });
  }
}

template <class T, int R, int C> M3_INLINE Tile<T, C, R> transpose(const Tile<T, R, C> &in) {
  return gather<Tile<T, C, R>>(in, [](int i) { return i % R * C + i / R; });
}

template <int R2, int C2, int Row, int Col, class T, int R, int C>
M3_INLINE Tile<T, R2, C2> slice(const Tile<T, R, C> &in) {
  using Out = Tile<T, R2, C2>;
  if constexpr (Out::W == Tile<T, R, C>::W && Col % Out::W == 0) {
    Out out;
    M3_UNROLL for (int r = 0; r < R2; ++r) M3_UNROLL for (int c = 0; c < Out::vectors; ++c)
        out.v[r][c] = in.v[Row + r][Col / Out::W + c];
    return out;
  } else {
    return gather<Out>(in, [](int i) { return (Row + i / C2) * C + Col + i % C2; });
  }
}

/// acc[m,n] += Σ_k a[m,k] b[k,n], lanes along n.
template <int M, int K, int N>
M3_INLINE Tile<f32, M, N> mma(const Tile<f32, M, K> &a, const Tile<f32, K, N> &b,
                              Tile<f32, M, N> acc) {
  M3_UNROLL for (int k = 0; k < K; ++k) M3_UNROLL for (int m = 0; m < M; ++m) {
    f32 left = element(a, m * K + k);
    M3_UNROLL for (int n = 0; n < acc.vectors; ++n) acc.v[m][n] =
        fusedMultiplyAdd(left, b.v[k][n], acc.v[m][n]);
  }
  return acc;
}

/// The same product kept transposed: a [K,M], b [N,K], acc [N,M], lanes along m.
template <int M, int K, int N>
M3_INLINE Tile<f32, N, M> mmaLanesA(const Tile<f32, K, M> &a, const Tile<f32, N, K> &b,
                                    Tile<f32, N, M> acc) {
  M3_UNROLL for (int k = 0; k < K; ++k) M3_UNROLL for (int n = 0; n < N; ++n) {
    f32 right = element(b, n * K + k);
    M3_UNROLL for (int m = 0; m < acc.vectors; ++m) acc.v[n][m] =
        fusedMultiplyAdd(right, a.v[k][m], acc.v[n][m]);
  }
  return acc;
}

/// Element-wise a·b + acc, single rows and columns of a and b repeated.
template <class A, class B, int R, int C>
M3_INLINE Tile<f32, R, C> fma(const A &a, const B &b, Tile<f32, R, C> acc) {
  M3_UNROLL for (int r = 0; r < R; ++r) M3_UNROLL for (int c = 0; c < acc.vectors; ++c)
      acc.v[r][c] = fusedMultiplyAdd(broadcastAt(a, r, c), broadcastAt(b, r, c), acc.v[r][c]);
  return acc;
}
