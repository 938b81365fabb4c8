// Operands and accumulators of matrix instructions of 16 × 16 results, products, scalar regions,
// reductions along rows and columns, and the way from an accumulator to the next left operand.
//
// The instruction gets our right operand as its left one and makes the transposed product: lane
// 16g + r then has row r of a left operand, column r of each sixteen of a right one, of the
// accumulator row r and of its columns 16n … those from 4g to 4g + 3. So a lane has to do with one
// row, and what it computes of it is what it needs as the next left operand. Of K = 128 dims lane
// 16g + r has the 32 from 32g on, in FP16 eight of them for each of four instructions; of K = 32
// tokens it has eight.
#pragma once

#include "halves.h"
#include "memory.h"
#include "scalar.h"

/// Elements of operands.
struct f16 {};
struct bf16 {};
/// Each eight consecutive k lie as 0, 2, 4, 6, 1, 3, 5, 7: the order in which packed codes come.
struct e4m3 {};

/// Registers of one lane for its row or column: of instruction s, v[s].
template <class E, int K> struct Line;
template <int K> struct Line<f16, K> {
  u32 v[K / 32][4];
};
template <int K> struct Line<e4m3, K> {
  u32 v[K / 128][8];
};
/// BF16 is only on its way to another element: K/4 in order.
template <int K> struct Line<bf16, K> {
  u32 v[K / 8];
};

/// 16 rows × K.
template <class E, int K> struct OperandA {
  Line<E, K> line;
};
/// K × N columns.
template <class E, int K, int N> struct OperandB {
  static constexpr int columns = N;
  Line<E, K> line[N / 16];
};
/// 16 × N of any element.
template <class T, int N> struct AccOf {
  T v[N / 16][4];
};
/// 16 × N sums.
template <int N> struct FragmentAcc {
  f32 v[N / 16][4];
};
/// 16 × 1: the row of the lane.
template <class T> struct RowsOfAcc {
  T v;
};
template <> struct RowsOfAcc<bool> {
  u32 v; // a byte would live in memory
};
/// 1 × N: the columns of the lane.
template <class T, int N> struct ColumnsOfAcc {
  T v[N / 16][4];
};

M3_INLINE int rowOfLane() { return laneId() % 16; }
/// Which of the four lanes that share a row this one is.
M3_INLINE int partOfLane() { return laneId() / 16; }

//===- Products -------------------------------------------------------------------------------===//

M3_INLINE void multiply(f32 (&acc)[4], const u32 (&a)[4], const u32 (&b)[4]) { mfmaF16(acc, a, b); }
M3_INLINE void multiply(f32 (&acc)[4], const u32 (&a)[8], const u32 (&b)[8]) {
  mfmaE4m3(acc, a, b);
}
template <class E> constexpr int kOf = 32;
template <> constexpr int kOf<e4m3> = 128;

/// acc + a · b.
template <class E, int K, int N>
M3_INLINE FragmentAcc<N> mmaFragments(const OperandA<E, K> &a, const OperandB<E, K, N> &b,
                                      FragmentAcc<N> acc) {
  M3_UNROLL for (int s = 0; s < K / kOf<E>; ++s) M3_UNROLL for (int n = 0; n < N / 16; ++n)
      multiply(acc.v[n], b.line[n].v[s], a.line.v[s]);
  return acc;
}

//===- Element by element ---------------------------------------------------------------------===//

template <class T, int N> M3_INLINE T accAt(const AccOf<T, N> &t, int n, int i) {
  return t.v[n][i];
}
template <int N> M3_INLINE f32 accAt(const FragmentAcc<N> &t, int n, int i) { return t.v[n][i]; }
template <class T> M3_INLINE T accAt(const RowsOfAcc<T> &t, int, int) { return t.v; }
template <class T, int N> M3_INLINE T accAt(const ColumnsOfAcc<T, N> &t, int n, int i) {
  return t.v[n][i];
}

