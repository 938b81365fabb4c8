// Weight buffers: every recipe against its sentence in plan.fbs, checkpoints that do not fit,
// faults in values, and the statistics of synthetic weights.
#include "runtime/base/Error.h"
#include "runtime/base/Formats.h"
#include "runtime/drivers/cuda/CudaDriver.h"
#include "runtime/drivers/null/NullDevice.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/weights/CheckpointSource.h"
#include "runtime/weights/WeightBinder.h"
#include "tests/unit/runtime/WeightPlan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

using namespace m3c;
using plan::Recipe;
using test::Piece;
using test::planWith;

namespace {

/// Every byte is a function of the tensor's name and the byte's place.
uint8_t byteOf(std::string_view tensor, uint64_t at) {
  return uint8_t(at * 7 + at / 251 + uint8_t(tensor.back()) * 31);
}

class PatternSource final : public WeightSource {
public:
  void check(const plan::WeightPiece &) const override {}
  void read(const plan::WeightPiece &piece, uint64_t offset,
            std::span<std::byte> to) const override {
    for (size_t i = 0; i < to.size(); ++i)
      to[i] = std::byte(byteOf(piece.tensor()->string_view(), offset + i));
  }
};

std::vector<uint8_t> bound(const plan::PlanFile &plan, const WeightSource &source,
                           unsigned threads = 3) {
  hal::NullDevice device;
  Weights weights =
      Weights::bind(plan.tables(), *plan.tables().targets()->Get(0), source, device, threads);
  std::span<const std::byte> bytes = weights.bytes(1);
  std::vector<uint8_t> result(bytes.size());
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

} // namespace

/// Code `pair` (its first or second) of a word of FragmentWords, as docs/plan-format.md has it.
static uint32_t codeOf(uint32_t word, uint32_t bits, uint64_t pair, uint64_t second) {
  uint32_t half = word >> 16 * second & 0xffff;
  if (bits == 32)
    return word;
  if (bits != 4)
    return half >> bits * pair & ((1u << bits) - 1);
  constexpr int places[4][4] = {{15, 8, 7, 6}, {12, 5, 4, 3}, {9, 2, 1, 0}, {11, 14, 13, 10}};
  uint32_t code = 0;
  for (int place : places[pair])
    code = code << 1 | (half >> place & 1);
  return code;
}

TEST(Repack, FragmentWordsGiveEachLaneItsRowsAndColumns) {
  struct Case {
    uint32_t bits;
    const char *dtype;
    int64_t columns; // as stored
  };
  constexpr int64_t rows = 37, k = 192;
  for (Case c :
       {Case{4, "U8", k / 2}, Case{8, "F8_E4M3", k}, Case{16, "BF16", k}, Case{32, "F32", k}}) {
    uint64_t rowBytes = k * c.bits / 8, panel = 16 * rowBytes, pairs = 16 / c.bits;
    plan::PlanFile plan = planWith(
        Recipe::FragmentWords, c.bits, k, 6, 6 * panel,
        {{"a", c.dtype, {rows, c.columns}, 0, 2, 0}, {"b", c.dtype, {rows, c.columns}, 1, 2, 0}});
    std::vector<uint8_t> got = bound(plan, PatternSource());
    auto stored = [&](uint64_t p, uint64_t row, uint64_t column) -> uint32_t {
      if (row >= rows)
        return 0;
      uint64_t bit = column * c.bits, code = 0;
      for (uint64_t b = 0; b < std::max(c.bits / 8, 1u); ++b)
        code |= uint64_t(byteOf(p % 2 ? "b" : "a", row * rowBytes + bit / 8 + b)) << 8 * b;
      return uint32_t(code >> bit % 8 & ((uint64_t(1) << c.bits) - 1));
    };
    for (uint64_t p = 0; p < 6; ++p)
      for (uint64_t unit = 0; unit < k / 64; ++unit)
        for (uint64_t lane = 0; lane < 32; ++lane)
          for (uint64_t half = 0; half < 2; ++half)
            for (uint64_t pair = 0; pair < 8; ++pair)
              for (uint64_t second = 0; second < 2; ++second) {
                // of the lane
                uint64_t word = half * (c.bits / 2) + (pairs ? pair / pairs : 2 * pair + second);
                uint64_t at =
                    p * panel + unit * 128 * c.bits + ((word / 4 * 32 + lane) * 4 + word % 4) * 4;
                uint32_t bits = 0;
                for (uint64_t b = 0; b < 4; ++b)
                  bits |= uint32_t(got[at + b]) << 8 * b;
                uint32_t code = codeOf(bits, c.bits, pairs ? pair % pairs : 0, second);
                ASSERT_EQ(code, stored(p, p / 2 * 16 + lane / 4 + 8 * half,
                                       64 * unit + 16 * (lane % 4) + 2 * pair + second))
                    << c.bits << " bits, panel " << p << ", unit " << unit << ", lane " << lane
                    << ", half " << half << ", pair " << pair;
              }
  }
}

TEST(Repack, FragmentScalesGiveEachLaneThoseOfItsRows) {
  constexpr int64_t rows = 21, k = 128;
  for (uint32_t group : {16u, 32u}) {
    int64_t groups = k / group, lanes = 8 * 64 / group;
    plan::PlanFile plan = planWith(Recipe::FragmentScales, group, groups, 2, 2 * 16 * groups,
                                   {{"a", "U8", {rows, groups}, 0, 1, 0}});
    std::vector<uint8_t> got = bound(plan, PatternSource());
    for (int64_t p = 0; p < 2; ++p)
      for (int64_t unit = 0; unit < k / 64; ++unit)
        for (int64_t lane = 0; lane < lanes; ++lane)
          for (int64_t half = 0; half < 2; ++half) {
            int64_t perRow = 64 / group, row = 16 * p + lane / perRow + 8 * half;
            int64_t column = unit * perRow + lane % perRow;
            uint8_t expected = row < rows ? byteOf("a", uint64_t(row * groups + column)) : 0;
            ASSERT_EQ(got[size_t(((p * k / 64 + unit) * lanes + lane) * 2 + half)], expected)
                << "groups of " << group << ", panel " << p << ", unit " << unit << ", lane "
                << lane;
          }
  }
}

TEST(Repack, PanelWordsOfEveryWidth) {
  struct Case {
    uint32_t bits;
    const char *dtype;
    int64_t columns; // as stored
  };
  for (Case c :
       {Case{4, "U8", 32}, Case{8, "F8_E4M3", 64}, Case{16, "BF16", 64}, Case{32, "F32", 64}}) {
    constexpr int64_t rows = 37; // three panels, the last with 5 rows
    uint64_t rowBytes = 64 * c.bits / 8, panel = 16 * rowBytes;
    // Two matrices whose panels alternate, as gate and up do.
    plan::PlanFile plan = planWith(
        Recipe::PanelWords, c.bits, 64, 6, 6 * panel,
        {{"a", c.dtype, {rows, c.columns}, 0, 2, 0}, {"b", c.dtype, {rows, c.columns}, 1, 2, 0}});
    std::vector<uint8_t> got = bound(plan, PatternSource());
    for (uint64_t p = 0; p < 6; ++p)
      for (uint64_t j = 0; j < rowBytes / 4; ++j)
        for (uint64_t n = 0; n < 16; ++n)
          for (uint64_t b = 0; b < 4; ++b) {
            uint64_t row = p / 2 * 16 + n;
            // Elements from j·(32/bits) on are the bytes 4j … 4j + 3 of the row.
            uint8_t expected =
                row < rows ? byteOf(p % 2 ? "b" : "a", row * rowBytes + 4 * j + b) : 0;
            ASSERT_EQ(got[((p * (rowBytes / 4) + j) * 16 + n) * 4 + b], expected)
                << c.bits << " bits, panel " << p << ", word " << j << ", row " << n;
          }
  }
}

TEST(Repack, PanelsAbreastShareTheirLines) {
  constexpr uint64_t rows = 61, rowBytes = 32, panels = 4, abreast = 2; // 64 codes of 4 bits
  plan::PlanFile words = planWith(Recipe::PanelWords, 4, 64, panels, panels * 16 * rowBytes,
                                  {{"a", "U8", {rows, 32}, 0, 1, 0}}, abreast);
  plan::PlanFile scales = planWith(Recipe::PanelScales, 8, 4, panels, panels * 16 * 4,
                                   {{"s", "F8_E4M3", {rows, 4}, 0, 1, 0}}, abreast);
  std::vector<uint8_t> gotWords = bound(words, PatternSource());
  std::vector<uint8_t> gotScales = bound(scales, PatternSource());
  for (uint64_t row = 0; row < panels * 16; ++row) {
    uint64_t block = row / 32, column = row % 32; // two panels are one block of 32 columns
    for (uint64_t byte = 0; byte < rowBytes; ++byte) {
      uint64_t at = ((block * 8 + byte / 4) * 32 + column) * 4 + byte % 4;
      ASSERT_EQ(gotWords[at], row < rows ? byteOf("a", row * rowBytes + byte) : 0) << row;
    }
    for (uint64_t g = 0; g < 4; ++g)
      ASSERT_EQ(gotScales[(block * 4 + g) * 32 + column], row < rows ? byteOf("s", row * 4 + g) : 0)
          << row;
  }
}

TEST(Repack, PanelScales) {
  plan::PlanFile plan =
      planWith(Recipe::PanelScales, 0, 5, 2, 160, {{"s", "F8_E4M3", {20, 5}, 0, 1, 0}});
  std::vector<uint8_t> got = bound(plan, PatternSource());
  for (uint64_t p = 0; p < 2; ++p)
    for (uint64_t g = 0; g < 5; ++g)
      for (uint64_t n = 0; n < 16; ++n) {
        uint64_t row = 16 * p + n;
        EXPECT_EQ(got[(p * 5 + g) * 16 + n], row < 20 ? byteOf("s", row * 5 + g) : 0);
      }
}

TEST(Repack, LargeMatricesAreSplitAmongThreads) {
  // 10 MB: several tasks; the result must not depend on the thread count.
  plan::PlanFile plan = planWith(Recipe::PanelWords, 8, 4096, 160, 160 * 16 * 4096,
                                 {{"a", "F8_E4M3", {2560, 4096}, 0, 1, 0}});
  std::vector<uint8_t> one = bound(plan, PatternSource(), 1),
                       four = bound(plan, PatternSource(), 4);
  EXPECT_EQ(one, four);
  EXPECT_EQ(one[((159 * 1024 + 1023) * 16 + 15) * 4 + 3], byteOf("a", 2560ull * 4096 - 1));
}

namespace {

class FloatSource final : public WeightSource {
public:
  void check(const plan::WeightPiece &) const override {}
  void read(const plan::WeightPiece &piece, uint64_t offset,
            std::span<std::byte> to) const override {
    bool wide = piece.dtype()->string_view() == "F32";
    for (size_t i = 0; i < to.size() / (wide ? 4 : 2); ++i) {
      float value = float(offset / (wide ? 4 : 2) + i) - 2.5f;
      uint16_t narrow = formats::floatToBf16(value);
      wide ? std::memcpy(to.data() + 4 * i, &value, 4) : std::memcpy(to.data() + 2 * i, &narrow, 2);
    }
  }
};

std::vector<float> asFloats(const std::vector<uint8_t> &bytes) {
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), values.size() * 4);
  return values;
}

} // namespace

