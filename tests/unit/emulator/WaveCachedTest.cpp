// Cached pages on waves of 64 lanes: scores and weighted values of a page by the device headers'
// operands, against sums of the decoded codes; and the same with operands that lie otherwise than
// the instructions have them, which must show.
#include "tests/unit/emulator/Bench.h"

#include "runtime/base/Formats.h"

#include <bit>
#include <cmath>
#include <random>

using namespace m3c;
using namespace m3c::test;

namespace {

constexpr int tokens = 32, dims = 128, rows = 16;
constexpr size_t slotBytes = tokens * dims / 2 + tokens * dims / 16;

/// Scores [16, 32] and the sums of the values with the scores as weights [16, 128].
constexpr const char *text = R"(#include "tile.h"
#if defined(SwappedOperands)
template <class A, class B, class C> M3_INLINE C product(const A &a, const B &b, C acc) {
  for (auto &columns : acc.v)
    multiply(columns, a.line.v[0], b.line[&columns - acc.v].v[0]);
  return acc;
}
#else
template <class A, class B, class C> M3_INLINE C product(const A &a, const B &b, C acc) {
  return mmaFragments(a, b, acc);
}
#endif
extern "C" __global__ M3_THREADS(64) void page(const u8 *slots, const u16 *query, f32 *scores,
                                               f32 *sums, u8 *order) {
  u8 *const shared = sharedMemory(), *const table = shared + 5120;
  fillCodeTable<0, 1>(table);
  for (int i = laneId(); i < 4608 / 4; i += 64)
    storeAt((u32 *)shared + i, loadAt((const u32 *)slots + i));
  barrier();
  auto q = toE4m3(load<OperandA<bf16, 128>>(query, 128));
#if defined(QueriesInOrder)
  for (int w = 0; w < 8; w += 2) { // codes as they follow each other
    const u32 even = q.line.v[0][w], odd = q.line.v[0][w + 1];
    q.line.v[0][w] = permuteBytes(even, odd, 0x05010400u);
    q.line.v[0][w + 1] = permuteBytes(even, odd, 0x07030602u);
  }
#endif
  const u8 *keys = shared, *values = shared + 2304;
  auto s = product(q, cached_e2m1<OperandB<e4m3, 128, 32>>(keys, keys + 2048, table),
                   fill<FragmentAcc<32>>(0.0f));
  storeRegisters(s, scores);
  auto numbers = iota<ColumnsOfAcc<i32, 32>>();
  for (int e = 0; e < 2; ++e)
    for (int i = 0; i < 4; ++i) {
      const int c = numbers.v[e][i], q = c / 4 % 4;
      storeAt(order + (e * 64 + laneId()) * 4 + i,
#if defined(TokensInOrder)
              c
#else
              8 * q + ((4 * e + c % 4) ^ q)
#endif
      );
    }
  auto p = toOperand(map<FragmentAcc<32>>([](f32 x) { return x * 0x1p-8f; }, s));
  auto v = cached_e2m1<OperandB<f16, 32, 128>>(values, values + 2048, table, (i64)29);
  storeSpread<8>(product(p, v, fill<FragmentAcc<128>>(0.0f)), sums, 128, 16);
}
)";

struct Page {
  std::vector<uint8_t> slots;
  std::vector<double> keys, values, query; ///< decoded
  std::vector<uint16_t> codes;             ///< of the query, BF16
};