/// A scalar region over every element of an accumulator, of rows, of columns.
template <class Out, int N> struct MapOverColumns {
  template <class F, class... Tiles> static M3_INLINE Out run(F function, const Tiles &...tiles) {
    Out out;
    M3_UNROLL for (int n = 0; n < N / 16; ++n) M3_UNROLL for (int i = 0; i < 4; ++i) out.v[n][i] =
        function(accAt(tiles, n, i)...);
    return out;
  }
};
template <class Out> struct MapOver;
template <int N> struct MapOver<FragmentAcc<N>> : MapOverColumns<FragmentAcc<N>, N> {};
template <class T, int N> struct MapOver<AccOf<T, N>> : MapOverColumns<AccOf<T, N>, N> {};
template <class T, int N>
struct MapOver<ColumnsOfAcc<T, N>> : MapOverColumns<ColumnsOfAcc<T, N>, N> {};
template <class T> struct MapOver<RowsOfAcc<T>> {
  template <class F, class... Tiles>
  static M3_INLINE RowsOfAcc<T> run(F function, const Tiles &...tiles) {
    return {(T)function(accAt(tiles, 0, 0)...)};
  }
};
template <class Out, class F, class... Tiles> M3_INLINE Out map(F function, const Tiles &...tiles) {
  return MapOver<Out>::run(function, tiles...);
}

template <class T> struct FillFragment;
template <int N> struct FillFragment<FragmentAcc<N>> {
  static M3_INLINE FragmentAcc<N> with(f32 value) {
    FragmentAcc<N> acc;
    M3_UNROLL for (int n = 0; n < N / 16; ++n) M3_UNROLL for (int i = 0; i < 4; ++i) acc.v[n][i] =
        value;
    return acc;
  }
};
template <class T> struct FillFragment<RowsOfAcc<T>> {
  static M3_INLINE RowsOfAcc<T> with(T value) { return {value}; }
};
/// A right operand of one value.
M3_INLINE u32 repeated(f16, f32 value) { return packF16(value, value); }
M3_INLINE u32 repeated(e4m3, f32 value) { return packE4m3(value, value) * 0x10001u; }
template <class E, int K, int N> struct FillFragment<OperandB<E, K, N>> {
  static M3_INLINE OperandB<E, K, N> with(f32 value) {
    OperandB<E, K, N> b;
    for (auto &line : b.line)
      for (auto &words : line.v)
        for (u32 &word : words)
          word = repeated(E(), value);
    return b;
  }
};
template <class T> M3_INLINE T fill(f32 value) { return FillFragment<T>::with(value); }

/// Numbers of the rows, of the columns.
template <class T> struct IotaOf;
template <> struct IotaOf<RowsOfAcc<i32>> {
  static M3_INLINE RowsOfAcc<i32> numbers() { return {rowOfLane()}; }
};
template <int N> struct IotaOf<ColumnsOfAcc<i32, N>> {
  static M3_INLINE ColumnsOfAcc<i32, N> numbers() {
    ColumnsOfAcc<i32, N> t;
    M3_UNROLL for (int n = 0; n < N / 16; ++n) M3_UNROLL for (int i = 0; i < 4; ++i) t.v[n][i] =
        16 * n + 4 * partOfLane() + i;
    return t;
  }
};
template <class T> M3_INLINE T iota() { return IotaOf<T>::numbers(); }

//===- Reductions -----------------------------------------------------------------------------===//

