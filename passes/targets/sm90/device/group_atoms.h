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

/// PTX ISA, "wgmma.fence": what the warps did with registers comes before the products that follow,
/// to which no sums are handed over, or these.
M3_INLINE void fenceProducts() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
template <int N> M3_INLINE void fenceProducts(f32 (&acc)[N][4]) {
  settleSums(acc);
  fenceProducts();
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

// Operands of an instruction: the sums of 8 and of 64 columns.
#define M3_SUMS(n) "+f"(acc[n][0]), "+f"(acc[n][1]), "+f"(acc[n][2]), "+f"(acc[n][3])
#define M3_SUMS_OF_64(n)                                                                           \
  M3_SUMS(n), M3_SUMS(n + 1), M3_SUMS(n + 2), M3_SUMS(n + 3), M3_SUMS(n + 4), M3_SUMS(n + 5),      \
      M3_SUMS(n + 6), M3_SUMS(n + 7)

/// PTX ISA, "wgmma.mma_async", m64nNk16: acc += a · right, BF16 operands, FP32 sums. Warp w of the
/// four has rows 16w … 16w + 15, in the registers of m16n8k16; `right` is the descriptor of N rows
/// of 16 k in shared memory.
M3_INLINE void multiplyShared(f32 (&acc)[8][4], const u32 (&a)[4], u64 right) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
               "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
               "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
               "{%32,%33,%34,%35}, %36, p, 1, 1, 0; }"
               : M3_SUMS_OF_64(0)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right));
}

/// Without `adds` it begins the sums.
template <bool adds = true>
M3_INLINE void multiplyShared(f32 (&acc)[16][4], const u32 (&a)[4], u64 right) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %69, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
               "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
               "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
               "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
               "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
               "{%64,%65,%66,%67}, %68, p, 1, 1, 0; }"
               : M3_SUMS_OF_64(0), M3_SUMS_OF_64(8)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right), "n"(adds));
}

M3_INLINE void multiplyShared(f32 (&acc)[32][4], const u32 (&a)[4], u64 right) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0;\n"
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
               : M3_SUMS_OF_64(0), M3_SUMS_OF_64(8), M3_SUMS_OF_64(16), M3_SUMS_OF_64(24)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right));
}

/// Values of a slot of a cache page, 128 columns and eight for the sums of the left operand: FP16
/// operands.
template <bool adds>
M3_INLINE void multiplyValues(f32 (&acc)[17][4], const u32 (&a)[4], u64 right) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %73, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n136k16.f32.f16.f16 "
               "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
               "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
               "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
               "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67}, "
               "{%68,%69,%70,%71}, %72, p, 1, 1, 0; }"
               : M3_SUMS_OF_64(0), M3_SUMS_OF_64(8), M3_SUMS(16)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right), "n"(adds));
}

#undef M3_SUMS_OF_64
#undef M3_SUMS

/// PTX ISA, "fence.proxy": what this thread wrote to shared memory is seen by products.
M3_INLINE void fenceForProducts() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// Two FP16 to BF16, nearest even.
M3_INLINE u32 bf16OfF16(u32 pair) { return packBf16(f32OfF16Low(pair), f32OfF16High(pair)); }