TEST(Repack, WidensAndInverts) {
  plan::PlanFile wide = planWith(Recipe::ToF32, 0, 0, 0, 32,
                                 {{"n", "BF16", {4}, 0, 1, 0}, {"m", "F32", {4}, 0, 1, 16}});
  std::vector<float> row = {-2.5, -1.5, -0.5, 0.5, -2.5, -1.5, -0.5, 0.5};
  EXPECT_EQ(asFloats(bound(wide, FloatSource())), row);
  plan::PlanFile scalars =
      planWith(Recipe::Scalar, 0, 0, 0, 8, {{"s", "F32", {}, 0, 1, 0}, {"t", "F32", {1}, 0, 1, 4}});
  EXPECT_EQ(asFloats(bound(scalars, FloatSource())), (std::vector<float>{-2.5, -2.5}));
  plan::PlanFile inverse = planWith(Recipe::Reciprocal, 0, 0, 0, 4, {{"s", "F32", {1}, 0, 1, 0}});
  EXPECT_EQ(asFloats(bound(inverse, FloatSource())), (std::vector<float>{1 / -2.5f}));
}

namespace {

class CheckpointWeights : public testing::Test {
protected:
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "weights_checkpoint";

  void SetUp() override {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
  }

  /// Writes tensor "x.weight" F32 [2] and the toy's "scale".
  void write(std::vector<float> values, std::vector<int64_t> shape) {
    SafetensorsWriter writer;
    std::vector<float> scale(test::toyVocab, 1);
    writer.add("scale", Dtype::F32, {test::toyVocab}, std::span<const float>(scale));
    writer.add("x.weight", Dtype::F32, shape, std::span<const float>(values));
    writer.write(folder / "model.safetensors");
  }

