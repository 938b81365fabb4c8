// Emulated instructions one by one, against tables written from the PTX ISA for these tests and
// against arithmetic of another kind.
#include "tests/unit/emulator/Bench.h"

#include "runtime/base/Formats.h"

#include <bit>
#include <cmath>
#include <random>

using namespace m3c;
using namespace m3c::test;

namespace {

/// Runs one warp: `body` sees lane, `in` (u32 words) and `out`.
std::vector<uint32_t> runWarp(const std::string &body, const std::vector<uint32_t> &in,
                              size_t outWords) {
  std::string text =
      "#include \"tile.h\"\nextern \"C\" __global__ void atom(const u32 *in, u32 *out) "
      "{\n  const int lane = laneId();\n" +
      body + "\n}\n";
  std::vector<std::byte> input = bytesOf(in), output(outWords * 4);
  runEmulated({"atom", text}, {&input, &output});
  return valuesOf<uint32_t>(output);
}

uint16_t bf16(float x) { return uint16_t(std::bit_cast<uint32_t>(formats::roundToBf16(x)) >> 16); }
double valueOfBf16(uint16_t code) { return std::bit_cast<float>(uint32_t(code) << 16); }
double valueOfF16(uint16_t code) {
  int exponent = code >> 10 & 31, mantissa = code & 1023;
  double size = exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24);
  return code & 0x8000 ? -size : size;
}

//===- mma.m16n8k16 ---------------------------------------------------------------------------===//

struct Mma {
  uint16_t a[16][16], b[16][8]; ///< codes: A[row][k], B[k][column]
  float c[16][8];
};

/// D of one instruction: operands are dealt out by the figures of the PTX ISA ("Matrix fragments
/// for mma.m16n8k16"): element i of a lane's a has row groupID, + 8 for i in 2, 3, 6, 7, and column
/// 2·threadID_in_group + (i & 1), + 8 for i ≥ 4; of b row 2·threadID + (i & 1), + 8 for i ≥ 2; of c
/// row groupID, + 8 for i ≥ 2, column 2·threadID + (i & 1).
std::vector<std::vector<float>> multiply(const Mma &mma, const char *function) {
  std::vector<uint32_t> in(32 * 10);
  auto element = [](int i, int lane) { return std::pair(lane / 4, lane % 4 * 2 + (i & 1)); };
  for (int lane = 0; lane < 32; ++lane) {
    uint16_t a[8], b[4];
    for (int i = 0; i < 8; ++i) {
      auto [row, column] = element(i, lane);
      a[i] = mma.a[row + (i == 2 || i == 3 || i == 6 || i == 7 ? 8 : 0)][column + (i >= 4 ? 8 : 0)];
    }
    for (int i = 0; i < 4; ++i) {
      auto [column, row] = element(i, lane);
      b[i] = mma.b[row + (i >= 2 ? 8 : 0)][column];
    }
    for (int r = 0; r < 4; ++r)
      in[size_t(lane * 10 + r)] = uint32_t(a[2 * r]) | uint32_t(a[2 * r + 1]) << 16;
    for (int r = 0; r < 2; ++r)
      in[size_t(lane * 10 + 4 + r)] = uint32_t(b[2 * r]) | uint32_t(b[2 * r + 1]) << 16;
    for (int i = 0; i < 4; ++i) {
      auto [row, column] = element(i, lane);
      in[size_t(lane * 10 + 6 + i)] =
          std::bit_cast<uint32_t>(mma.c[row + (i >= 2 ? 8 : 0)][column]);
    }
  }
  std::vector<uint32_t> out = runWarp(std::string(R"(
  u32 a[4], b[2];
  f32 acc[4];
  for (int i = 0; i < 4; ++i)
    a[i] = loadAt(in + lane * 10 + i), acc[i] = bitsAs<f32>(loadAt(in + lane * 10 + 6 + i));
  for (int i = 0; i < 2; ++i)
    b[i] = loadAt(in + lane * 10 + 4 + i);
  )") + function + R"((acc, a, b);
  for (int i = 0; i < 4; ++i)
    storeAt(out + lane * 4 + i, bitsAs<u32>(acc[i]));)",
                                      in, 32 * 4);
  std::vector<std::vector<float>> d(16, std::vector<float>(8));
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      auto [row, column] = element(i, lane);
      d[size_t(row + (i >= 2 ? 8 : 0))][size_t(column)] =
          std::bit_cast<float>(out[size_t(lane * 4 + i)]);
    }
  return d;
}