/// The largest of each row; a NaN is passed over.
template <int N> M3_INLINE RowsOfAcc<f32> reduceMaxRows(const FragmentAcc<N> &in) {
  const auto larger = [](f32 a, f32 b) { return __builtin_fmaxf(a, b); };
  f32 best = in.v[0][0];
  M3_UNROLL for (int n = 0; n < N / 16; ++n) M3_UNROLL for (int i = 0; i < 4; ++i) best =
      larger(best, in.v[n][i]);
  return {acrossRows(best, larger)};
}
/// The largest of each column; NaN if one is.
template <int N> M3_INLINE ColumnsOfAcc<f32, N> reduceMaxOrNanColumns(const FragmentAcc<N> &in) {
  ColumnsOfAcc<f32, N> out;
  M3_UNROLL for (int n = 0; n < N / 16; ++n) M3_UNROLL for (int i = 0; i < 4; ++i) out.v[n][i] =
      acrossRow(in.v[n][i], [](f32 a, f32 b) { return maximumOrNan(a, b); });
  return out;
}
/// Whether a condition holds for any row.
M3_INLINE bool anyOf(const RowsOfAcc<bool> &in) { return anyLane(in.v != 0); }

//===- From one product to the next -----------------------------------------------------------===//

/// An accumulator of 32 columns as the left operand of a product, FP16: each lane keeps its
/// elements, so k = 8g + 4e + i is column 16e + 4g + i.
M3_INLINE OperandA<f16, 32> toOperand(const FragmentAcc<32> &in) {
  OperandA<f16, 32> out;
  M3_UNROLL for (int i = 0; i < 4; ++i) out.line.v[0][i] =
      packF16(in.v[i / 2][i % 2 * 2], in.v[i / 2][i % 2 * 2 + 1]);
  return out;
}

/// Eight values to E4M3 in the order of the element.
M3_INLINE void eightToE4m3(const f32 (&x)[8], u32 *out) {
  M3_UNROLL for (int odd = 0; odd < 2; ++odd) out[odd] =
      packE4m3(x[odd], x[2 + odd]) | packE4m3(x[4 + odd], x[6 + odd]) << 16;
}
template <int K> M3_INLINE Line<e4m3, K> lineToE4m3(const Line<bf16, K> &in) {
  static_assert(K == 128);
  Line<e4m3, K> out;
  M3_UNROLL for (int e = 0; e < K / 32; ++e) {
    f32 x[8];
    M3_UNROLL for (int i = 0; i < 4; ++i) {
      x[2 * i] = bitsAs<f32>(in.v[4 * e + i] << 16);
      x[2 * i + 1] = bitsAs<f32>(in.v[4 * e + i] & 0xffff0000u);
    }
    eightToE4m3(x, out.v[0] + 2 * e);
  }
  return out;
}
/// BF16 operands in E4M3.
template <int K> M3_INLINE OperandA<e4m3, K> toE4m3(const OperandA<bf16, K> &in) {
  return {lineToE4m3(in.line)};
}
template <int K, int N> M3_INLINE OperandB<e4m3, K, N> toE4m3(const OperandB<bf16, K, N> &in) {
  OperandB<e4m3, K, N> out;
  M3_UNROLL for (int n = 0; n < N / 16; ++n) out.line[n] = lineToE4m3(in.line[n]);
  return out;
}

/// A BF16 left operand in FP16: what lies below 2^-14 keeps a step of 2^-24.
template <int K> M3_INLINE OperandA<f16, K> toOperand(const OperandA<bf16, K> &in) {
  OperandA<f16, K> out;
  M3_UNROLL for (int i = 0; i < K / 8; ++i) out.line.v[i / 4][i % 4] =
      packF16(bitsAs<f32>(in.line.v[i] << 16), bitsAs<f32>(in.line.v[i] & 0xffff0000u));
  return out;
}

//===- Memory ---------------------------------------------------------------------------------===//

/// Number n, or where there are no more than n the last.
M3_INLINE i64 numberBelow(i64 n, i64 count) { return maximum(minimum(n, count - 1), 0); }