  std::string problem(const Piece &piece) {
    plan::PlanFile plan = planWith(Recipe::Raw, 0, 0, 0, 8, {piece});
    try {
      bound(plan, *openWeights(folder.string(), plan.tables()));
    } catch (const Error &error) {
      return error.what();
    }
    return "";
  }
};

} // namespace

TEST_F(CheckpointWeights, AreReadAndCheckedAgainstThePlan) {
  write({3, 4}, {2});
  EXPECT_EQ(problem({"x.weight", "F32", {2}}), "");
  EXPECT_NE(problem({"y.weight", "F32", {2}}).find("tensor y.weight is missing"),
            std::string::npos);
  std::string shape = problem({"x.weight", "F32", {1, 2}});
  EXPECT_NE(shape.find("[1, 2]"), std::string::npos) << shape;
  EXPECT_NE(problem({"x.weight", "BF16", {2}}).find("BF16"), std::string::npos);
}

TEST_F(CheckpointWeights, NanIsNamed) {
  write({3, NAN}, {2});
  std::string fault = problem({"x.weight", "F32", {2}});
  EXPECT_NE(fault.find("x.weight"), std::string::npos) << fault;
  EXPECT_NE(fault.find("model.safetensors"), std::string::npos) << fault;
}

TEST_F(CheckpointWeights, FolderWithoutTensorsIsRefused) {
  EXPECT_NE(problem({"x.weight", "F32", {2}}).find("holds no tensors"), std::string::npos);
}

