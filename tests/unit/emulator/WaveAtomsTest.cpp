// Instructions of waves of 64 lanes in the emulator, against vectors from an outside model and from
// public definitions (tests/data/atoms).
#include "tests/unit/emulator/Bench.h"
#include "tests/unit/emulator/Vectors.h"

#include "runtime/base/Formats.h"

#include <bit>
#include <cmath>
#include <random>

using namespace m3c;
using namespace m3c::test;

namespace {

constexpr size_t lanes = 64;

/// Runs one wave: `body` sees lane, `in` and `out`, words.
std::vector<uint32_t> runWave(const std::string &body, const std::vector<uint32_t> &in,
                              size_t outWords, uint64_t sharedBytes = 0) {
  std::string text = "#include \"tile.h\"\n"
                     "extern \"C\" __global__ M3_THREADS(64) void atom(const u32 *in, u32 *out) {\n"
                     "  const int lane = laneId();\n" +
                     body + "\n}\n";
  std::vector<std::byte> input = bytesOf(in), output(outWords * 4);
  BenchKernel kernel = {"atom", text, lanes, sharedBytes};
  kernel.target = "gfx950";
  runEmulated(kernel, {&input, &output});
  return valuesOf<uint32_t>(output);
}

const Vectors &vectors() {
  static const Vectors all("gfx950");
  return all;
}

//===- Matrix instructions --------------------------------------------------------------------===//

/// [case, lane, register] of a, b, c, `registers` each of a and b.
void compareProducts(const std::string &name, const std::string &function, size_t registers) {
  auto a = vectors().get<uint32_t>(name + ".a"), b = vectors().get<uint32_t>(name + ".b");
  auto c = vectors().get<uint32_t>(name + ".c");
  auto ref = vectors().get<float>(name + ".ref");
  auto mexp = vectors().get<uint8_t>(name + ".mexp");
  size_t cases = ref.size() / (lanes * 4), wrong = 0, compared = 0;
  ASSERT_EQ(a.size(), cases * lanes * registers);
  std::vector<uint32_t> in = a;
  in.insert(in.end(), b.begin(), b.end());
  in.insert(in.end(), c.begin(), c.end());
  std::string n = std::to_string(registers);
  std::string body = "  const int cases = " + std::to_string(cases) + ";\n" + R"(
  const u32 *b = in + cases * 64 * )" +
                     n + R"(, *c = b + cases * 64 * )" + n + R"(;
  for (int i = 0; i < cases; ++i) {
    u32 left[)" + n + R"(], right[)" +
                     n + R"(];
    f32 acc[4];
    for (int r = 0; r < )" +
                     n + R"(; ++r) {
      left[r] = loadAt(in + (i * 64 + lane) * )" +
                     n + R"( + r);
      right[r] = loadAt(b + (i * 64 + lane) * )" +
                     n + R"( + r);
    }
    for (int r = 0; r < 4; ++r)
      acc[r] = bitsAs<f32>(loadAt(c + (i * 64 + lane) * 4 + r));
    )" + function + R"((acc, left, right);
    for (int r = 0; r < 4; ++r)
      storeAt(out + (i * 64 + lane) * 4 + r, bitsAs<u32>(acc[r]));
  })";
  std::vector<uint32_t> out = runWave(body, in, ref.size());
  for (size_t i = 0; i < ref.size(); ++i) {
    float d = std::bit_cast<float>(out[i]);
    if (mexp[i] == 255) // depends on the order of additions
      continue;
    ++compared;
    bool exact = i < lanes * 4; // the first case: small integers
    bool same = std::isnan(ref[i]) ? std::isnan(d)
                : std::isinf(ref[i]) || exact
                    ? d == ref[i]
                    : std::fabs(double(d) - ref[i]) <= std::ldexp(1.0, -19 + mexp[i] - 127);
    wrong += !same;
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(compared, ref.size() / 2);
}

TEST(WaveAtoms, MfmaF16) { compareProducts("mfma_f16", "mfmaF16", 4); }
TEST(WaveAtoms, MfmaE4m3) { compareProducts("mfma_e4m3", "mfmaE4m3", 8); }