/// The K/4 elements of a row that belong to this lane: BF16, FP32 as E4M3, a part of FP32 as FP16.
template <class E, int K> struct LineFrom;
template <int K> struct LineFrom<bf16, K> {
  static M3_INLINE Line<bf16, K> row(const u16 *p) {
    Line<bf16, K> line;
    M3_UNROLL for (int i = 0; i < K / 32; ++i) {
      const uint4 words = loadWide<uint4>(p + partOfLane() * (K / 4) + 8 * i);
      line.v[4 * i] = words.x, line.v[4 * i + 1] = words.y;
      line.v[4 * i + 2] = words.z, line.v[4 * i + 3] = words.w;
    }
    return line;
  }
};
template <int K> struct LineFrom<e4m3, K> {
  static_assert(K == 128);
  static M3_INLINE Line<e4m3, K> row(const f32 *p) {
    Line<e4m3, K> line;
    M3_UNROLL for (int e = 0; e < K / 32; ++e) {
      const f32 *const from = p + partOfLane() * (K / 4) + 8 * e;
      const float4 a = loadWide<float4>(from), b = loadWide<float4>(from + 4);
      const f32 x[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
      eightToE4m3(x, line.v[0] + 2 * e);
    }
    return line;
  }
};

template <int K> struct LineFrom<f16, K> {
  template <int Part> static M3_INLINE Line<f16, K> row(HalfRows<Part> rows) {
    Line<f16, K> line;
    M3_UNROLL for (int i = 0; i < K / 16; ++i) {
      const float4 words = loadWide<float4>(rows.p + partOfLane() * (K / 4) + 4 * i);
      u32 *const to = line.v[i / 2] + i % 2 * 2;
      to[0] = packF16(halfOf<Part>(words.x), halfOf<Part>(words.y));
      to[1] = packF16(halfOf<Part>(words.z), halfOf<Part>(words.w));
    }
    return line;
  }
};

/// Rows of the view, `stride` elements apart; rows from `rows` on repeat the last.
template <class E, int K> struct LoadFragment<OperandA<E, K>> {
  template <class P> static M3_INLINE OperandA<E, K> from(P p, i64 stride, i64 rows) {
    return {LineFrom<E, K>::row(p + numberBelow(rowOfLane(), rows) * stride)};
  }
};
/// Columns are rows of the view.
template <class E, int K, int N> struct LoadFragment<OperandB<E, K, N>> {
  template <class P> static M3_INLINE OperandB<E, K, N> from(const P *p, i64 stride, i64 rows) {
    OperandB<E, K, N> b;
    M3_UNROLL for (int n = 0; n < N / 16; ++n) b.line[n] =
        LineFrom<E, K>::row(p + numberBelow(16 * n + rowOfLane(), rows) * stride);
    return b;
  }
};
/// 16 elements, one a row.
template <class T> struct LoadFragment<RowsOfAcc<T>> {
  static M3_INLINE RowsOfAcc<T> from(const T *p, i64, i64) {
    return {loadWide<T>(p + rowOfLane())};
  }
};
template <class T, class P> M3_INLINE T load(const P *p, i64 stride, i64 rows = 1 << 30) {
  return LoadFragment<T>::from(p, stride, rows);
}

/// Accumulators in the order of registers: of columns 16n …, lane l, four elements.
template <class T> struct LoadRegisters;
template <int N> struct LoadRegisters<FragmentAcc<N>> {
  static M3_INLINE FragmentAcc<N> from(const f32 *p) {
    FragmentAcc<N> acc;
    M3_UNROLL for (int n = 0; n < N / 16; ++n) {
      const float4 words = loadWide<float4>(p + (n * warpLanes + laneId()) * 4);
      acc.v[n][0] = words.x, acc.v[n][1] = words.y, acc.v[n][2] = words.z, acc.v[n][3] = words.w;
    }
    return acc;
  }
};
/// Left operands: lane l, of each instruction its words.
template <int K> struct LoadRegisters<OperandA<f16, K>> {
  static M3_INLINE OperandA<f16, K> from(const u16 *p) {
    OperandA<f16, K> a;
    M3_UNROLL for (int s = 0; s < K / 32; ++s) {
      const uint4 words = loadWide<uint4>(p + (s * warpLanes + laneId()) * 8);
      a.line.v[s][0] = words.x, a.line.v[s][1] = words.y;
      a.line.v[s][2] = words.z, a.line.v[s][3] = words.w;
    }
    return a;
  }
};
template <int K> struct LoadRegisters<OperandA<e4m3, K>> {
  static M3_INLINE OperandA<e4m3, K> from(const u8 *p) {
    OperandA<e4m3, K> a;
    M3_UNROLL for (int s = 0; s < K / 128; ++s) M3_UNROLL for (int half = 0; half < 2; ++half) {
      const uint4 words = loadWide<uint4>(p + (s * warpLanes + laneId()) * 32 + 16 * half);
      u32 *const to = a.line.v[s] + 4 * half;
      to[0] = words.x, to[1] = words.y, to[2] = words.z, to[3] = words.w;
    }
    return a;
  }
};
template <class T, class P> M3_INLINE T loadRegisters(const P *p) {
  return LoadRegisters<T>::from(p);
}
template <int K> M3_INLINE void storeRegisters(const OperandA<e4m3, K> &a, u8 *p) {
  M3_UNROLL for (int s = 0; s < K / 128; ++s) M3_UNROLL for (int half = 0; half < 2; ++half) {
    const u32 *const from = a.line.v[s] + 4 * half;
    storeWide(p + (s * warpLanes + laneId()) * 32 + 16 * half,
              uint4{from[0], from[1], from[2], from[3]});
  }
}
template <int K> M3_INLINE void storeRegisters(const OperandA<f16, K> &a, u16 *p) {
  M3_UNROLL for (int s = 0; s < K / 32; ++s) {
    const u32(&v)[4] = a.line.v[s];
    storeWide(p + (s * warpLanes + laneId()) * 8, uint4{v[0], v[1], v[2], v[3]});
  }
}
template <int N> M3_INLINE void storeRegisters(const FragmentAcc<N> &acc, f32 *p) {
  M3_UNROLL for (int n = 0; n < N / 16; ++n)
      storeWide(p + (n * warpLanes + laneId()) * 4,
                float4{acc.v[n][0], acc.v[n][1], acc.v[n][2], acc.v[n][3]});
}
template <class T> M3_INLINE void storeRegisters(const RowsOfAcc<T> &rows, T *p) {
  if (partOfLane() == 0)
    storeWide(p + rowOfLane(), rows.v);
}
template <class T, int N>
M3_INLINE ColumnsOfAcc<T, N> gatherAt(const T *p, const ColumnsOfAcc<i32, N> &numbers) {
  ColumnsOfAcc<T, N> t;
  M3_UNROLL for (int n = 0; n < N / 16; ++n) M3_UNROLL for (int i = 0; i < 4; ++i) t.v[n][i] =
      loadAt(p + numbers.v[n][i]);
  return t;
}
/// Element of column n at p[n * stride], for columns below `columns`.
template <class T, int N>
M3_INLINE void storeColumns(const ColumnsOfAcc<T, N> &in, T *p, i64 stride, i64 columns) {
  if (rowOfLane() == 0)
    M3_UNROLL for (int n = 0; n < N / 16; ++n) M3_UNROLL for (int i = 0; i < 4; ++i) {
      const i64 column = 16 * n + 4 * partOfLane() + i;
      if (column < columns)
        storeWide(p + column * stride, in.v[n][i]);
    }
}
/// Rows of an accumulator whose columns 16n + c are elements Spread · c + n of a row, to BF16 or
/// FP32, rows below `rows`.
template <int Spread, int N, class P>
M3_INLINE void storeSpread(const FragmentAcc<N> &acc, P *p, i64 stride, i64 rows) {
  if (rowOfLane() < rows)
    M3_UNROLL for (int i = 0; i < 4; ++i) M3_UNROLL for (int n = 0; n < N / 16; n += 2)
        storePair(p + rowOfLane() * stride + (4 * partOfLane() + i) * Spread + n, acc.v[n][i],
                  acc.v[n + 1][i]);
}
