// Arithmetic on operands and accumulators of matrix instructions: products, scalar regions,
// reductions along rows and columns, and the way from an accumulator to the next left operand.
//
// Lane 4g + t of an accumulator has rows g and g + 8; of columns 8n … it has 2t and 2t + 1. A tile
// of one column has what its lane's two rows need, a tile of one row what its lane's columns need.
#pragma once

#include "fragments.h"
#include "halves.h"

/// 16 × 1: rows g and g + 8.
template <class T> struct RowsOfAcc {
  T v[2];
};
/// 1 × N: columns 2t and 2t + 1 of each eight.
template <class T, int N> struct ColumnsOfAcc {
  T v[N / 8][2];
};
/// 16 × N of any element.
template <class T, int N> struct AccOf {
  T v[N / 8][4];
};

template <class E> struct MatrixInstruction;
template <> struct MatrixInstruction<f16> {
  static M3_INLINE void run(f32 (&acc)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    mmaF16(acc, a, b);
  }
};
template <> struct MatrixInstruction<bf16> {
  static M3_INLINE void run(f32 (&acc)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    mmaBf16(acc, a, b);
  }
};

/// acc + a · b.
template <class E, int K, int N>
M3_INLINE FragmentAcc<N> mmaFragments(const OperandA<E, K> &a, const OperandB<E, K, N> &b,
                                      FragmentAcc<N> acc) {
  M3_UNROLL for (int s = 0; s < K / 16; ++s) M3_UNROLL for (int n = 0; n < N / 8; ++n)
      MatrixInstruction<E>::run(acc.v[n], a.v[s], b.v[n][s]);
  return acc;
}

//===- Element by element ---------------------------------------------------------------------===//

template <class T, int N> M3_INLINE T accAt(const AccOf<T, N> &t, int n, int i) {
  return t.v[n][i];
}
template <int N> M3_INLINE f32 accAt(const FragmentAcc<N> &t, int n, int i) { return t.v[n][i]; }
template <class T> M3_INLINE T accAt(const RowsOfAcc<T> &t, int, int i) { return t.v[i / 2]; }
template <class T, int N> M3_INLINE T accAt(const ColumnsOfAcc<T, N> &t, int n, int i) {
  return t.v[n][i % 2];
}

/// A scalar region over every element of an accumulator, of rows, of columns.
template <class Out> struct MapOver;
template <int N> struct MapOver<FragmentAcc<N>> {
  template <class F, class... Tiles>
  static M3_INLINE FragmentAcc<N> run(F function, const Tiles &...tiles) {
    FragmentAcc<N> out;
    M3_UNROLL for (int n = 0; n < N / 8; ++n) M3_UNROLL for (int i = 0; i < 4; ++i) out.v[n][i] =
        function(accAt(tiles, n, i)...);
    return out;
  }
};
template <class T, int N> struct MapOver<AccOf<T, N>> {
  template <class F, class... Tiles>
  static M3_INLINE AccOf<T, N> run(F function, const Tiles &...tiles) {
    AccOf<T, N> out;
    M3_UNROLL for (int n = 0; n < N / 8; ++n) M3_UNROLL for (int i = 0; i < 4; ++i) out.v[n][i] =
        (T)function(accAt(tiles, n, i)...);
    return out;
  }
};
template <class T> struct MapOver<RowsOfAcc<T>> {
  template <class F, class... Tiles>
  static M3_INLINE RowsOfAcc<T> run(F function, const Tiles &...tiles) {
    RowsOfAcc<T> out;
    M3_UNROLL for (int i = 0; i < 2; ++i) out.v[i] = (T)function(accAt(tiles, 0, 2 * i)...);
    return out;
  }
};
template <class T, int N> struct MapOver<ColumnsOfAcc<T, N>> {
  template <class F, class... Tiles>
  static M3_INLINE ColumnsOfAcc<T, N> run(F function, const Tiles &...tiles) {
    ColumnsOfAcc<T, N> out;
    M3_UNROLL for (int n = 0; n < N / 8; ++n) M3_UNROLL for (int i = 0; i < 2; ++i) out.v[n][i] =
        (T)function(accAt(tiles, n, i)...);
    return out;
  }
};
template <class Out, class F, class... Tiles> M3_INLINE Out map(F function, const Tiles &...tiles) {
  return MapOver<Out>::run(function, tiles...);
}