namespace {

std::vector<uint8_t> synthetic(const char *seed, const std::vector<Piece> &pieces, uint64_t bytes) {
  plan::PlanFile plan = planWith(Recipe::Raw, 0, 0, 0, bytes, pieces);
  return bound(plan, *openWeights(std::string("synthetic:") + seed, plan.tables()));
}

struct Moments {
  double mean = 0, deviation = 0;
};

Moments moments(const std::vector<double> &values) {
  Moments m;
  for (double v : values)
    m.mean += v / double(values.size());
  for (double v : values)
    m.deviation += (v - m.mean) * (v - m.mean) / double(values.size());
  m.deviation = std::sqrt(m.deviation);
  return m;
}

} // namespace

TEST(Synthetic, MatricesHaveTheDeviationOfTheirRowLength) {
  constexpr int64_t n = 64, k = 1024;
  constexpr double sane = 1 / 32.0; // 1/sqrt(1024)
  auto near = [](const std::vector<double> &values, double deviation, const char *what) {
    Moments m = moments(values);
    EXPECT_LT(std::abs(m.mean), deviation / 10) << what;
    EXPECT_GT(m.deviation, deviation * 0.6) << what; // E8M0 scales are exact to a factor of two
    EXPECT_LT(m.deviation, deviation * 1.7) << what;
  };
  std::vector<uint8_t> bytes = synthetic("1", {{"a.weight", "BF16", {n, k}}}, n * k * 2);
  std::vector<double> values;
  for (int64_t i = 0; i < n * k; ++i)
    values.push_back(formats::bf16ToFloat(uint16_t(bytes[2 * i] | bytes[2 * i + 1] << 8)));
  near(values, sane, "BF16");

  bytes = synthetic(
      "1",
      {{"a.weight", "F8_E4M3", {n, k}}, {"a.weight_scale_inv", "U8", {n, k / 32}, 0, 1, n * k}},
      n * k * 33 / 32);
  values.clear();
  for (int64_t i = 0; i < n * k; ++i)
    values.push_back(formats::e4m3ToFloat(bytes[i]) * formats::e8m0ToDouble(bytes[n * k + i / 32]));
  near(values, sane, "MXFP8");

  uint64_t scales = n * k / 2, global = scales + n * k / 16;
  bytes = synthetic("1",
                    {{"e.weight_packed", "U8", {n, k / 2}},
                     {"e.weight_scale", "F8_E4M3", {n, k / 16}, 0, 1, scales},
                     {"e.weight_global_scale", "F32", {1}, 0, 1, global}},
                    global + 4);
  float divisor;
  std::memcpy(&divisor, bytes.data() + global, 4);
  values.clear();
  for (int64_t i = 0; i < n * k; ++i)
    values.push_back(formats::e2m1ToDouble(bytes[i / 2] >> (i % 2 * 4) & 15) *
                     formats::e4m3ToFloat(bytes[scales + i / 16]) / divisor);
  near(values, sane, "NVFP4");
}

