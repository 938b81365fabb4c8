// Instructions of four warps together: products whose right operand stands in shared memory. Inline
// assembly of this target alone stands in this file.
#pragma once

#include "atoms.h"

/// Registers that products under way have are nobody's: nothing that computes with them moves over
/// this.
template <int N> M3_INLINE void settleSums(f32 (&acc)[N][4]) {
  M3_UNROLL for (int n = 0; n < N; ++n)
      M3_UNROLL for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(acc[n][i])::"memory");
}

/// PTX ISA, "wgmma.fence": what the warps did with registers comes before the products that follow.
template <int N> M3_INLINE void fenceProducts(f32 (&acc)[N][4]) {
  settleSums(acc);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// PTX ISA, "wgmma.commit_group": products since the last one are a group.
M3_INLINE void commitProducts() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// PTX ISA, "wgmma.wait_group": all groups but the last `leaves` have ended; where these are none,
/// the sums are there.
template <int leaves, int N> M3_INLINE void awaitProducts(f32 (&acc)[N][4]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(leaves) : "memory");
  if (leaves == 0)
    settleSums(acc);
}

/// PTX ISA, "wgmma.mma_async", m64nNk16: acc += a · right, BF16 operands, FP32 sums. Warp w of the
/// four has rows 16w … 16w + 15, in the registers of m16n8k16; `right` is the descriptor of N rows
/// of 16 k in shared memory.
M3_INLINE void multiplyShared(f32 (&acc)[8][4], const u32 (&a)[4], u64 right) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
               "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
               "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
               "{%32,%33,%34,%35}, %36, p, 1, 1, 0; }"
               : "+f"(acc[0][0]), "+f"(acc[0][1]), "+f"(acc[0][2]), "+f"(acc[0][3]),
                 "+f"(acc[1][0]), "+f"(acc[1][1]), "+f"(acc[1][2]), "+f"(acc[1][3]),
                 "+f"(acc[2][0]), "+f"(acc[2][1]), "+f"(acc[2][2]), "+f"(acc[2][3]),
                 "+f"(acc[3][0]), "+f"(acc[3][1]), "+f"(acc[3][2]), "+f"(acc[3][3]),
                 "+f"(acc[4][0]), "+f"(acc[4][1]), "+f"(acc[4][2]), "+f"(acc[4][3]),
                 "+f"(acc[5][0]), "+f"(acc[5][1]), "+f"(acc[5][2]), "+f"(acc[5][3]),
                 "+f"(acc[6][0]), "+f"(acc[6][1]), "+f"(acc[6][2]), "+f"(acc[6][3]),
                 "+f"(acc[7][0]), "+f"(acc[7][1]), "+f"(acc[7][2]), "+f"(acc[7][3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right));
}

M3_INLINE void multiplyShared(f32 (&acc)[16][4], const u32 (&a)[4], u64 right) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
      "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
      "{%64,%65,%66,%67}, %68, p, 1, 1, 0; }"
      : "+f"(acc[0][0]), "+f"(acc[0][1]), "+f"(acc[0][2]), "+f"(acc[0][3]), "+f"(acc[1][0]),
        "+f"(acc[1][1]), "+f"(acc[1][2]), "+f"(acc[1][3]), "+f"(acc[2][0]), "+f"(acc[2][1]),
        "+f"(acc[2][2]), "+f"(acc[2][3]), "+f"(acc[3][0]), "+f"(acc[3][1]), "+f"(acc[3][2]),
        "+f"(acc[3][3]), "+f"(acc[4][0]), "+f"(acc[4][1]), "+f"(acc[4][2]), "+f"(acc[4][3]),
        "+f"(acc[5][0]), "+f"(acc[5][1]), "+f"(acc[5][2]), "+f"(acc[5][3]), "+f"(acc[6][0]),
        "+f"(acc[6][1]), "+f"(acc[6][2]), "+f"(acc[6][3]), "+f"(acc[7][0]), "+f"(acc[7][1]),
        "+f"(acc[7][2]), "+f"(acc[7][3]), "+f"(acc[8][0]), "+f"(acc[8][1]), "+f"(acc[8][2]),
        "+f"(acc[8][3]), "+f"(acc[9][0]), "+f"(acc[9][1]), "+f"(acc[9][2]), "+f"(acc[9][3]),
        "+f"(acc[10][0]), "+f"(acc[10][1]), "+f"(acc[10][2]), "+f"(acc[10][3]), "+f"(acc[11][0]),
        "+f"(acc[11][1]), "+f"(acc[11][2]), "+f"(acc[11][3]), "+f"(acc[12][0]), "+f"(acc[12][1]),
        "+f"(acc[12][2]), "+f"(acc[12][3]), "+f"(acc[13][0]), "+f"(acc[13][1]), "+f"(acc[13][2]),
        "+f"(acc[13][3]), "+f"(acc[14][0]), "+f"(acc[14][1]), "+f"(acc[14][2]), "+f"(acc[14][3]),
        "+f"(acc[15][0]), "+f"(acc[15][1]), "+f"(acc[15][2]), "+f"(acc[15][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right));
}