/// The vectors cannot see a k that both operands have in another order; which k an element has is
/// told by products of operands that each hold one element.
TEST(WaveAtoms, PlacesOfElements) {
  // Left: element j of lane 16g + r is row r, k = 64 (j / 16) + 16 g + j % 16; right alike.
  std::string body = R"(
  for (int i = 0; i < 32; ++i) {
    u32 a[8] = {}, b[8] = {};
    f32 acc[4] = {};
    const int left = loadAt(in + 4 * i), j = loadAt(in + 4 * i + 1);
    const int right = loadAt(in + 4 * i + 2), l = loadAt(in + 4 * i + 3);
    if (lane == left)
      a[j / 4] = 0x38u << 8 * (j % 4);
    if (lane == right)
      b[l / 4] = 0x38u << 8 * (l % 4);
    mfmaE4m3(acc, a, b);
    for (int r = 0; r < 4; ++r)
      storeAt(out + (i * 64 + lane) * 4 + r, bitsAs<u32>(acc[r]));
  })";
  std::mt19937 random(7);
  std::vector<uint32_t> in;
  for (int i = 0; i < 32; ++i) {
    uint32_t left = random() % 64, j = random() % 32, right = random() % 16, l = j;
    if (i % 2 == 0)
      right += left / 16 * 16; // the same k
    else
      right += (left / 16 + 1) % 4 * 16;
    in.insert(in.end(), {left, j, right, l});
  }
  std::vector<uint32_t> out = runWave(body, in, 32 * lanes * 4);
  for (size_t i = 0; i < 32; ++i) {
    uint32_t row = in[4 * i] % 16, column = in[4 * i + 2] % 16;
    for (size_t lane = 0; lane < lanes; ++lane)
      for (size_t r = 0; r < 4; ++r) {
        bool here = i % 2 == 0 && lane / 16 * 4 + r == row && lane % 16 == column;
        EXPECT_EQ(std::bit_cast<float>(out[(i * lanes + lane) * 4 + r]), here ? 1.0f : 0.0f);
      }
  }
}

//===- Codes and numbers ----------------------------------------------------------------------===//

TEST(WaveAtoms, PermuteBytes) {
  auto x = vectors().get<uint32_t>("perm.x"), y = vectors().get<uint32_t>("perm.y");
  std::vector<uint32_t> in, want;
  for (size_t i = 0; i < y.size(); ++i)
    if (!(x[3 * i + 2] & 0xf8f8f8f8)) { // selectors that kernels use
      in.insert(in.end(), {x[3 * i + 1], x[3 * i], x[3 * i + 2]});
      want.push_back(y[i]);
    }
  ASSERT_GE(want.size(), 32u);
  std::string count = std::to_string(want.size());
  std::vector<uint32_t> out = runWave("  for (int i = lane; i < " + count + R"(; i += 64)
    storeAt(out + i, permuteBytes(loadAt(in + 3 * i), loadAt(in + 3 * i + 1), loadAt(in + 3 * i + 2)));)",
                                      in, want.size());
  EXPECT_EQ(out, want);
}

/// `pairs` of inputs to one word each; compared where firm.
void comparePairs(const std::vector<uint32_t> &x, size_t step, const std::vector<uint8_t> &firm,
                  const std::vector<uint32_t> &want, const std::string &function) {
  std::vector<uint32_t> in;
  for (size_t i = 0; i < want.size(); ++i)
    in.insert(in.end(), {x[step * i], x[step * i + 1]});
  std::vector<uint32_t> out = runWave(
      "  for (int i = lane; i < " + std::to_string(want.size()) +
          R"(; i += 64)
    storeAt(out + i, )" +
          function + R"((bitsAs<f32>(loadAt(in + 2 * i)), bitsAs<f32>(loadAt(in + 2 * i + 1))));)",
      in, want.size());
  size_t compared = 0;
  for (size_t i = 0; i < want.size(); ++i)
    if (firm[i]) {
      EXPECT_EQ(out[i], want[i]) << std::hex << in[2 * i] << " " << in[2 * i + 1];
      ++compared;
    }
  EXPECT_GT(compared, want.size() / 2);
}

