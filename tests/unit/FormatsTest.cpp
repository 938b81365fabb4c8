// The storage formats against the worked vector of the NVFP4 cache quantiser and against their own
// definition by exhaustive search.
#include "runtime/base/Formats.h"

#include <gtest/gtest.h>

using namespace m3c::formats;

TEST(Formats, Nvfp4WorkedVector) {
  const float values[16] = {-6, -5,  -3.5, -2.5, -1.75, -1.25, -.75, -.25,
                            0,  .25, .75,  1.25, 1.75,  2.5,   3.5,  5};
  const uint8_t expected[8] = {0xEF, 0xCE, 0xAC, 0x0A, 0x00, 0x22, 0x44, 0x66};
  EXPECT_EQ(nvfp4GroupScale(6), 0x38);
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(encodeE2m1(values[2 * i], 1) | encodeE2m1(values[2 * i + 1], 1) << 4, expected[i]);
}

TEST(Formats, E4m3RoundTripAndNearest) {
  for (int code = 0; code < 256; ++code)
    if ((code & 0x7f) != 0x7f)
      EXPECT_EQ(floatToE4m3(e4m3ToFloat(uint8_t(code))), code);
  // Between two neighbours the nearer wins; the midpoint goes to the even code.
  for (int code = 0; code < 0x7e; ++code) {
    float low = e4m3ToFloat(uint8_t(code)), high = e4m3ToFloat(uint8_t(code + 1));
    float middle = (low + high) / 2;
    EXPECT_EQ(floatToE4m3(middle), code % 2 == 0 ? code : code + 1);
    EXPECT_EQ(floatToE4m3(std::nextafter(middle, 0.0f)), code);
    EXPECT_EQ(floatToE4m3(std::nextafter(middle, 1e9f)), code + 1);
  }
  EXPECT_EQ(floatToE4m3(1e9f), 0x7e);
  EXPECT_EQ(floatToE4m3(-1e9f), 0xfe);
}

TEST(Formats, Bf16RoundsToNearestEven) {
  EXPECT_EQ(roundToBf16(1.0f + 0x1p-8f), 1.0f);
  EXPECT_EQ(roundToBf16(1.0f + 3 * 0x1p-8f), 1.0f + 0x1p-6f);
}
