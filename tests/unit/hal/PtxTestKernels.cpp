#include "tests/unit/hal/HalConformance.h"

#include <cstring>

namespace m3c::test {

// Work items are blocks of one thread, as on the host.
static constexpr const char *text = R"(.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 64 .b8 scratch[];

.visible .entry add_to(.param .u64 data, .param .u64 addend)
{
  .reg .b32 %r<2>;
  .reg .f32 %f<4>;
  .reg .b64 %d<5>;
  ld.param.u64 %d1, [data];
  ld.param.u64 %d2, [addend];
  cvt.rn.f32.s64 %f1, %d2;
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %d3, %r1, 4;
  add.u64 %d4, %d1, %d3;
  ld.global.f32 %f2, [%d4];
  add.f32 %f3, %f2, %f1;
  st.global.f32 [%d4], %f3;
  ret;
}

.visible .entry write_index(.param .u64 out, .param .u64 nx, .param .u64 ny)
{
  .reg .b32 %r<10>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [out];
  ld.param.u32 %r1, [nx];
  ld.param.u32 %r2, [ny];
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ctaid.y;
  mov.u32 %r5, %ctaid.z;
  mad.lo.u32 %r6, %r5, %r2, %r4;
  mad.lo.u32 %r6, %r6, %r1, %r3;
  mul.wide.u32 %d2, %r6, 4;
  add.u64 %d3, %d1, %d2;
  add.u32 %r7, %r3, 1;
  mad.lo.u32 %r7, %r4, 100, %r7;
  mad.lo.u32 %r7, %r5, 10000, %r7;
  st.global.u32 [%d3], %r7;
  ret;
}

.visible .entry use_shared(.param .u64 out)
{
  .reg .pred %p<3>;
  .reg .b32 %r<8>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [out];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, scratch;
  add.u32 %r3, %r2, 4096;
FILL:
  st.volatile.shared.u32 [%r2], %r1;
  add.u32 %r2, %r2, 4;
  setp.lt.u32 %p1, %r2, %r3;
  @%p1 bra FILL;
  mov.u32 %r2, scratch;
  mov.u32 %r4, 0;
SUM:
  ld.volatile.shared.u32 %r5, [%r2];
  add.u32 %r4, %r4, %r5;
  add.u32 %r2, %r2, 4;
  setp.lt.u32 %p2, %r2, %r3;
  @%p2 bra SUM;
  mul.wide.u32 %d2, %r1, 4;
  add.u64 %d3, %d1, %d2;
  st.global.u32 [%d3], %r4;
  ret;
}

.visible .entry nothing()
{
  ret;
}

.visible .entry crash(.param .u64 address)
{
  .reg .b32 %r<2>;
  .reg .b64 %d<2>;
  ld.param.u64 %d1, [address];
  mov.u32 %r1, 1;
  st.global.u32 [%d1], %r1;
  ret;
}
)";

std::vector<std::byte> ptxTestKernels() {
  std::vector<std::byte> bytes(std::strlen(text));
  std::memcpy(bytes.data(), text, bytes.size());
  return bytes;
}

} // namespace m3c::test