TEST(WaveAtoms, PackE4m3) {
  // Where the destination's other half is kept, `ref` has it; the atom clears it.
  auto want = vectors().get<uint32_t>("fp8.ref_ovfl0");
  for (uint32_t &word : want)
    word &= 0xffff;
  comparePairs(vectors().get<uint32_t>("fp8.x"), 3, vectors().get<uint8_t>("fp8.firm"), want,
               "packE4m3");
}
TEST(WaveAtoms, PackE4m3BeyondItsRangeIsNan) {
  std::vector<float> x = {464.0f, 464.5f, -1e9f, INFINITY};
  std::vector<uint32_t> in;
  for (float value : x)
    in.push_back(std::bit_cast<uint32_t>(value));
  std::vector<uint32_t> out = runWave(R"(  if (lane < 4)
    storeAt(out + lane, packE4m3(bitsAs<f32>(loadAt(in + lane)), 0.0f));)",
                                      in, 4);
  EXPECT_EQ(out, (std::vector<uint32_t>{0x7e, 0x7f, 0xff, 0x7f}));
}
TEST(WaveAtoms, PackBf16) {
  comparePairs(vectors().get<uint32_t>("bf16.x"), 2, vectors().get<uint8_t>("bf16.firm"),
               vectors().get<uint32_t>("bf16.y"), "packBf16");
}

TEST(WaveAtoms, F16OfE4m3) {
  for (int word = 0; word < 2; ++word) {
    std::string name = "f16_of_fp8.word" + std::to_string(word);
    auto x = vectors().get<uint32_t>(name + ".x"), y = vectors().get<uint32_t>(name + ".y");
    auto firm = vectors().get<uint8_t>(name + ".firm");
    std::vector<uint32_t> in, want;
    for (size_t i = 0; i < y.size(); ++i)
      if (firm[i] && (x[2 * i + 1] >> 23 & 255) == 127) { // a scale of 1
        in.push_back(x[2 * i]);
        want.push_back(y[i]);
      }
    ASSERT_GE(want.size(), 10u);
    std::string count = std::to_string(want.size());
    std::vector<uint32_t> out =
        runWave("  for (int i = lane; i < " + count + "; i += 64)\n    storeAt(out + i, " +
                    (word ? "f16OfE4m3High" : "f16OfE4m3Low") + "(loadAt(in + i)));",
                in, want.size());
    EXPECT_EQ(out, want);
  }
}

//===- Lanes ----------------------------------------------------------------------------------===//

/// Which lane's value each lane gets: inputs are the lane numbers, of a second register 64 + lane.
void compareLanes(const std::string &name, const std::string &expression) {
  auto table = vectors().get<int16_t>("lanes." + name);
  std::vector<uint32_t> out =
      runWave("  u32 a = lane, b = 64 + lane;\n  " + expression + "\n  storeAt(out + lane, a);",
              {0}, lanes);
  for (size_t lane = 0; lane < lanes; ++lane)
    EXPECT_EQ(int(out[lane]), table[lane]) << name << ", lane " << lane;
}

TEST(WaveAtoms, RotatedRow) {
  for (int n : {1, 2, 4, 8})
    compareLanes("row_ror" + std::to_string(n), "a = rotatedRow<" + std::to_string(n) + ">(a);");
}
TEST(WaveAtoms, SwapRows) {
  compareLanes("v_permlane16_swap.result0", "swapRows(a, b);");
  compareLanes("v_permlane16_swap.result1", "swapRows(a, b); a = b;");
}
TEST(WaveAtoms, SwapHalves) {
  compareLanes("v_permlane32_swap.result0", "swapHalves(a, b);");
  compareLanes("v_permlane32_swap.result1", "swapHalves(a, b); a = b;");
}
TEST(WaveAtoms, ValueOfFirst) { compareLanes("v_readfirstlane", "a = valueOfFirst(a);"); }

TEST(WaveAtoms, ValueOfLane) {
  auto x = vectors().get<uint32_t>("bpermute.x"), addr = vectors().get<uint32_t>("bpermute.addr");
  std::vector<uint32_t> in = x;
  in.insert(in.end(), addr.begin(), addr.end());
  std::vector<uint32_t> out = runWave(R"(  for (int i = 0; i < 6; ++i)
    storeAt(out + i * 64 + lane, valueOfLane(loadAt(in + i * 64 + lane), loadAt(in + (6 + i) * 64 + lane) / 4));)",
                                      in, x.size());
  EXPECT_EQ(out, vectors().get<uint32_t>("bpermute.y"));
}