template <class T> struct FillFragment<RowsOfAcc<T>> {
  static M3_INLINE RowsOfAcc<T> with(T value) { return {{value, value}}; }
};
template <class T, int N> struct FillFragment<ColumnsOfAcc<T, N>> {
  static M3_INLINE ColumnsOfAcc<T, N> with(T value) {
    ColumnsOfAcc<T, N> t;
    M3_UNROLL for (int n = 0; n < N / 8; ++n) t.v[n][0] = t.v[n][1] = value;
    return t;
  }
};
/// A right operand of one value, FP16.
template <int K, int N> struct FillFragment<OperandB<f16, K, N>> {
  static M3_INLINE OperandB<f16, K, N> with(f32 value) {
    OperandB<f16, K, N> b;
    M3_UNROLL for (int n = 0; n < N / 8; ++n) M3_UNROLL for (int s = 0; s < K / 16; ++s)
        b.v[n][s][0] = b.v[n][s][1] = packF16(value, value);
    return b;
  }
};

/// Numbers of the rows, of the columns.
template <class T> struct IotaOf;
template <> struct IotaOf<RowsOfAcc<i32>> {
  static M3_INLINE RowsOfAcc<i32> numbers() { return {{laneId() / 4, laneId() / 4 + 8}}; }
};
template <int N> struct IotaOf<ColumnsOfAcc<i32, N>> {
  static M3_INLINE ColumnsOfAcc<i32, N> numbers() {
    ColumnsOfAcc<i32, N> t;
    M3_UNROLL for (int n = 0; n < N / 8; ++n) M3_UNROLL for (int i = 0; i < 2; ++i) t.v[n][i] =
        8 * n + laneId() % 4 * 2 + i;
    return t;
  }
};
template <class T> M3_INLINE T iota() { return IotaOf<T>::numbers(); }

//===- Reductions -----------------------------------------------------------------------------===//

/// The largest of each row; a NaN is passed over.
template <int N> M3_INLINE RowsOfAcc<f32> reduceMaxRows(const FragmentAcc<N> &in) {
  RowsOfAcc<f32> out;
  M3_UNROLL for (int i = 0; i < 2; ++i) {
    f32 best = fmaxf(in.v[0][2 * i], in.v[0][2 * i + 1]);
    M3_UNROLL for (int n = 1; n < N / 8; ++n) best =
        fmaxf(best, fmaxf(in.v[n][2 * i], in.v[n][2 * i + 1]));
    best = fmaxf(best, fromLane(best, laneId() ^ 1));
    out.v[i] = fmaxf(best, fromLane(best, laneId() ^ 2));
  }
  return out;
}

/// The largest of each column; NaN if one is.
template <int N> M3_INLINE ColumnsOfAcc<f32, N> reduceMaxOrNanColumns(const FragmentAcc<N> &in) {
  ColumnsOfAcc<f32, N> out;
  M3_UNROLL for (int n = 0; n < N / 8; ++n) M3_UNROLL for (int i = 0; i < 2; ++i) {
    f32 best = maximumOrNan(in.v[n][i], in.v[n][i + 2]);
    M3_UNROLL for (int far = 4; far < 32; far *= 2) best =
        maximumOrNan(best, fromLane(best, laneId() ^ far));
    out.v[n][i] = best;
  }
  return out;
}

/// Whether a condition holds for any row.
M3_INLINE bool anyOf(const RowsOfAcc<bool> &in) { return anyLane(in.v[0] || in.v[1]); }

//===- From one product to the next -----------------------------------------------------------===//

/// An accumulator of 16 columns as the left operand of a product, FP16: each lane keeps its
/// elements, so k = 4t + s is column 8(s/2) + 2t + s%2.
M3_INLINE OperandA<f16, 16> toOperand(const FragmentAcc<16> &in) {
  OperandA<f16, 16> out;
  M3_UNROLL for (int n = 0; n < 2; ++n) M3_UNROLL for (int i = 0; i < 2; ++i) out.v[0][2 * n + i] =
      packF16(in.v[n][2 * i], in.v[n][2 * i + 1]);
  return out;
}