TEST(Synthetic, DependsOnSeedNameAndIndexOnly) {
  auto make = [](const char *seed, const char *name) {
    return synthetic(seed, {{name, "U8", {64, 64}}}, 4096);
  };
  EXPECT_EQ(make("1", "a.weight"), make("1", "a.weight"));
  EXPECT_NE(make("1", "a.weight"), make("2", "a.weight"));
  EXPECT_NE(make("1", "a.weight"), make("1", "b.weight"));
  // In pieces as at once.
  plan::PlanFile plan = planWith(Recipe::Raw, 0, 0, 0, 4096, {{"n.weight", "F32", {1024}}});
  std::unique_ptr<WeightSource> source = openWeights("synthetic:5", plan.tables());
  std::vector<float> whole(1024), part(24);
  const plan::WeightPiece &piece = *plan.tables().weights()->Get(1)->pieces()->Get(0);
  source->read(piece, 0, std::as_writable_bytes(std::span(whole)));
  source->read(piece, 4000, std::as_writable_bytes(std::span(part)));
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 1000));
}

TEST(Synthetic, BadSeedIsAUsageError) {
  plan::PlanFile plan = planWith(Recipe::Raw, 0, 0, 0, 4, {{"n", "F32", {1}}});
  for (const char *where : {"synthetic:", "synthetic:x", "synthetic:1x", "synthetic:-1"})
    EXPECT_THROW(openWeights(where, plan.tables()), Error) << where;
}

namespace {

/// A toy plan whose first launch reads `rows.size()` buffers of 8-bit words, rows[i] × 4096.
plan::PlanFile planOfMatrices(const std::vector<int64_t> &rows) {
  constexpr uint64_t columns = 4096;
  plan::PlanWriter writer;
  plan::TablesT tables = test::toyTables(writer.addSection(plan::SectionKind::Code, "code"));
  tables.weights.clear();
  for (auto &launch : tables.targets[0]->buckets[0]->launches)
    for (auto &arg : launch->args)
      if (arg->kind == plan::ArgKind::Weight)
        arg->index = 0;
  plan::LaunchT &launch = *tables.targets[0]->buckets[0]->launches[0];
  for (size_t i = 0; i < rows.size(); ++i) {
    auto buffer = std::make_unique<plan::WeightBufferT>();
    buffer->symbol = "w" + std::to_string(i);
    buffer->recipe = Recipe::PanelWords;
    buffer->bits = 8;
    buffer->row_length = columns;
    buffer->panels = uint32_t(rows[i] + 15) / 16;
    buffer->bytes = buffer->panels * 16 * columns;
    auto piece = std::make_unique<plan::WeightPieceT>();
    piece->tensor = std::to_string(i);
    piece->dtype = "F8_E4M3";
    piece->shape = {rows[i], int64_t(columns)};
    buffer->pieces.push_back(std::move(piece));
    tables.weights.push_back(std::move(buffer));
    auto arg = std::make_unique<plan::ArgT>();
    arg->kind = plan::ArgKind::Weight;
    arg->index = uint32_t(i);
    launch.args.push_back(std::move(arg));
  }
  tables.kernels[launch.kernel]->params = uint32_t(launch.args.size());
  tables.targets[0]->buckets.resize(1); // the others launch the kernel with fewer
  writer.setTables(tables);
  writer.setManifest("{}");
  return plan::PlanFile::fromBytes(writer.bytes(), "matrices.m3plan");
}

} // namespace