M3_INLINE void multiplyShared(f32 (&acc)[32][4], const u32 (&a)[4], u64 right) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
      "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
      "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"
      "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"
      "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,"
      "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, "
      "{%128,%129,%130,%131}, %132, p, 1, 1, 0; }"
      : "+f"(acc[0][0]), "+f"(acc[0][1]), "+f"(acc[0][2]), "+f"(acc[0][3]), "+f"(acc[1][0]),
        "+f"(acc[1][1]), "+f"(acc[1][2]), "+f"(acc[1][3]), "+f"(acc[2][0]), "+f"(acc[2][1]),
        "+f"(acc[2][2]), "+f"(acc[2][3]), "+f"(acc[3][0]), "+f"(acc[3][1]), "+f"(acc[3][2]),
        "+f"(acc[3][3]), "+f"(acc[4][0]), "+f"(acc[4][1]), "+f"(acc[4][2]), "+f"(acc[4][3]),
        "+f"(acc[5][0]), "+f"(acc[5][1]), "+f"(acc[5][2]), "+f"(acc[5][3]), "+f"(acc[6][0]),
        "+f"(acc[6][1]), "+f"(acc[6][2]), "+f"(acc[6][3]), "+f"(acc[7][0]), "+f"(acc[7][1]),
        "+f"(acc[7][2]), "+f"(acc[7][3]), "+f"(acc[8][0]), "+f"(acc[8][1]), "+f"(acc[8][2]),
        "+f"(acc[8][3]), "+f"(acc[9][0]), "+f"(acc[9][1]), "+f"(acc[9][2]), "+f"(acc[9][3]),
        "+f"(acc[10][0]), "+f"(acc[10][1]), "+f"(acc[10][2]), "+f"(acc[10][3]), "+f"(acc[11][0]),
        "+f"(acc[11][1]), "+f"(acc[11][2]), "+f"(acc[11][3]), "+f"(acc[12][0]), "+f"(acc[12][1]),
        "+f"(acc[12][2]), "+f"(acc[12][3]), "+f"(acc[13][0]), "+f"(acc[13][1]), "+f"(acc[13][2]),
        "+f"(acc[13][3]), "+f"(acc[14][0]), "+f"(acc[14][1]), "+f"(acc[14][2]), "+f"(acc[14][3]),
        "+f"(acc[15][0]), "+f"(acc[15][1]), "+f"(acc[15][2]), "+f"(acc[15][3]), "+f"(acc[16][0]),
        "+f"(acc[16][1]), "+f"(acc[16][2]), "+f"(acc[16][3]), "+f"(acc[17][0]), "+f"(acc[17][1]),
        "+f"(acc[17][2]), "+f"(acc[17][3]), "+f"(acc[18][0]), "+f"(acc[18][1]), "+f"(acc[18][2]),
        "+f"(acc[18][3]), "+f"(acc[19][0]), "+f"(acc[19][1]), "+f"(acc[19][2]), "+f"(acc[19][3]),
        "+f"(acc[20][0]), "+f"(acc[20][1]), "+f"(acc[20][2]), "+f"(acc[20][3]), "+f"(acc[21][0]),
        "+f"(acc[21][1]), "+f"(acc[21][2]), "+f"(acc[21][3]), "+f"(acc[22][0]), "+f"(acc[22][1]),
        "+f"(acc[22][2]), "+f"(acc[22][3]), "+f"(acc[23][0]), "+f"(acc[23][1]), "+f"(acc[23][2]),
        "+f"(acc[23][3]), "+f"(acc[24][0]), "+f"(acc[24][1]), "+f"(acc[24][2]), "+f"(acc[24][3]),
        "+f"(acc[25][0]), "+f"(acc[25][1]), "+f"(acc[25][2]), "+f"(acc[25][3]), "+f"(acc[26][0]),
        "+f"(acc[26][1]), "+f"(acc[26][2]), "+f"(acc[26][3]), "+f"(acc[27][0]), "+f"(acc[27][1]),
        "+f"(acc[27][2]), "+f"(acc[27][3]), "+f"(acc[28][0]), "+f"(acc[28][1]), "+f"(acc[28][2]),
        "+f"(acc[28][3]), "+f"(acc[29][0]), "+f"(acc[29][1]), "+f"(acc[29][2]), "+f"(acc[29][3]),
        "+f"(acc[30][0]), "+f"(acc[30][1]), "+f"(acc[30][2]), "+f"(acc[30][3]), "+f"(acc[31][0]),
        "+f"(acc[31][1]), "+f"(acc[31][2]), "+f"(acc[31][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right));
}
