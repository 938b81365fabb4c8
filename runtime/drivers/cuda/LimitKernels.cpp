#include "runtime/drivers/cuda/LimitKernels.h"

#include <fmt/format.h>

namespace m3c::hal::cuda {

namespace {

constexpr const char *readHead = R"(
.visible .entry read_all(.param .u64 data, .param .u64 iterations, .param .u64 sink)
{
  .reg .pred %p<2>;
  .reg .b32 %r<48>;
  .reg .b64 %d<12>;
  ld.param.u64 %d1, [data];
  ld.param.u64 %d2, [iterations];
  ld.param.u64 %d3, [sink];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %nctaid.x;
  mad.lo.u32 %r5, %r1, %r2, %r3;
  mul.wide.u32 %d4, %r5, 16;
  add.u64 %d1, %d1, %d4;
  mul.lo.u32 %r6, %r4, %r2;
  mul.wide.u32 %d5, %r6, 16;
  mov.u32 %r7, 0;
NEXT:
)";

constexpr const char *readTail = R"(
  sub.u64 %d2, %d2, 1;
  setp.ne.u64 %p0, %d2, 0;
  @%p0 bra NEXT;
  setp.eq.u32 %p1, %r7, 0x51ab23cd;
  @%p1 st.global.u32 [%d3], %r7;
  ret;
}
)";

std::string readText() {
  std::string text = readHead;
  for (uint32_t i = 0; i < loadsPerIteration; ++i)
    text += fmt::format("  ld.global.L1::no_allocate.v4.u32 {{%r{}, %r{}, %r{}, %r{}}}, [%d1];\n"
                        "  add.u64 %d1, %d1, %d5;\n",
                        8 + 4 * i, 9 + 4 * i, 10 + 4 * i, 11 + 4 * i);
  for (uint32_t i = 0; i < 4 * loadsPerIteration; ++i)
    text += fmt::format("  xor.b32 %r7, %r7, %r{};\n", 8 + i);
  return text + readTail;
}

constexpr const char *fmaHead = R"(
.visible .entry fma_f32(.param .u64 iterations, .param .u64 sink)
{
  .reg .pred %p<2>;
  .reg .b32 %r<2>;
  .reg .f32 %f<20>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [iterations];
  ld.param.u64 %d2, [sink];
  mov.u32 %r1, %tid.x;
  cvt.rn.f32.u32 %f16, %r1;
  mov.f32 %f17, 0f3F7FFF00;
)";

std::string fmaText() {
  constexpr uint32_t chains = 16; // independent, more than the unit's latency
  std::string text = fmaHead;
  for (uint32_t i = 0; i < chains; ++i)
    text += fmt::format("  mov.f32 %f{}, %f16;\n", i);
  text += "NEXT:\n";
  for (uint32_t i = 0; i < fmaPerIteration; ++i)
    text += fmt::format("  fma.rn.f32 %f{0}, %f{0}, %f17, %f16;\n", i % chains);
  text += "  sub.u64 %d1, %d1, 1;\n  setp.ne.u64 %p0, %d1, 0;\n  @%p0 bra NEXT;\n";
  for (uint32_t i = 1; i < chains; ++i)
    text += fmt::format("  add.f32 %f0, %f0, %f{};\n", i);
  return text +
         "  setp.eq.f32 %p1, %f0, 0f12345678;\n  @%p1 st.global.f32 [%d2], %f0;\n  ret;\n}\n";
}

// Fills shared memory with numbers of changing sign and digits: equal or zero operands would take
// less power and let the clock rise. Descriptors: rows of 128 bytes in groups of eight (1,024 bytes
// apart), 128-byte swizzle, as the PTX ISA describes wgmma's matrix descriptor.
constexpr const char *matrixHead = R"(.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 area[];
.visible .entry matrix_bf16(.param .u64 iterations, .param .u64 sink)
{{
  .reg .pred %p<4>;
  .reg .b32 %r<16>;
  .reg .f32 %f<128>;
  .reg .b64 %d<24>;
  ld.param.u64 %d1, [iterations];
  ld.param.u64 %d2, [sink];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, area;
  shl.b32 %r3, %r1, 2;
  add.u32 %r4, %r2, %r3;
  add.u32 %r5, %r2, {bytes};
  mov.u32 %r6, %r1;
FILL:
  mul.lo.u32 %r6, %r6, 1664525;
  add.u32 %r6, %r6, 1013904223;
  and.b32 %r7, %r6, 0x80ff80ff;
  or.b32 %r7, %r7, 0x3f003f00;
  st.shared.u32 [%r4], %r7;
  add.u32 %r4, %r4, {step};
  setp.lt.u32 %p0, %r4, %r5;
  @%p0 bra FILL;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  shr.u32 %r8, %r1, 7;
  mul.lo.u32 %r8, %r8, {aBytes};
  add.u32 %r8, %r8, %r2;
  add.u32 %r9, %r2, {bStart};
  shr.u32 %r8, %r8, 4;
  shr.u32 %r9, %r9, 4;
  cvt.u64.u32 %d3, %r8;
  cvt.u64.u32 %d4, %r9;
  mov.u64 %d5, 0x4000004000010000;
  or.b64 %d3, %d3, %d5;
  or.b64 %d4, %d4, %d5;
)";

std::string accumulators() {
  std::string list;
  for (int i = 0; i < 128; ++i)
    list += fmt::format("{}%f{}", i ? ", " : "", i);
  return list;
}

} // namespace

std::string generalLimitText() {
  return ".version 8.0\n.target sm_80\n.address_size 64\n" + readText() + fmaText();
}

std::string matrixLimitText() {
  constexpr uint32_t aBytes = 64 * 64 * 2, stepsOfK = 4;
  std::string text = fmt::format(matrixHead, fmt::arg("bytes", matrixSharedBytes),
                                 fmt::arg("step", 4 * limitThreads), fmt::arg("aBytes", aBytes),
                                 fmt::arg("bStart", 2 * aBytes));
  for (int i = 0; i < 128; ++i)
    text += fmt::format("  mov.f32 %f{}, 0f00000000;\n", i);
  text += "NEXT:\n  wgmma.fence.sync.aligned;\n";
  for (uint32_t k = 0; k < stepsOfK; ++k) // 16 columns are 32 bytes, 2 in a descriptor's units
    text +=
        fmt::format("  add.u64 %d6, %d3, {0};\n  add.u64 %d7, %d4, {0};\n"
                    "  wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {{{1}}}, %d6, %d7, "
                    "1, 1, 1, 0, 0;\n",
                    2 * k, accumulators());
  text += "  wgmma.commit_group.sync.aligned;\n  wgmma.wait_group.sync.aligned 0;\n"
          "  sub.u64 %d1, %d1, 1;\n  setp.ne.u64 %p1, %d1, 0;\n  @%p1 bra NEXT;\n";
  for (int i = 1; i < 128; ++i)
    text += fmt::format("  add.f32 %f0, %f0, %f{};\n", i);
  return text +
         "  setp.eq.f32 %p2, %f0, 0f12345678;\n  @%p2 st.global.f32 [%d2], %f0;\n  ret;\n}\n";
}

} // namespace m3c::hal::cuda