/// BF16 operands in FP16; what lies below 2^-14 keeps a step of 2^-24.
M3_INLINE u32 f16OfBf16(u32 pair) {
  return packF16(bitsAs<f32>(pair << 16), bitsAs<f32>(pair & 0xffff0000u));
}
template <int K> M3_INLINE OperandA<f16, K> toOperand(const OperandA<bf16, K> &in) {
  OperandA<f16, K> out;
  M3_UNROLL for (int s = 0; s < K / 16; ++s) M3_UNROLL for (int i = 0; i < 4; ++i) out.v[s][i] =
      f16OfBf16(in.v[s][i]);
  return out;
}
template <int K, int N> M3_INLINE OperandB<f16, K, N> toOperand(const OperandB<bf16, K, N> &in) {
  OperandB<f16, K, N> out;
  M3_UNROLL for (int n = 0; n < N / 8; ++n) M3_UNROLL for (int s = 0; s < K / 16; ++s)
      M3_UNROLL for (int i = 0; i < 2; ++i) out.v[n][s][i] = f16OfBf16(in.v[n][s][i]);
  return out;
}

//===- Memory ---------------------------------------------------------------------------------===//

/// A run of K/4 elements of a row: BF16, or FP32 as FP16.
template <int K> struct RowRun {
  u32 v[K / 8];
  static M3_INLINE RowRun from(const u16 *p) {
    RowRun run;
    M3_UNROLL for (int i = 0; i < K / 32; ++i) {
      uint4 words = loadWide<uint4>(p + 8 * i);
      run.v[4 * i] = words.x, run.v[4 * i + 1] = words.y;
      run.v[4 * i + 2] = words.z, run.v[4 * i + 3] = words.w;
    }
    return run;
  }
  static M3_INLINE RowRun from(const f32 *p) {
    RowRun run;
    M3_UNROLL for (int i = 0; i < K / 16; ++i) {
      float4 words = loadWide<float4>(p + 4 * i);
      run.v[2 * i] = packF16(words.x, words.y), run.v[2 * i + 1] = packF16(words.z, words.w);
    }
    return run;
  }
  template <int Part> static M3_INLINE RowRun from(HalfRows<Part> rows) {
    RowRun run;
    M3_UNROLL for (int i = 0; i < K / 16; ++i) {
      float4 words = loadWide<float4>(rows.p + 4 * i);
      run.v[2 * i] = packF16(halfOf<Part>(words.x), halfOf<Part>(words.y));
      run.v[2 * i + 1] = packF16(halfOf<Part>(words.z), halfOf<Part>(words.w));
    }
    return run;
  }
};

/// Number n, or where there are no more than n the last.
M3_INLINE i64 numberBelow(i64 n, i64 count) { return maximum(minimum(n, count - 1), 0); }

