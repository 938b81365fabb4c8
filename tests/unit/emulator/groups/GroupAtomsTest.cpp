// Products of four warps with rows in shared memory, from packing to sums, in the emulator against
// sums in FP64.
//
// Operands are BF16, products exact. An instruction adds 16 products to the sum, each cut at 2^-25
// of the largest of them (m3emu::fusedSum), the result to FP32: each of 4 instructions on terms
// with Σ|term| = t loses at most (17 · 2^-25 + 2^-23) · t < 11 · 2^-24 · t.
#include "tests/unit/emulator/Bench.h"

#include "runtime/base/Formats.h"

#include <bit>
#include <cmath>
#include <random>

using namespace m3c;
using namespace m3c::test;

namespace {

/// x [rows, 64], w [64, 64] and sums [N, 64] row by row. The left operand comes from w as
/// fragments.h says: of 64 k lane t of a row has the 16 from 16t on, four in each instruction.
constexpr const char *text = R"(#include "tile.h"
extern "C" __global__ __launch_bounds__(160) void product(const u16 *x, const u16 *w,
                                                          const u64 *rows, u16 *packed,
                                                          f32 *sums) {
  auto ring = AsyncRing<u16, 1, COLUMNS * 64, 4>((u16 *)sharedMemory());
  if (warpId() == 4)
    for (i64 r = 0; r < COLUMNS; r += 8)
      packRows<8>(RowsInTurn{x + r * 64, 64}, (i64)loadAt(rows) - r, packed + r * 64);
  barrier();
  if (warpId() < 4) {
    const int g = laneId() / 4, t = laneId() % 4;
    FragmentA a;
    for (int s = 0; s < 4; ++s)
      for (int i = 0; i < 4; ++i)
        a.v[s][i] = loadAt((const u32 *)w + ((16 * warpId() + g + i % 2 * 8) * 64 + 16 * t +
                                             4 * s + i / 2 * 2) / 2);
    auto acc = fill<FragmentAcc<COLUMNS>>(1.0f);
    auto stage = ring.wait(0);
    acc = awaitShared<0>(mmaShared(a, stage, acc));
    storeTransposed(acc, sums + 16 * warpId(), 64);
  } else {
    ring.acquire(0);
    ring.fill(0, packed);
  }
}
)";

class GroupAtoms : public testing::TestWithParam<int> {};

TEST_P(GroupAtoms, PackedRowsTimesFragments) {
  const int columns = GetParam(), rows = columns - 3;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  auto codes = [&](int count) {
    std::vector<uint16_t> values(size_t(count) * 64);
    for (uint16_t &value : values)
      value = uint16_t(std::bit_cast<uint32_t>(formats::roundToBf16(normal(random))) >> 16);
    return values;
  };
  auto value = [](uint16_t code) { return double(std::bit_cast<float>(uint32_t(code) << 16)); };
  std::vector<uint16_t> x = codes(rows), w = codes(64);
  std::vector<std::byte> given[] = {bytesOf(x), bytesOf(w),
                                    bytesOf(std::vector<uint64_t>{uint64_t(rows)})};
  std::vector<std::byte> packed(size_t(columns) * 128), sums(size_t(columns) * 64 * 4);
  runEmulated({"product", "#define COLUMNS " + std::to_string(columns) + "\n" + text, 160,
               uint64_t(columns) * 128 + 16},
              {&given[0], &given[1], &given[2], &packed, &sums});
  std::vector<float> found = valuesOf<float>(sums);
  for (int n = 0; n < columns; ++n)
    for (int m = 0; m < 64; ++m) {
      double sum = 1, size = 1;
      for (int k = 0; k < 64 && n < rows; ++k) {
        double term = value(w[size_t(m * 64 + k)]) * value(x[size_t(n * 64 + k)]);
        sum += term, size += std::fabs(term);
      }
      ASSERT_NEAR(found[size_t(n * 64 + m)], sum, 44 * 0x1p-24 * size) << n << ", " << m;
    }
}

INSTANTIATE_TEST_SUITE_P(Emulator, GroupAtoms, testing::Values(64, 128, 256));

} // namespace