/// Random codes and scales; with `quads` scales of values lie in quads of tokens, as they must.
Page makePage(bool quads) {
  std::mt19937 random(11);
  Page page;
  page.slots.resize(2 * slotBytes);
  auto fill = [&](uint8_t *slot, bool values, std::vector<double> &decoded) {
    decoded.resize(tokens * dims);
    for (int t = 0; t < tokens; ++t)
      for (int g = 0; g < dims / 16; ++g) {
        uint8_t scale = uint8_t(0x28 + random() % 0x18);
        bool inQuads = values && quads;
        slot[tokens * dims / 2 + (inQuads ? t / 4 * 32 + g * 4 + t % 4 : t * 8 + g)] = scale;
        for (int d = 16 * g; d < 16 * g + 16; ++d) {
          uint8_t code = uint8_t(random() % 16);
          slot[t * dims / 2 + d / 2] |= uint8_t(code << d % 2 * 4);
          decoded[size_t(t * dims + d)] = formats::roundToE4m3(float(formats::e2m1ToDouble(code)) *
                                                               formats::e4m3ToFloat(scale));
        }
      }
  };
  fill(page.slots.data(), false, page.keys);
  fill(page.slots.data() + slotBytes, true, page.values);
  for (int i = 0; i < rows * dims; ++i) {
    float x = formats::e4m3ToFloat(uint8_t(random() % 0x60 | (random() % 2) << 7));
    page.query.push_back(x);
    page.codes.push_back(uint16_t(std::bit_cast<uint32_t>(x) >> 16));
  }
  return page;
}

/// How many scores and sums are wrong.
std::pair<int, int> wrong(const std::string &fault, bool quads = true) {
  Page page = makePage(quads);
  BenchKernel kernel = {"page", text, 64, 5120 + 2048};
  kernel.target = "gfx950";
  if (!fault.empty())
    kernel.text = "#define " + fault + "\n" + kernel.text;
  std::vector<std::byte> slots = bytesOf(page.slots), query = bytesOf(page.codes);
  std::vector<std::byte> scoreBytes(rows * tokens * 4), sumBytes(rows * dims * 4);
  std::vector<std::byte> order(rows * tokens);
  runEmulated(kernel, {&slots, &query, &scoreBytes, &sumBytes, &order});
  auto scores = valuesOf<float>(scoreBytes), sums = valuesOf<float>(sumBytes);
  std::pair<int, int> faults = {0, 0};
  std::vector<double> exact(rows * tokens);
  for (int e = 0; e < 2; ++e)
    for (int lane = 0; lane < 64; ++lane)
      for (int i = 0; i < 4; ++i) {
        size_t at = size_t((e * 64 + lane) * 4 + i);
        int row = lane % 16, token = int(order[at]);
        double sum = 0; // of at most 128 products, each a multiple of 2^-18 below 2^18: exact
        for (int d = 0; d < dims; ++d)
          sum += page.query[size_t(row * dims + d)] * page.keys[size_t(token * dims + d)];
        faults.first += scores[at] != float(sum);
        exact[size_t(row * tokens + token)] = double(scores[at]);
      }
  for (int row = 0; row < rows; ++row)
    for (int d = 0; d < dims; ++d) {
      double sum = 0, size = 0;
      for (int t = 0; t < 29; ++t) { // those from 29 on are not seen
        double term = exact[size_t(row * tokens + t)] * 0x1p-8 * page.values[size_t(t * dims + d)];
        sum += term;
        size += std::fabs(term);
      }
      // Weights are rounded to FP16: 2^-11 of each term.
      faults.second += !(std::fabs(double(sums[size_t(row * dims + d)]) - sum) <= 0x1p-11 * size);
    }
  return faults;
}

TEST(WaveCached, PageAsItsCodesSay) { EXPECT_EQ(wrong(""), std::pair(0, 0)); }

TEST(WaveCached, SwappedOperandsShow) {
  auto [scores, sums] = wrong("SwappedOperands");
  EXPECT_GT(scores, rows * tokens / 2);
  EXPECT_GT(sums, rows * dims / 2);
}
TEST(WaveCached, QueriesInOrderShow) {
  EXPECT_GT(wrong("QueriesInOrder").first, rows * tokens / 2);
}
TEST(WaveCached, TokensInOrderShow) { EXPECT_GT(wrong("TokensInOrder").first, rows * tokens / 4); }
TEST(WaveCached, ValueScalesAsThoseOfKeysShow) {
  auto [scores, sums] = wrong("", /*quads=*/false);
  EXPECT_EQ(scores, 0);
  EXPECT_GT(sums, rows * dims / 2);
}

} // namespace
