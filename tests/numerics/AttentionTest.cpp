// Sparse and dense attention against the reference.
//
// Bound of a result, u = 2^-24: a product of D dims is off by at most (D/8 + 4)·u·Σ|q·k| (a chain
// of D/lanes steps, a tree over the lanes, the softmax scale); exp adds 4 u of relative error and
// each rescaling 3 u: one at each page of a part, one for each of the parts of four pages, for P
// pages at most P + 1; numerator and denominator are chains of n keys. So
//   |Δo| ≤ (2·δ + 4 u + 3 (P + 1) u + 2 n u)·max|v|, δ = 2 (D/8 + 4) u·scale·max|q|·max|k|,
// where max|q| and max|k| are Euclidean lengths.
#include "runtime/base/Error.h"
#include "runtime/base/Formats.h"
#include "tests/numerics/Scene.h"

#include "gtest/gtest.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

using namespace m3c::numerics;
using namespace m3c::interpreter;

namespace {

constexpr double u = 0x1p-24;

double longest(const std::vector<double> &values, int64_t dims) {
  double best = 0;
  for (size_t i = 0; i < values.size(); i += size_t(dims)) {
    double sum = 0;
    for (size_t d = 0; d < size_t(dims); ++d)
      sum += values[i + d] * values[i + d];
    best = std::max(best, std::sqrt(sum));
  }
  return best;
}

double bound(const Scene &scene, int64_t keys) {
  // Keys of D normal deviates are shorter than √D + 5 (rounding included), and a deviate is smaller
  // than 6, beyond any chance.
  int64_t dims = scene.spec.cache.headDim;
  double length = std::sqrt(double(dims)) + 5;
  double delta =
      2 * (double(dims) / 8 + 4) * u * scene.scale() * longest(scene.query.reals, dims) * length;
  return (2 * delta + 4 * u + 3 * u * double(keys / 128 + 1) + 2 * u * double(keys)) * 6;
}

struct Outcome {
  std::vector<float> scores, attention;
  std::vector<int32_t> selection;
  bool operator==(const Outcome &) const = default;
};

Outcome run(Scene &scene, const std::string &chip, int64_t rows,
            const std::vector<std::string> &schedule = {}, unsigned threads = 2) {
  KernelProgram &built = program(scene.spec, chip, rows, schedule);
  StepInput input = scene.input();
  input.threads = threads;
  built.run(input);
  Outcome outcome;
  auto take = [&](auto &to, const char *name, int64_t count) {
    auto from = built.buffer<typename std::remove_cvref_t<decltype(to)>::value_type>(name);
    to.assign(from.begin(), from.begin() + count);
  };
  take(outcome.attention, "attention", scene.query.elements());
  if (scene.spec.sparse)
    take(outcome.selection, "selected_blocks",
         scene.batch.rows() * scene.spec.cache.kvHeads * scene.spec.k);
  return outcome;
}

/// No matrix instructions, nor several warps that choose blocks: text wholly from `tile`.
const std::vector<std::string> plainSibling = {"attention.matrix=0", "index_score.matrix=0",
                                               "block_topk.by_warps=0"};

/// Runs the kernels and compares every row with the reference on the kernel's own selection.
Outcome check(Scene &scene, const std::string &chip, int64_t rows,
              const std::vector<std::string> &schedule = {}, unsigned threads = 2) {
  Outcome found = run(scene, chip, rows, schedule, threads);
  Tensor blocks = Tensor::ofIds({scene.batch.rows(), scene.spec.cache.kvHeads, scene.spec.k});
  blocks.ids = found.selection;
  Tensor expected = scene.attention(scene.spec.sparse ? &blocks : nullptr);
  int64_t keys = (scene.spec.sparse ? scene.spec.k : scene.batch.blocks()) * 128;
  double tolerance = bound(scene, keys);
  // Weights of the softmax in FP16, in numerator and denominator, and e^x within 2^-21.
  if (std::ranges::count(incompleteChips(), chip) && schedule != plainSibling)
    tolerance += (0x1p-10 + 0x1p-20) * 6;
  for (size_t i = 0; i < expected.reals.size(); ++i)
    if (!(std::fabs(double(found.attention[i]) - expected.reals[i]) <= tolerance)) {
      ADD_FAILURE() << chip << ", bucket " << rows << ": element " << i << " of row "
                    << int64_t(i) / expected.width() << " is " << found.attention[i] << ", "
                    << expected.reals[i] << " ± " << tolerance << " expected";
      break;
    }
  return found;
}

/// Three sequences in one batch: a chunk from the start, one in the middle of a long sequence, and
/// decoding rows.
std::vector<RowAt> raggedRows() {
  std::vector<RowAt> rows = chunkOf(0, 0, 21);
  for (const RowAt &row : chunkOf(1, 2300, 12))
    rows.push_back(row);
  rows.push_back({2, 300});
  rows.push_back({3, 127});
  return rows;
}

SceneSpec small(std::vector<RowAt> rows) {
  SceneSpec spec;
  spec.cache.kvHeads = 2;
  spec.heads = 8;
  spec.rows = std::move(rows);
  return spec;
}

TEST(Attention, Lengths) {
  std::vector<RowAt> rows;
  for (int32_t length : {1, 127, 128, 129, 2047, 2048, 2049})
    rows.push_back({int32_t(rows.size()), length - 1});
  for (bool sparse : {true, false}) {
    SceneSpec spec = small(rows);
    spec.sparse = sparse;
    Scene scene(spec);
    for (const std::string &chip : runnableChips())
      check(scene, chip, 8);
  }
}

/// Up to sixteen rows at a time.
TEST(Attention, DecodeRowsOfTargetsThatHaveNoOther) {
  std::vector<RowAt> rows = chunkOf(0, 120, 13);
  rows.push_back({1, 0});
  rows.push_back({2, 2048});
  rows.push_back({3, 127});
  for (bool sparse : {true, false}) {
    SceneSpec spec = small(rows);
    spec.sparse = sparse;
    spec.k = 4;
    for (auto [bucket, kept] : std::vector<std::pair<int64_t, std::vector<size_t>>>{
             {1, {14}}, {4, {7, 8, 13}}, {16, {}}}) {
      Scene scene(spec);
      if (!kept.empty())
        scene.keepRows(kept);
      for (const std::string &chip : incompleteChips())
        check(scene, chip, bucket);
    }
  }
}

/// One to four heads, and rows of one sequence that fill several accumulators of block scores.
TEST(Attention, HeadsOfTargetsThatHaveNoOther) {
  for (int64_t kvHeads : {1, 3, 4}) {
    std::vector<RowAt> rows = chunkOf(0, 250, 9);
    rows.push_back({1, 130});
    SceneSpec spec = small(rows);
    spec.cache.kvHeads = kvHeads;
    spec.heads = 4 * kvHeads;
    spec.k = 2;
    Scene scene(spec);
    for (const std::string &chip : incompleteChips())
      check(scene, chip, 16);
  }
}

/// The plain siblings add in the order of the CPU's kernels and sm90's for FP32 rows, so they are
/// these bit for bit; the kernels on matrix instructions choose the same blocks and are near.
TEST(Attention, PlainSiblingsAgree) {
  for (int64_t kvHeads : {1, 4}) {
    SceneSpec spec = small({{0, 130}, {0, 131}, {1, 127}, {2, 400}});
    spec.cache.kvHeads = kvHeads;
    spec.heads = kvHeads < 3 ? 4 * kvHeads : kvHeads;
    spec.k = 2;
    const int64_t bucket = kvHeads == 1 ? 8 : 1;
    Scene scene(spec);
    if (bucket == 1)
      scene.keepRows({3});
    Outcome sm90 = run(scene, "sm_90a", bucket);
    for (const std::string &chip : incompleteChips()) {
      SCOPED_TRACE(chip + ", heads " + std::to_string(kvHeads));
      Outcome plain = check(scene, chip, bucket, plainSibling);
      for (const auto &[name, kernel] : program(spec, chip, bucket, plainSibling).kernels)
        EXPECT_TRUE(kernel.standsIn == name.starts_with("embed")) << name;
      EXPECT_EQ(plain, sm90);
      Outcome matrix = check(scene, chip, bucket);
      if (chip != "sm_107a") // its keys are not rounded to E4M3
        EXPECT_EQ(plain.selection, matrix.selection);
    }
  }
}

/// Caches that the matrix instructions do not read.
TEST(Attention, PlainSiblingsOfOtherCaches) {
  for (const char *storage : {"f32", "bf16", "fp8", "nvfp4"}) {
    SceneSpec spec = small({{0, 150}, {1, 127}});
    spec.cache.storage = storage;
    spec.cache.e4m3Grid = false;
    spec.k = 2;
    Scene scene(spec);
    Outcome sm90 = run(scene, "sm_90a", 2);
    for (const std::string &chip : incompleteChips()) {
      if (chip != "gfx950" && scene.spec.cache.storage != "fp8")
        continue; // one reading of codes for all chips
      SCOPED_TRACE(storage + std::string(" on ") + chip);
      EXPECT_EQ(check(scene, chip, 2, plainSibling), sm90);
    }
  }
}

/// By the chip's own instruction, by a table, by way of FP16.
TEST(Attention, WaysToTheGridGiveTheSameBits) {
  SceneSpec spec = small({{0, 700}, {1, 130}, {2, 127}});
  spec.k = 4;
  Scene scene(spec);
  const std::vector<std::string> untensored = {"attention.tensor=0", "index_score.tensor=0"};
  Outcome own = check(scene, "sm_100a", 4, untensored);
  for (const char *product : {"0", "1", "2"}) {
    std::vector<std::string> schedule = untensored;
    schedule.push_back(std::string("attention.product=") + product);
    schedule.push_back(std::string("index_score.product=") + product);
    EXPECT_EQ(own, run(scene, "sm_100a", 4, schedule)) << product;
  }
}

/// The kernels on BF16 rows against those on F32 rows of the same values, `rows` at a time.
void compareBf16(SceneSpec spec, const std::vector<size_t> &kept, int64_t rows) {
  Scene wide(spec);
  spec.bf16 = true;
  Scene narrow(spec);
  wide.keepRows(kept);
  narrow.keepRows(kept);
  for (const std::string &chip : hostChips()) {
    Outcome expected = check(wide, chip, rows);
    KernelProgram &built = program(narrow.spec, chip, rows);
    built.run(narrow.input());
    auto codes = built.buffer<uint16_t>("attention");
    for (size_t i = 0; i < expected.attention.size(); ++i)
      ASSERT_EQ(std::bit_cast<float>(uint32_t(codes[i]) << 16),
                m3c::formats::roundToBf16(expected.attention[i]))
          << chip << ", element " << i;
    if (spec.sparse) {
      auto blocks = built.buffer<int32_t>("selected_blocks");
      EXPECT_TRUE(std::equal(expected.selection.begin(), expected.selection.end(), blocks.begin()));
    }
  }
}

TEST(Attention, Bf16RowsAreTheRoundedF32Ones) {
  // Queries on the E4M3 grid are BF16 values: the arithmetic is the same, the result rounded.
  for (bool sparse : {true, false}) {
    SceneSpec spec = small(raggedRows());
    spec.sparse = sparse;
    std::vector<size_t> all(spec.rows.size());
    std::iota(all.begin(), all.end(), size_t(0));
    compareBf16(spec, all, 64); // rows share pages
    compareBf16(spec, {30}, 1);
  }
}

/// Targets with matrix instructions: scores are sums of exact products, weights are rounded to FP16
/// (2^-11 of each, in numerator and denominator), e^x is within 2^-21, and the result is rounded to
/// BF16 (2^-9 of it); the rest is as above.
TEST(Attention, Bf16RowsOnMatrixInstructions) {
  for (bool sparse : {true, false}) {
    SceneSpec spec = small(raggedRows());
    spec.sparse = sparse;
    spec.bf16 = true;
    for (const std::string &chip : runnableChips()) {
      if (std::ranges::count(hostChips(), chip))
        continue;
      for (int64_t rows : {1, 64}) {
        Scene scene(spec);
        if (rows == 1)
          scene.keepRows({30});
        KernelProgram &built = program(scene.spec, chip, rows);
        built.run(scene.input());
        auto codes = built.buffer<uint16_t>("attention");
        Tensor blocks = Tensor::ofIds({scene.batch.rows(), spec.cache.kvHeads, spec.k});
        if (sparse) {
          auto chosen = built.buffer<int32_t>("selected_blocks");
          blocks.ids.assign(chosen.begin(), chosen.begin() + blocks.elements());
        }
        Tensor expected = scene.attention(sparse ? &blocks : nullptr);
        int64_t keys = (sparse ? spec.k : scene.batch.blocks()) * 128;
        double tolerance = bound(scene, keys) + (0x1p-10 + 0x1p-20 + 0x1p-9) * 6;
        for (size_t i = 0; i < expected.reals.size(); ++i)
          ASSERT_NEAR(std::bit_cast<float>(uint32_t(codes[i]) << 16), expected.reals[i], tolerance)
              << chip << ", bucket " << rows << ", element " << i;
      }
    }
  }
}

/// Roles that give each other registers do what they did: the same bytes, and the emulator has
/// nothing to say. Four warps bring pages then.
TEST(Attention, RegistersOfRolesChangeNothing) {
  struct Budgets {
    const char *chip;
    std::vector<std::string> schedule;
  };
  const std::vector<std::string> plain = {"attention.tensor=0", "index_score.tensor=0",
                                          "attention.flat=0"};
  // Of 12 warps with 168 registers at the beginning, 16 with 128, two times 8 with 128, three times
  // 8 with 80.
  const std::vector<std::string> one = {
      "attention.attend_registers=224", "attention.load_registers=56", "index_score.consumers=12",
      "index_score.score_registers=152", "index_score.load_registers=56"};
  const std::vector<std::string> several = {
      "attention.residents=2",   "attention.attend_registers=216",  "attention.load_registers=40",
      "index_score.consumers=4", "index_score.score_registers=120", "index_score.load_registers=40",
      "index_score.stages=8"};
  for (const Budgets &row : {Budgets{"sm_90a", one}, {"sm_100a", one}, {"sm_107a", several}}) {
    SCOPED_TRACE(row.chip);
    SceneSpec spec = small({{0, 300}, {1, 127}});
    spec.k = 2;
    spec.bf16 = true;
    Scene scene(spec);
    auto bytes = [&](const std::vector<std::string> &more, int changed) {
      std::vector<std::string> schedule = plain;
      schedule.insert(schedule.end(), more.begin(), more.end());
      KernelProgram &built = program(scene.spec, row.chip, 2, schedule);
      EXPECT_EQ(std::ranges::count_if(built.kernels,
                                      [](const auto &kernel) {
                                        return kernel.second.source.find("takeRegisters<") !=
                                               std::string::npos;
                                      }),
                changed);
      built.run(scene.input());
      auto codes = built.buffer<uint16_t>("attention");
      return std::vector<uint16_t>(codes.begin(), codes.begin() + scene.query.elements());
    };
    std::vector<std::string> budgets = {"attention.loaders=4", "index_score.loaders=4"};
    budgets.insert(budgets.end(), row.schedule.begin(), row.schedule.end());
    EXPECT_EQ(bytes({}, 0), bytes(budgets, 2)); // attention and block scores
  }
}

/// Parts of a row as a cluster, with more and with fewer pages than parts.
TEST(Attention, PartsThatMeetInACluster) {
  for (auto [parts, sparse] :
       std::vector<std::pair<const char *, bool>>{{"3", false}, {"8", true}}) {
    SceneSpec spec = small(rowsOfLengths({1, 129, 1000}));
    spec.sparse = sparse;
    Scene scene(spec);
    check(scene, "sm_107a", 4,
          {"attention.meet=1", "attention.flat=0", std::string("attention.parts=") + parts});
  }
}

/// A fault that only the emulator sees: on a chip the bytes are there, whosever they are.
TEST(Attention, PageBeyondTheCacheIsReported) {
  for (bool bf16 : {false, true}) {
    SceneSpec spec = small(chunkOf(0, 300, 1));
    spec.bf16 = bf16;
    spec.sparse = false;
    spec.farPage = false;
    Scene scene(spec);
    scene.batch.pageTable[0][1] = int32_t(scene.input().poolPages);
    for (const std::string &chip : runnableChips()) {
      if (std::ranges::count(hostChips(), chip))
        continue;
      try {
        program(scene.spec, chip, 1).run(scene.input());
        ADD_FAILURE() << chip << ": nothing was reported";
      } catch (const m3c::Error &error) {
        EXPECT_NE(error.why().find("the cache"), std::string::npos) << error.what();
        EXPECT_NE(error.where().find("tile."), std::string::npos) << error.what();
      }
    }
  }
}

TEST(Attention, NoRows) {
  Scene scene(small({}));
  for (const std::string &chip : runnableChips())
    for (int64_t rows : {1, 16}) {
      KernelProgram &built = program(scene.spec, chip, rows);
      StepInput input = scene.input();
      input.blocks = 4;
      built.run(input);
      for (float value : built.buffer<float>("attention"))
        ASSERT_TRUE(std::isnan(value)) << "a row of padding was written";
    }
}

TEST(Attention, EveryScheduleGivesTheSameBits) {
  for (bool sparse : {true, false}) {
    SceneSpec spec = small(raggedRows());
    spec.sparse = sparse;
    Scene scene(spec);
    for (const std::string &chip : hostChips()) {
      Outcome tiled = check(scene, chip, 64);
      EXPECT_EQ(tiled, run(scene, chip, 64, {"attention.rows=1", "index_score.rows=1"}));
      EXPECT_EQ(tiled, run(scene, chip, 64,
                           {"attention.rows=5", "index_score.rows=3", "attention.chunk=16",
                            "attention.heads=1", "index_score.keys=8"},
                           1));
      EXPECT_EQ(tiled, run(scene, chip, 64,
                           {"attention.rows=1", "attention.ring=0", "index_score.rows=1",
                            "index_score.ring=0", "attention.value_dims=16"}));
    }
  }
}

TEST(Attention, RowsAloneGiveTheBitsOfTheBatch) {
  SceneSpec spec = small(raggedRows());
  Scene whole(spec);
  for (const std::string &chip : runnableChips()) {
    if (std::ranges::count(incompleteChips(), chip))
      continue; // one row is cut into more parts than one of many
    Outcome batch = run(whole, chip, 64);
    for (size_t row : {0, 20, 21, 32, 33, 34}) {
      Scene alone(spec);
      alone.keepRows({row});
      Outcome one = run(alone, chip, 1);
      size_t width = one.attention.size(), ids = one.selection.size();
      EXPECT_TRUE(std::equal(one.attention.begin(), one.attention.end(),
                             batch.attention.begin() + std::ptrdiff_t(row * width)))
          << chip << " row " << row;
      EXPECT_TRUE(std::equal(one.selection.begin(), one.selection.end(),
                             batch.selection.begin() + std::ptrdiff_t(row * ids)));
    }
  }
}

TEST(Attention, CacheTypes) {
  std::vector<RowAt> rows = chunkOf(0, 120, 10);
  rows.push_back({1, 2200});
  for (auto [storage, grid] : std::vector<std::pair<std::string, bool>>{
           {"f32", false}, {"bf16", false}, {"fp8", false}, {"nvfp4", false}, {"nvfp4", true}}) {
    SceneSpec spec = small(rows);
    spec.cache.storage = storage;
    spec.cache.e4m3Grid = grid;
    Scene scene(spec);
    for (const std::string &chip : hostChips()) {
      SCOPED_TRACE(storage);
      Outcome tiled = check(scene, chip, 16);
      EXPECT_EQ(tiled, run(scene, chip, 16, {"attention.rows=1", "attention.ring=0"}));
    }
  }
}

TEST(Attention, HeadsAndDims) {
  struct Sizes {
    int64_t heads, kvHeads, dims;
  };
  for (Sizes sizes : {Sizes{2, 2, 64}, {4, 2, 128}, {16, 1, 128}, {6, 2, 32}, {20, 4, 16}}) {
    SceneSpec spec;
    spec.heads = sizes.heads;
    spec.cache.kvHeads = sizes.kvHeads;
    spec.cache.headDim = spec.cache.indexDim = sizes.dims;
    spec.k = 3;
    spec.rows = {{0, 700}, {1, 0}, {1, 1}, {0, 300}};
    Scene scene(spec);
    for (const std::string &chip : hostChips()) {
      SCOPED_TRACE(std::to_string(sizes.heads) + " heads");
      check(scene, chip, sizes.dims == 128 || sizes.heads == 6 ? 4 : 16);
    }
  }
}

/// Values are all 1: any key too many or too few of the 0xff bytes around shows.
TEST(Attention, UnseenKeysCountNothing) {
  SceneSpec spec = small({{0, 0}, {1, 126}, {2, 128}, {3, 132}, {4, 2047}});
  Scene scene(spec);
  const std::vector<double> ones(size_t(spec.cache.headDim), 1.0);
  for (const RowAt &row : spec.rows)
    for (int32_t p = 0; p <= row.position; ++p)
      for (int64_t h = 0; h < spec.cache.kvHeads; ++h)
        scene.write(Lane::Value, row.sequence, p, h, ones);
  for (const std::string &chip : runnableChips())
    for (float value : run(scene, chip, 8).attention)
      ASSERT_NEAR(value, 1.0, 2 * 2048 * u); // two chains of at most 2048 keys
}

TEST(Attention, NanOfAVisibleKeyStaysInItsRows) {
  SceneSpec spec = small({{0, 200}, {1, 200}, {0, 100}});
  spec.cache.storage = "fp8";
  Scene scene(spec);
  std::vector<double> bad(size_t(spec.cache.headDim), std::nan(""));
  scene.write(Lane::Key, 0, 150, 1, bad);
  for (const std::string &chip : runnableChips()) {
    Outcome found = run(scene, chip, 4);
    size_t width = size_t(scene.query.width());
    for (size_t i = 0; i < found.attention.size(); ++i) {
      bool reads = i / width == 0 && i % width >= width / 2; // row 0, KV head 1
      ASSERT_EQ(std::isnan(found.attention[i]), reads) << chip << " element " << i;
    }
  }
}

} // namespace