TEST(Atoms, MmaLayoutWithSumsThatAreExact) {
  std::mt19937 random(1);
  for (bool isBf16 : {true, false}) {
    double a[16][16], b[16][8];
    Mma mma;
    auto draw = [&](double &value, uint16_t &code) {
      value = int(random() % 33) - 16;
      code = isBf16 ? bf16(float(value)) : std::bit_cast<uint16_t>(_Float16(value));
    };
    for (size_t i = 0; i < 16; ++i)
      for (size_t k = 0; k < 16; ++k)
        draw(a[i][k], mma.a[i][k]);
    for (size_t k = 0; k < 16; ++k)
      for (size_t j = 0; j < 8; ++j)
        draw(b[k][j], mma.b[k][j]);
    for (auto &row : mma.c)
      for (float &value : row)
        value = float(int(random() % 2001) - 1000);
    auto d = multiply(mma, isBf16 ? "mmaBf16" : "mmaF16");
    for (size_t i = 0; i < 16; ++i)
      for (size_t j = 0; j < 8; ++j) {
        double sum = mma.c[i][j];
        for (size_t k = 0; k < 16; ++k)
          sum += a[i][k] * b[k][j];
        EXPECT_EQ(d[i][j], sum) << "row " << i << " column " << j;
      }
  }
}

/// Row 0 and column 0 of a product: c + Σ terms[k], each term a power of two (or its negative).
float sumOf(float c, const std::vector<double> &terms) {
  Mma mma = {};
  mma.c[0][0] = c;
  for (size_t k = 0; k < terms.size(); ++k) {
    mma.a[0][k] = bf16(float(terms[k]));
    mma.b[k][0] = bf16(1);
  }
  return multiply(mma, "mmaBf16")[0][0];
}

TEST(Atoms, MmaCutsAlignedTermsTo25BitsAndTheSumToFp32) {
  const double u = 0x1p-24;
  EXPECT_EQ(sumOf(1, {u}), 1.0f);                                         // 1 + 2^-24, cut
  EXPECT_EQ(sumOf(1, {u, u}), 1.0f + 2 * float(u));                       // no rounding in between
  EXPECT_EQ(sumOf(1, {u / 2, u / 2, u / 2, u / 2}), 1.0f + 2 * float(u)); // bit 25 is kept
  EXPECT_EQ(sumOf(1, std::vector<double>(16, u / 4)), 1.0f);              // bit 26 is not
  EXPECT_EQ(sumOf(1, {-u}), 1.0f - float(u));
  EXPECT_EQ(sumOf(1, {-u / 4}), 1.0f);            // cut before it is subtracted
  EXPECT_EQ(sumOf(1, {-u / 2}), 1.0f - float(u)); // 1 − 2^-25 has 25 bits: cut towards zero
  EXPECT_EQ(sumOf(0x1p24f, {1, -0x1p24}), 1.0f);
  EXPECT_EQ(sumOf(-1, {1}), 0.0f);
}

TEST(Atoms, MmaStaysWithinItsBound) {
  // Each of 17 terms loses less than 2^-25 of the largest power of two, which is at most the
  // largest size; the sum less than 2^-23 of itself: |error| < 17 · 2^-25 · 2 · largest + 2^-23 ·
  // |sum|.
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 8; ++round) {
    Mma mma;
    for (auto &row : mma.a)
      for (uint16_t &code : row)
        code = bf16(normal(random) * std::ldexp(1.0f, int(random() % 9) - 4));
    for (auto &row : mma.b)
      for (uint16_t &code : row)
        code = bf16(normal(random));
    for (auto &row : mma.c)
      for (float &value : row)
        value = normal(random) * 4;
    auto d = multiply(mma, "mmaBf16");
    for (size_t row = 0; row < 16; ++row)
      for (size_t column = 0; column < 8; ++column) {
        double sum = mma.c[row][column], largest = std::fabs(sum);
        for (size_t k = 0; k < 16; ++k) {
          double term = valueOfBf16(mma.a[row][k]) * valueOfBf16(mma.b[k][column]);
          sum += term;
          largest = std::max(largest, std::fabs(term));
        }
        EXPECT_NEAR(d[row][column], sum, 17 * 0x1p-24 * largest + 0x1p-23 * std::fabs(sum));
      }
  }
}

TEST(Atoms, MmaSpecialValues) {
  Mma mma = {};
  mma.a[0][0] = 0x7f80, mma.b[0][0] = bf16(1), mma.b[0][1] = bf16(-2); // infinity
  auto d = multiply(mma, "mmaBf16");
  EXPECT_EQ(d[0][0], INFINITY);
  EXPECT_EQ(d[0][1], -INFINITY);
  EXPECT_TRUE(std::isnan(d[0][2])); // infinity times zero
  EXPECT_EQ(d[1][0], 0);
  Mma large = {};
  large.a[0][0] = bf16(0x1p127f), large.b[0][0] = bf16(2);
  EXPECT_EQ(multiply(large, "mmaBf16")[0][0], INFINITY);
}

