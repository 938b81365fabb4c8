// Products of two work items of a cluster in the emulator, against vectors from an outside
// simulator (tests/data/atoms).
#include "tests/unit/emulator/Bench.h"
#include "tests/unit/emulator/Vectors.h"

#include <set>

using namespace m3c;
using namespace m3c::test;

namespace {

/// Numbers of one case, as the README of the data says.
struct Case {
  uint64_t element, m, n, k, a, b, instruction, accumulate, d, imageBytes, fill;
};

constexpr unsigned lanes = 128, columns = 512;
constexpr uint32_t imageRoom = 20 * 1024;
constexpr unsigned leftColumn = 256; ///< of a left operand in tensor memory

/// Fills shared and tensor memory of both, multiplies once, shows all tensor memory.
constexpr const char *productText = R"(#include "tile.h"
extern "C" __global__ void product(const u32 *image, const u32 *before, const u64 *numbers,
                                   u32 *after) {
  u32 *shared = (u32 *)sharedMemory();
  u64 *ended = (u64 *)(sharedMemory() + 20 * 1024);
  u32 *address = (u32 *)(ended + 1);
  const int words = (int)(loadAt(numbers + 9) / 4), rank = (int)rankInCluster();
  for (int i = threadIdx.x; i < words; i += 128)
    storeAt(shared + i, loadAt(image + rank * words + i));
  fenceForProducts();
  if (threadIdx.x < 32)
    pairAllocate(address, 512);
  if (threadIdx.x == 0) {
    initBarrier(ended, 1);
    fenceBarriers();
  }
  tensorFenceBefore();
  clusterBarrier();
  tensorFenceAfter();
  const u32 base = loadAt(address), own = base + ((threadIdx.x / 32 * 32) << 16);
  before += rank * 512 * 128, after += rank * 512 * 128;
  for (int c = 0; c < 512; c += 32) {
    u32 v[32];
    for (int i = 0; i < 32; ++i)
      v[i] = loadAt(before + (c + i) * 128 + threadIdx.x);
    tensorStore(own + c, v);
  }
  waitTensorStores();
  tensorFenceBefore();
  clusterBarrier();
  if (rank == 0 && threadIdx.x == 0) {
    tensorFenceAfter();
    const u32 d = base + (u32)loadAt(numbers + 8), instruction = (u32)loadAt(numbers + 6);
    const u64 a = loadAt(numbers + 4), b = loadAt(numbers + 5);
    const bool accumulate = loadAt(numbers + 7) != 0;
#if defined(LEFT_IN_TENSOR_MEMORY)
    pairMmaE4m3(d, base + 256, b, instruction, accumulate);
#else
    multiplyTensor(d, false, a, b, instruction, accumulate, loadAt(numbers) != 0, true);
#endif
    pairCommit(ended, 3);
  }
  while (!phaseEndedInCluster(ended, 0)) {
  }
  tensorFenceAfter();
  for (int c = 0; c < 512; c += 16) {
    u32 v[16];
    tensorLoad(v, own + c);
    waitTensorLoads(v);
    for (int i = 0; i < 16; ++i)
      storeAt(after + (c + i) * 128 + threadIdx.x, v[i]);
  }
  tensorFenceBefore();
  clusterBarrier();
  if (threadIdx.x < 32) {
    tensorFenceAfter();
    pairFree(base, 512);
  }
}
)";

/// The words [work item][column][lane] from `values` [work item][lane][count].
void place(std::vector<uint32_t> &words, const std::vector<uint32_t> &values, uint64_t first,
           uint64_t count) {
  ASSERT_EQ(values.size(), 2 * lanes * count);
  for (uint64_t item = 0; item < 2; ++item)
    for (uint64_t lane = 0; lane < lanes; ++lane)
      for (uint64_t i = 0; i < count; ++i)
        words[(item * columns + first + i) * lanes + lane] =
            values[(item * lanes + lane) * count + i];
}

void multiply(const Vectors &vectors, const std::string &name, const Case &numbers,
              bool leftInTensor) {
  SCOPED_TRACE(name + (leftInTensor ? ", left operand in tensor memory" : ""));
  // Of 128 rows each work item has 64, and half of the columns in the upper lanes.
  const uint64_t width = numbers.m == 256 ? numbers.n : numbers.n / 2;
  std::vector<uint32_t> before(size_t(2) * columns * lanes, uint32_t(numbers.fill));
  if (numbers.accumulate)
    place(before, vectors.get<uint32_t>(name + ".d_in"), numbers.d, width);
  if (leftInTensor)
    place(before, vectors.get<uint32_t>(name + ".a"), leftColumn, 8);
  std::vector<uint32_t> expected = before;
  place(expected, vectors.get<uint32_t>(name + ".d"), numbers.d, width);
  std::vector<uint8_t> image = vectors.get<uint8_t>(name + ".smem");
  std::vector<uint64_t> list = vectors.get<uint64_t>(name + ".case");
  std::vector<std::byte> given[] = {bytesOf(image), bytesOf(before), bytesOf(list)};
  std::vector<std::byte> after(before.size() * 4);
  std::string text = productText;
  if (leftInTensor)
    text = "#define LEFT_IN_TENSOR_MEMORY\n" + text;
  runEmulated({"product", text, 128, imageRoom + 16, {2, 1, 1}, 2, "sm100"},
              {&given[0], &given[1], &given[2], &after});
  EXPECT_EQ(valuesOf<uint32_t>(after), expected);
}

TEST(PairAtoms, Products) {
  Vectors vectors("tensor_pairs");
  std::set<std::pair<uint64_t, uint64_t>> kinds;
  for (const std::string &name : vectors.cases()) {
    std::vector<uint64_t> list = vectors.get<uint64_t>(name + ".case");
    Case numbers;
    static_assert(sizeof numbers == 11 * 8);
    ASSERT_EQ(list.size(), 11u);
    std::memcpy(&numbers, list.data(), sizeof numbers);
    kinds.emplace(numbers.element, numbers.m);
    multiply(vectors, name, numbers, false);
    if (vectors.has(name + ".a"))
      multiply(vectors, name, numbers, true);
  }
  EXPECT_EQ(kinds.size(), 4u); // two elements, 128 and 256 rows
}

} // namespace
