// Instructions of tensor memory in the emulator, against vectors from an outside simulator
// (tests/data/atoms).
#include "tests/unit/emulator/Bench.h"
#include "tests/unit/emulator/Vectors.h"

#include "runtime/base/Formats.h"

#include <bit>
#include <cmath>
#include <set>

using namespace m3c;
using namespace m3c::test;

namespace {

enum Element { E4m3, F16, Bf16 };

/// Numbers of one case, as the README of the data says.
struct Case {
  uint64_t element, aInTensor, m, n, k, a, b, instruction, accumulate, d, aColumn, imageBytes, fill,
      operands;
};

double valueOf(Element element, unsigned code) {
  auto parts = [&](int exponentBits, int mantissaBits) {
    int exponent = int(code >> mantissaBits) & ((1 << exponentBits) - 1);
    int mantissa = int(code) & ((1 << mantissaBits) - 1), bias = (1 << (exponentBits - 1)) - 1;
    bool last = exponent == (1 << exponentBits) - 1;
    double size = std::ldexp(exponent ? mantissa + (1 << mantissaBits) : mantissa,
                             std::max(exponent, 1) - bias - mantissaBits);
    if (element == E4m3 ? last && mantissa == 7 : last)
      size = mantissa ? NAN : INFINITY;
    return code >> (exponentBits + mantissaBits) & 1 ? -size : size;
  };
  return element == E4m3 ? parts(4, 3) : element == F16 ? parts(5, 10) : parts(8, 7);
}

constexpr unsigned lanes = 128, columns = 512;
constexpr uint32_t imageRoom = 64 * 1024;

/// Fills shared and tensor memory, multiplies once, shows all tensor memory.
constexpr const char *productText = R"(#include "tile.h"
extern "C" __global__ void product(const u32 *image, const u32 *before, const u64 *numbers,
                                   u32 *after) {
  u32 *shared = (u32 *)sharedMemory();
  u64 *ended = (u64 *)(sharedMemory() + 64 * 1024);
  u32 *address = (u32 *)(ended + 1);
  const int words = (int)(loadAt(numbers + 11) / 4);
  for (int i = threadIdx.x; i < words; i += 128)
    storeAt(shared + i, loadAt(image + i));
  fenceForProducts();
  if (threadIdx.x < 32)
    tensorAllocate(address, 512);
  if (threadIdx.x == 0) {
    initBarrier(ended, 1);
    fenceBarriers();
  }
  barrier();
  const u32 base = loadAt(address), own = base + ((threadIdx.x / 32 * 32) << 16);
  for (int c = 0; c < 512; c += 32) {
    u32 v[32];
    for (int i = 0; i < 32; ++i)
      v[i] = loadAt(before + (c + i) * 128 + threadIdx.x);
    tensorStore(own + c, v);
  }
  waitTensorStores();
  tensorFenceBefore();
  barrier();
  if (threadIdx.x == 0) {
    tensorFenceAfter();
    const u32 d = base + (u32)loadAt(numbers + 9), left = base + (u32)loadAt(numbers + 10);
    const u64 a = loadAt(numbers + 5), b = loadAt(numbers + 6);
    const u32 instruction = (u32)loadAt(numbers + 7);
    const bool accumulate = loadAt(numbers + 8) != 0;
    if (loadAt(numbers) == 0) {
      if (loadAt(numbers + 1))
        tensorMmaE4m3(d, left, b, instruction, accumulate);
      else
        tensorMmaE4m3(d, a, b, instruction, accumulate);
    } else if (loadAt(numbers + 1)) {
      tensorMmaF16(d, left, b, instruction, accumulate);
    } else {
      tensorMmaF16(d, a, b, instruction, accumulate);
    }
    tensorCommit(ended);
  }
  while (!phaseEnded(ended, 0)) {
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
  barrier();
  if (threadIdx.x < 32) {
    tensorFenceAfter();
    tensorFree(base, 512);
  }
}
)";

unsigned laneOf(const Case &numbers, uint64_t row) {
  return unsigned(numbers.m == 64 ? row / 16 * 32 + row % 16 : row);
}

/// Words [column][lane] before the product.
std::vector<uint32_t> tensorBefore(const Vectors &vectors, const std::string &name,
                                   const Case &numbers) {
  std::vector<uint32_t> words(size_t(lanes) * columns, uint32_t(numbers.fill));
  auto place = [&](const std::string &what, uint64_t first, uint64_t count) {
    std::vector<uint32_t> given = vectors.get<uint32_t>(name + what);
    for (uint64_t row = 0; row < numbers.m; ++row)
      for (uint64_t i = 0; i < count; ++i)
        words[(first + i) * lanes + laneOf(numbers, row)] = given[row * count + i];
  };
  if (numbers.accumulate)
    place(".d_in", numbers.d, numbers.n);
  if (numbers.aInTensor)
    place(".a_tmem", numbers.aColumn, 8);
  return words;
}

/// Codes of an operand, by row.
std::vector<unsigned> codes(const Vectors &vectors, const std::string &name, Element element) {
  std::vector<unsigned> all;
  if (element == E4m3)
    for (uint8_t code : vectors.get<uint8_t>(name))
      all.push_back(code);
  else
    for (uint16_t code : vectors.get<uint16_t>(name))
      all.push_back(code);
  return all;
}

void compare(const Vectors &vectors, const std::string &name, const Case &numbers,
             const std::vector<uint32_t> &before, std::vector<uint32_t> after) {
  auto element = Element(numbers.element);
  std::vector<unsigned> a = codes(vectors, name + ".a", element);
  std::vector<unsigned> b = codes(vectors, name + ".b", element);
  std::vector<uint32_t> stored = vectors.get<uint32_t>(name + ".d");
  for (uint64_t row = 0; row < numbers.m; ++row)
    for (uint64_t i = 0; i < numbers.n; ++i) {
      size_t at = (numbers.d + i) * lanes + laneOf(numbers, row);
      double sum = numbers.accumulate ? std::bit_cast<float>(before[at]) : 0, size = std::fabs(sum);
      for (uint64_t k = 0; k < numbers.k; ++k) {
        double term =
            valueOf(element, a[row * numbers.k + k]) * valueOf(element, b[i * numbers.k + k]);
        sum += term;
        size += std::fabs(term);
      }
      uint32_t word = after[at];
      float got = std::bit_cast<float>(word);
      after[at] = before[at];
      if (numbers.operands == 1)
        ASSERT_EQ(word, stored[row * numbers.n + i]) << name << " " << row << " " << i;
      else if (std::isfinite(sum) && size < 3e38)
        ASSERT_NEAR(got, sum, double(numbers.k + 1) * 0x1p-24 * size)
            << name << " " << row << " " << i;
      else
        ASSERT_EQ(std::isnan(got), std::isnan(std::bit_cast<float>(stored[row * numbers.n + i])))
            << name << " " << row << " " << i;
    }
  EXPECT_EQ(after, before) << name << ": other words have changed";
}

TEST(TensorAtoms, Products) {
  Vectors vectors("tensor_mma");
  std::set<uint64_t> elements;
  for (const std::string &name : vectors.cases()) {
    std::vector<uint64_t> list = vectors.get<uint64_t>(name + ".case");
    Case numbers;
    static_assert(sizeof numbers == 14 * 8);
    ASSERT_EQ(list.size(), 14u);
    std::memcpy(&numbers, list.data(), sizeof numbers);
    elements.insert(numbers.element * 2 + numbers.aInTensor);
    std::vector<uint8_t> image = vectors.get<uint8_t>(name + ".smem");
    std::vector<uint32_t> before = tensorBefore(vectors, name, numbers);
    std::vector<std::byte> given[] = {bytesOf(image), bytesOf(before), bytesOf(list)};
    std::vector<std::byte> after(before.size() * 4);
    runEmulated({"product", productText, 128, imageRoom + 16, {1, 1, 1}, 1, "sm100"},
                {&given[0], &given[1], &given[2], &after});
    compare(vectors, name, numbers, before, valuesOf<uint32_t>(after));
  }
  EXPECT_EQ(elements.size(), 6u);
}

TEST(TensorAtoms, LoadsFollowTheTable) {
  Vectors vectors("tensor_load");
  std::vector<uint32_t> in(size_t(lanes) * 32);
  for (uint32_t i = 0; i < in.size(); ++i)
    in[i] = i * 2654435761u;
  for (int count : {16, 32}) {
    std::string text = R"(#include "tile.h"
extern "C" __global__ void loads(const u32 *in, u32 *out) {
  u32 *address = (u32 *)sharedMemory();
  if (threadIdx.x < 32)
    tensorAllocate(address, 32);
  barrier();
  const u32 base = loadAt(address) + ((threadIdx.x / 32 * 32) << 16);
  for (int c = 0; c < 32; c += COUNT) {
    u32 v[COUNT];
    for (int i = 0; i < COUNT; ++i)
      v[i] = loadAt(in + threadIdx.x * 32 + c + i);
    tensorStore(base + c, v);
  }
  waitTensorStores();
  u32 v[COUNT];
  tensorLoad(v, base);
  waitTensorLoads(v);
  for (int i = 0; i < COUNT; ++i)
    storeAt(out + threadIdx.x * COUNT + i, v[i]);
  tensorFenceBefore();
  barrier();
  tensorFenceAfter();
  if (threadIdx.x < 32)
    tensorFree(loadAt(address), 32);
}
)";
    text = "#define COUNT " + std::to_string(count) + "\n" + text;
    std::vector<std::byte> given = bytesOf(in), out(size_t(lanes) * unsigned(count) * 4);
    runEmulated({"loads", text, 128, 16, {1, 1, 1}, 1, "sm100"}, {&given, &out});
    std::string name = "x" + std::to_string(count);
    auto lane = vectors.get<int32_t>(name + ".lane"), column = vectors.get<int32_t>(name + ".col");
    ASSERT_EQ(lane.size(), size_t(32 * count));
    std::vector<uint32_t> got = valuesOf<uint32_t>(out);
    for (size_t thread = 0; thread < lanes; ++thread)
      for (size_t i = 0; i < size_t(count); ++i) {
        size_t at = thread % 32 * size_t(count) + i;
        ASSERT_EQ(got[thread * size_t(count) + i],
                  in[(thread / 32 * 32 + size_t(lane[at])) * 32 + size_t(column[at])]);
      }
  }
}