//===- Other arithmetic -----------------------------------------------------------------------===//

TEST(Atoms, MultiplyBf16IsRoundedOnce) {
  std::vector<uint32_t> in;
  std::mt19937 random(3);
  auto finite = [&] {
    uint32_t code = random() & 0xffffu;
    return (code & 0x7f80u) == 0x7f80u ? code & 0xbfffu : code;
  };
  for (int i = 0; i < 32 * 64; ++i)
    in.push_back(finite() | finite() << 16), in.push_back(finite() | finite() << 16);
  // Results in and below the subnormals, where a rounding to FP32 in between would show.
  for (size_t i = 0; i < 512; i += 2)
    in[i] = (0x3f80u + uint32_t(i % 128)) * 0x10001u, in[i + 1] = (uint32_t(i) + 1) * 0x10001u;
  std::vector<uint32_t> out = runWarp(R"(
  for (int i = lane; i < 32 * 64; i += 32)
    storeAt(out + i, multiplyBf16(loadAt(in + 2 * i), loadAt(in + 2 * i + 1)));)",
                                      in, 32 * 64);
  for (size_t i = 0; i < out.size(); ++i)
    for (int half : {0, 16}) {
      double exact =
          valueOfBf16(uint16_t(in[2 * i] >> half)) * valueOfBf16(uint16_t(in[2 * i + 1] >> half));
      auto got = uint16_t(out[i] >> half);
      // The nearest of the neighbours; ties to the even code.
      double distance = std::fabs(valueOfBf16(got) - exact);
      if (std::fabs(exact) >= 0x1.ffp127) {
        EXPECT_EQ(got & 0x7fffu, 0x7f80u);
        continue;
      }
      if ((got & 0x7fffu) == 0x7f80u)
        continue; // between the largest value and infinity: checked above
      for (int step : {-1, 1}) {
        auto other = uint16_t(got + step);
        if ((other & 0x8000u) != (got & 0x8000u) || (other & 0x7fffu) == 0x7f80u)
          continue;
        double theirs = std::fabs(valueOfBf16(other) - exact);
        EXPECT_TRUE(distance < theirs || (distance == theirs && got % 2 == 0))
            << std::hex << in[2 * i] << " " << in[2 * i + 1] << " " << out[i];
      }
    }
}

TEST(Atoms, E4m3ToF16IsExact) {
  std::vector<uint32_t> in;
  for (uint32_t i = 0; i < 64; ++i)
    in.push_back((4 * i) | (4 * i + 1) << 8 | (4 * i + 2) << 16 | (4 * i + 3) << 24);
  std::vector<uint32_t> out = runWarp(R"(
  for (int i = lane; i < 64; i += 32) {
    storeAt(out + 2 * i, f16OfE4m3Low(loadAt(in + i)));
    storeAt(out + 2 * i + 1, f16OfE4m3High(loadAt(in + i)));
  })",
                                      in, 128);
  for (uint32_t code = 0; code < 256; ++code) {
    auto got = uint16_t(out[code / 2] >> code % 2 * 16);
    if ((code & 0x7f) == 0x7f) {
      EXPECT_EQ(got & 0x7fff, 0x7fff);
      continue;
    }
    int exponent = code >> 3 & 15, mantissa = code & 7;
    double size = exponent ? std::ldexp(8 + mantissa, exponent - 10) : std::ldexp(mantissa, -9);
    EXPECT_EQ(valueOfF16(got), code & 0x80 ? -size : size) << code;
  }
}

TEST(Atoms, PackingRoundsToNearestEven) {
  std::vector<uint32_t> in;
  for (float x : {1.0f, 1.0f + 0x1p-11f, 1.0f + 3 * 0x1p-11f, 65504.0f, 65519.0f, 65520.0f,
                  0x1p-25f, 0x1.8p-25f, -2.5f, 0x1p-14f - 0x1p-24f, 1.0f + 0x1p-8f,
                  1.0f + 3 * 0x1p-8f, 0x1.fffp127f, 0x1p-133f, 0x1p-134f, -0.0f})
    in.push_back(std::bit_cast<uint32_t>(x));
  std::vector<uint32_t> out = runWarp(R"(
  if (lane < 16) {
    const f32 x = bitsAs<f32>(loadAt(in + lane));
    storeAt(out + 2 * lane, packF16(x, -x));
    storeAt(out + 2 * lane + 1, packBf16(x, -x));
  })",
                                      in, 32);
  const uint16_t f16[] = {0x3c00, 0x3c00, 0x3c02, 0x7bff, 0x7bff, 0x7c00, 0x0000, 0x0001,
                          0xc100, 0x03ff, 0x3c04, 0x3c0c, 0x7c00, 0x0000, 0x0000, 0x8000};
  const uint16_t bf[] = {0x3f80, 0x3f80, 0x3f80, 0x4780, 0x4780, 0x4780, 0x3300, 0x3340,
                         0xc020, 0x3880, 0x3f80, 0x3f82, 0x7f80, 0x0001, 0x0000, 0x8000};
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(out[2 * i], f16[i] | uint32_t(f16[i] ^ 0x8000) << 16) << i;
    EXPECT_EQ(out[2 * i + 1], bf[i] | uint32_t(bf[i] ^ 0x8000) << 16) << i;
  }
}