// Several times what travels at once, small buffers beside one that is larger than that.
TEST(Weights, OnAGpuTheyAreTheSameBytes) {
  plan::PlanFile plan = planOfMatrices({9000, 5, 9000, 20000, 100, 17, 12001});
  const plan::Tables &tables = plan.tables();
  const plan::Target &target = *tables.targets()->Get(0);
  hal::NullDevice here;
  std::unique_ptr<hal::Device> gpu = hal::createCudaDriver(M3C_FAKE_CUDA)->open(0, {});
  Weights expected = Weights::bind(tables, target, PatternSource(), here, 2);
  uint64_t reported = 0, all = 0;
  Weights sent = Weights::bind(tables, target, PatternSource(), *gpu, 2,
                               [&](uint64_t done, uint64_t total, std::string_view) {
                                 EXPECT_GT(done, reported);
                                 reported = done;
                                 all = total;
                               });
  EXPECT_EQ(reported, all);
  for (uint32_t i = 0; i < tables.weights()->size(); ++i) {
    std::span<const std::byte> bytes = expected.bytes(i);
    EXPECT_EQ(std::memcmp(bytes.data(), reinterpret_cast<void *>(sent.address(i)), bytes.size()), 0)
        << "buffer " << i;
  }
  EXPECT_EQ(gpu->counters().allocatedBytes, sent.totalBytes()); // the stages are gone
}

// The fake GPU runs the text of the kernel that a real one has, beside the CPU's maker and
// repacking.
TEST(Weights, MadeUpOnAGpuTheyAreTheSameBytes) {
  for (const test::MadeUpCase &example : test::madeUpCases()) {
    std::unique_ptr<WeightSource> source = openWeights("synthetic:7", example.plan.tables());
    hal::NullDevice here;
    std::unique_ptr<hal::Device> gpu = hal::createCudaDriver(M3C_FAKE_CUDA)->open(0, {});
    std::vector<std::byte> expected = test::boundBytes(example.plan, *source, here);
    EXPECT_EQ(test::boundBytes(example.plan, *source, *gpu), expected) << example.name;
    EXPECT_GT(gpu->counters().kernelsLaunched, 0u) << example.name;
    EXPECT_TRUE(std::ranges::any_of(expected, [](std::byte byte) { return byte != std::byte(0); }));
  }
}

TEST(Weights, AFaultOnTheWayToAGpuIsThrown) {
  class BrokenSource final : public WeightSource {
  public:
    void check(const plan::WeightPiece &) const override {}
    void read(const plan::WeightPiece &piece, uint64_t, std::span<std::byte>) const override {
      if (piece.tensor()->string_view() == "2")
        throw Error("tensor 2 is broken", "test");
    }
  };
  plan::PlanFile plan = planOfMatrices({20000, 100, 20000, 100});
  std::unique_ptr<hal::Device> gpu = hal::createCudaDriver(M3C_FAKE_CUDA)->open(0, {});
  try {
    Weights::bind(plan.tables(), *plan.tables().targets()->Get(0), BrokenSource(), *gpu, 2);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error &error) {
    EXPECT_EQ(error.summary(), "tensor 2 is broken");
  }
  EXPECT_EQ(gpu->counters().allocatedBytes, 0u);
}