TEST(TensorAtoms, EveryProductOfCodes) {
  auto table = Vectors("multiply_e2m1_e4m3").get<uint8_t>("satfinite");
  std::vector<uint32_t> in(256), expected(256 * 4);
  // Four E2M1 codes at once, each with one E4M3 code.
  std::vector<std::byte> out(256 * 4 * 4);
  std::vector<std::byte> given = bytesOf(in);
  runEmulated({"products",
               R"(#include "tile.h"
extern "C" __global__ void products(const u32 *, u32 *out) {
  for (u32 scale = threadIdx.x; scale < 256; scale += 32)
    for (u32 part = 0; part < 4; ++part) {
      const u32 first = 4 * part;
      const u16 codes = (u16)(first | (first + 1) << 4 | (first + 2) << 8 | (first + 3) << 12);
      storeAt(out + scale * 4 + part, multiplyE2m1E4m3(codes, scale * 0x01010101u));
    }
}
)",
               32,
               0,
               {1, 1, 1},
               1,
               "sm100"},
              {&given, &out});
  for (unsigned scale = 0; scale < 256; ++scale)
    for (unsigned code = 0; code < 16; ++code) {
      auto got = uint8_t(out[(scale * 4 + code / 4) * 4 + code % 4]);
      uint8_t wanted = table[code * 256 + scale];
      if ((wanted & 0x7f) == 0x7f) // NaN of any sign
        EXPECT_EQ(got & 0x7f, 0x7f) << code << " " << scale;
      else
        EXPECT_EQ(got, wanted) << code << " " << scale;
    }
}

} // namespace