TEST(WaveAtoms, LanesThat) {
  auto x = vectors().get<uint32_t>("ballot.x"), y = vectors().get<uint32_t>("ballot.y");
  std::vector<uint32_t> out = runWave(R"(  for (int i = 0; i < 4; ++i) {
    const u64 all = lanesThat(loadAt(in + i * 64 + lane) & 1);
    storeAt(out + (i * 64 + lane) * 2, (u32)all);
    storeAt(out + (i * 64 + lane) * 2 + 1, (u32)(all >> 32));
  })",
                                      x, 2 * x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(out[2 * i], y[3 * i]);
    EXPECT_EQ(out[2 * i + 1], y[3 * i + 1]);
  }
}

//===- Memory ---------------------------------------------------------------------------------===//

TEST(WaveAtoms, CopyToShared) {
  auto bytes = vectors().get<uint8_t>("load_lds.bytes");
  for (int m0 : {0, 256}) {
    std::string name = "load_lds.g16_" + std::to_string(m0) + "_0_0";
    auto addr = vectors().get<uint32_t>(name + ".addr");
    auto map = vectors().get<int16_t>(name + ".map");
    std::vector<uint32_t> in(1024 + lanes);
    std::memcpy(in.data(), bytes.data(), 4096);
    std::copy(addr.begin(), addr.end(), in.begin() + 1024);
    std::vector<uint32_t> out = runWave(R"(  u8 *const shared = sharedMemory();
  for (int i = lane; i < 1024; i += 64)
    storeAt((u32 *)shared + i, 0u);
  warpBarrier();
  copyToShared(shared + )" + std::to_string(m0) +
                                            R"(, (const u8 *)in + loadAt(in + 1024 + lane));
  waitForCopies();
  warpBarrier();
  for (int i = lane; i < 1024; i += 64)
    storeAt(out + i, loadAt((u32 *)shared + i));)",
                                        in, 1024, 4096);
    auto *got = reinterpret_cast<const uint8_t *>(out.data());
    for (size_t i = 0; i < 4096; ++i)
      ASSERT_EQ(got[i], map[i] < 0 ? 0 : bytes[size_t(map[i])]) << "byte " << i;
  }
}

/// The table and the lookup of four codes at a time, as the device headers have them.
TEST(WaveAtoms, CodesByTable) {
  auto codes = vectors().get<uint16_t>("lookup.codes");
  auto scale = vectors().get<uint8_t>("lookup.scale");
  auto want = vectors().get<uint32_t>("lookup.y");
  auto table = vectors().get<uint8_t>("lookup.table");
  std::vector<uint32_t> in;
  for (size_t i = 0; i < codes.size(); ++i)
    in.push_back(uint32_t(codes[i]) | uint32_t(scale[i]) << 16);
  std::vector<uint32_t> out = runWave(R"(  u8 *const table = sharedMemory();
  fillCodeTable<0, 1>(table);
  barrier();
  for (int i = lane; i < 4096; i += 64) {
    const u32 word = loadAt(in + i);
    u32 two[2];
    codesByTable(word & 0xffffu, tableRow(table, word >> 16), two);
    // Even codes in the first word, odd ones in the second.
    storeAt(out + i, (two[0] & 0xff) | (two[1] & 0xff) << 8 | (two[0] & 0xff00) << 8 |
                         (two[1] & 0xff00) << 16);
  }
  for (int i = lane; i < 512; i += 64)
    storeAt(out + 4096 + i, loadAt((u32 *)table + i));)",
                                      in, 4096 + 512, 2048);
  auto isNan = [](uint8_t code) { return (code & 0x7f) == 0x7f; };
  auto *got = reinterpret_cast<const uint8_t *>(out.data());
  auto *wanted = reinterpret_cast<const uint8_t *>(want.data());
  for (size_t i = 0; i < 4096 * 4; ++i)
    if (!isNan(got[i]) || !isNan(wanted[i])) // the sign of a NaN is nobody's business
      ASSERT_EQ(int(got[i]), int(wanted[i])) << "code " << i % 4 << " of vector " << i / 4;
  for (size_t i = 0; i < table.size(); ++i)
    if (!isNan(got[4096 * 4 + i]) || !isNan(table[i]))
      ASSERT_EQ(int(got[4096 * 4 + i]), int(table[i])) << "row " << i / 8;
}

} // namespace