/// Rows of the view, `stride` elements apart; rows from `rows` on repeat the last.
template <class E, int K> struct LoadFragment<OperandA<E, K>> {
  template <class P> static M3_INLINE OperandA<E, K> from(P p, i64 stride, i64 rows) {
    OperandA<E, K> a;
    M3_UNROLL for (int half = 0; half < 2; ++half) {
      const i64 row = numberBelow(laneId() / 4 + 8 * half, rows);
      const auto run = RowRun<K>::from(p + row * stride + laneId() % 4 * (K / 4));
      M3_UNROLL for (int i = 0; i < K / 8; ++i) a.v[i / 2][half + 2 * (i % 2)] = run.v[i];
    }
    return a;
  }
};
/// Columns are rows of the view; `rowOf(n)` is that of column n.
template <class T, class P, class F> struct LoadColumns;
template <class E, int K, int N, class P, class F> struct LoadColumns<OperandB<E, K, N>, P, F> {
  static M3_INLINE OperandB<E, K, N> from(const P *p, i64 stride, F rowOf) {
    OperandB<E, K, N> b;
    M3_UNROLL for (int n = 0; n < N / 8; ++n) {
      const i64 row = rowOf(8 * n + laneId() / 4);
      const auto run = RowRun<K>::from(p + row * stride + laneId() % 4 * (K / 4));
      M3_UNROLL for (int i = 0; i < K / 8; ++i) b.v[n][i / 2][i % 2] = run.v[i];
    }
    return b;
  }
};
template <class T, class P, class F> M3_INLINE T loadColumns(const P *p, i64 stride, F rowOf) {
  return LoadColumns<T, P, F>::from(p, stride, rowOf);
}
template <class E, int K, int N> struct LoadFragment<OperandB<E, K, N>> {
  template <class P> static M3_INLINE OperandB<E, K, N> from(const P *p, i64 stride, i64 rows) {
    return loadColumns<OperandB<E, K, N>>(p, stride, [=](i64 n) { return numberBelow(n, rows); });
  }
};
/// The rows are those that a list of `count` names, each divided by Per.
template <class T, int Per>
M3_INLINE T loadRows(const u16 *p, i64 stride, const i32 *list, i64 count) {
  return loadColumns<T>(p, stride, [=](i64 n) {
    return (i64)((u32)loadAt(list + numberBelow(n, count)) / (u32)Per);
  });
}
/// Accumulators in the order of registers: of columns 8n …, lane l, four elements.
template <class T> struct LoadRegisters;
template <int N> struct LoadRegisters<FragmentAcc<N>> {
  static M3_INLINE FragmentAcc<N> from(const f32 *p) {
    FragmentAcc<N> acc;
    M3_UNROLL for (int n = 0; n < N / 8; ++n) {
      float4 words = loadWide<float4>(p + (n * warpLanes + laneId()) * 4);
      acc.v[n][0] = words.x, acc.v[n][1] = words.y, acc.v[n][2] = words.z, acc.v[n][3] = words.w;
    }
    return acc;
  }
};
/// Left operands: of instruction s, lane l, four words.
template <class E, int K> struct LoadRegisters<OperandA<E, K>> {
  static M3_INLINE OperandA<E, K> from(const u16 *p) {
    OperandA<E, K> a;
    M3_UNROLL for (int s = 0; s < K / 16; ++s) {
      uint4 words = loadWide<uint4>(p + (s * warpLanes + laneId()) * 8);
      a.v[s][0] = words.x, a.v[s][1] = words.y, a.v[s][2] = words.z, a.v[s][3] = words.w;
    }
    return a;
  }
};
template <class T, class P> M3_INLINE T loadRegisters(const P *p) {
  return LoadRegisters<T>::from(p);
}
template <class E, int K> M3_INLINE void storeRegisters(const OperandA<E, K> &a, u16 *p) {
  M3_UNROLL for (int s = 0; s < K / 16; ++s) storeWide(
      p + (s * warpLanes + laneId()) * 8, uint4{a.v[s][0], a.v[s][1], a.v[s][2], a.v[s][3]});
}
template <int N> M3_INLINE void storeRegisters(const FragmentAcc<N> &acc, f32 *p) {
  M3_UNROLL for (int n = 0; n < N / 8; ++n)
      storeWide(p + (n * warpLanes + laneId()) * 4,
                float4{acc.v[n][0], acc.v[n][1], acc.v[n][2], acc.v[n][3]});
}
/// 16 elements, one a row.
template <class T> struct LoadFragment<RowsOfAcc<T>> {
  static M3_INLINE RowsOfAcc<T> from(const T *p, i64, i64) {
    return {{loadWide<T>(p + laneId() / 4), loadWide<T>(p + laneId() / 4 + 8)}};
  }
};
template <class T> M3_INLINE void storeRegisters(const RowsOfAcc<T> &rows, T *p) {
  if (laneId() % 4 == 0)
    M3_UNROLL for (int i = 0; i < 2; ++i) storeWide(p + laneId() / 4 + 8 * i, rows.v[i]);
}
template <class T, int N>
M3_INLINE ColumnsOfAcc<T, N> gatherAt(const T *p, const ColumnsOfAcc<i32, N> &numbers) {
  ColumnsOfAcc<T, N> t;
  M3_UNROLL for (int n = 0; n < N / 8; ++n) M3_UNROLL for (int i = 0; i < 2; ++i) t.v[n][i] =
      loadAt(p + numbers.v[n][i]);
  return t;
}
/// Element of column n at p[n * stride], for columns below `columns`.
template <class T, int N>
M3_INLINE void storeColumns(const ColumnsOfAcc<T, N> &in, T *p, i64 stride, i64 columns) {
  if (laneId() < 4)
    M3_UNROLL for (int n = 0; n < N / 8; ++n) M3_UNROLL for (int i = 0; i < 2; ++i) {
      const i64 column = 8 * n + 2 * laneId() + i;
      if (column < columns)
        storeWide(p + column * stride, in.v[n][i]);
    }
}
/// Rows of an accumulator whose columns 8n + c are elements Spread · c + n of a row, to BF16 or
/// FP32, rows below `rows`.
template <int Spread, int N, class P>
M3_INLINE void storeSpread(const FragmentAcc<N> &acc, P *p, i64 stride, i64 rows) {
  M3_UNROLL for (int i = 0; i < 4; ++i) {
    const i64 row = laneId() / 4 + i / 2 * 8;
    if (row < rows)
      M3_UNROLL for (int n = 0; n < N / 8; n += 2) storePair(
          p + row * stride + (laneId() % 4 * 2 + i % 2) * Spread + n, acc.v[n][i], acc.v[n + 1][i]);
  }
}