TEST(Atoms, Exponential2IsTheNearestFp32) {
  std::vector<uint32_t> in;
  std::mt19937 random(4);
  std::uniform_real_distribution<float> uniform(-130, 130);
  for (int i = 0; i < 1024; ++i)
    in.push_back(std::bit_cast<uint32_t>(i < 32 ? float(i - 16) : uniform(random)));
  std::vector<uint32_t> out = runWarp(R"(
  for (int i = lane; i < 1024; i += 32)
    storeAt(out + i, bitsAs<u32>(exponential2(bitsAs<f32>(loadAt(in + i)))));)",
                                      in, 1024);
  for (size_t i = 0; i < in.size(); ++i) {
    float x = std::bit_cast<float>(in[i]), got = std::bit_cast<float>(out[i]);
    double exact = std::exp2(double(x));
    EXPECT_EQ(got, x < -126 ? 0.0f : float(exact)) << x;
  }
}

TEST(Atoms, Permutations) {
  std::vector<uint32_t> in = {0x33221100u, 0x77665544u, 0x7f80ff00u, 0x807f01feu};
  std::vector<uint32_t> out = runWarp(R"(
  if (lane == 0) {
    storeAt(out, permuteBytes(loadAt(in), loadAt(in + 1), 0x7531u));
    storeAt(out + 1, permuteBytes(loadAt(in), loadAt(in + 1), 0x0246u));
    storeAt(out + 2, permuteBytes(loadAt(in + 2), loadAt(in + 3), 0xba98u));
    storeAt(out + 3, permuteBytes(loadAt(in + 2), loadAt(in + 3), 0xfe5cu));
  })",
                                      in, 4);
  EXPECT_EQ(out[0], 0x77553311u);
  EXPECT_EQ(out[1], 0x00224466u);
  // Signs of bytes 0 … 3; of 4, byte 5, signs of 6 and 7.
  EXPECT_EQ(out[2], 0x00ffff00u);
  EXPECT_EQ(out[3], 0xff0001ffu);
}

TEST(Atoms, ShufflesAndVotes) {
  std::vector<uint32_t> in(32);
  for (uint32_t i = 0; i < 32; ++i)
    in[i] = i * i + 1;
  std::vector<uint32_t> out = runWarp(R"(
  const u32 own = loadAt(in + lane);
  storeAt(out + lane, __shfl_sync(~0u, own, (lane * 7 + 3) % 32));
  storeAt(out + 32 + lane, __shfl_xor_sync(~0u, own, 5));
  storeAt(out + 64 + lane, __shfl_down_sync(~0u, own, 3));
  storeAt(out + 96 + lane, __shfl_up_sync(~0u, own, 3));
  storeAt(out + 128 + lane, __shfl_sync(~0u, own, 2, 8));
  storeAt(out + 160 + lane, __ballot_sync(~0u, own % 3 == 0));
  storeAt(out + 192 + lane, (u32)__any_sync(~0u, lane == 9) + 2 * (u32)__all_sync(~0u, lane < 31));)",
                                      in, 224);
  uint32_t ballot = 0;
  for (uint32_t i = 0; i < 32; ++i)
    ballot |= uint32_t(in[i] % 3 == 0) << i;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(out[lane], in[(lane * 7 + 3) % 32]);
    EXPECT_EQ(out[32 + lane], in[lane ^ 5]);
    EXPECT_EQ(out[64 + lane], in[lane + 3 < 32 ? lane + 3 : lane]);
    EXPECT_EQ(out[96 + lane], in[lane >= 3 ? lane - 3 : lane]);
    EXPECT_EQ(out[128 + lane], in[lane / 8 * 8 + 2]);
    EXPECT_EQ(out[160 + lane], ballot);
    EXPECT_EQ(out[192 + lane], 1u);
  }
}

} // namespace
