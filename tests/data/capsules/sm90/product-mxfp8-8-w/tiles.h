// Operations on register tiles that move whole rows of registers, alike on every target. Included
// after the target's own `Tile`.
#pragma once

template <class T, int R, int C, class... Rest>
M3_INLINE auto stack(const Tile<T, R, C> &first, const Rest &...rest) {
  constexpr int n = 1 + sizeof...(Rest);
  const Tile<T, R, C> *parts[n] = {&first, &rest...};
  Tile<T, n * R, C> out;
  M3_UNROLL for (int i = 0; i < n; ++i) M3_UNROLL for (int r = 0; r < R; ++r)
      M3_UNROLL for (int c = 0; c < out.vectors; ++c) out.v[i * R + r][c] = parts[i]->v[r][c];
  return out;
}
