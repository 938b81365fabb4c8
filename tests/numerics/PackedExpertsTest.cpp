// Experts of many rows on packed tiles, each launch against the reference on what the launch before
// it stored: the list, activations, outputs, their sum. And with planted faults, each of which must
// show.
//
// Operands are exact in BF16. A sum over K in instructions of 16 products is off by less than
// (K/16 · 11 + 8) · u · Σ|term| (SharedRowsTest.cpp), u = 2^-24. Of z = (up + 1) · gate ·
// sigmoid(1.702 · gate), clamped to 7, |∂z/∂gate| < 1.1 · 8 and |∂z/∂up| ≤ 7; exp and six
// operations are off by (2 · 1.702 · |gate| + 12) · u · |z|. Rounding to BF16 is monotone, so a
// code lies between those of value − error and value + error.
#include "tests/numerics/FragmentWeight.h"
#include "tests/numerics/PlantedFaults.h"

#include "runtime/base/Error.h"

#include "gtest/gtest.h"
#include <algorithm>

using namespace m3c;
using namespace m3c::numerics;

namespace {

constexpr const char *chip = "sm_90a";
constexpr double u = 0x1p-24;
constexpr int64_t experts = 4, topK = 2, hidden = 256, width = 64, rows = 150, bucket = 160;
constexpr int64_t entries = rows * topK;

/// `dims` are those of the shape, or of one expert of a stack.
std::string weightOp(const std::string &name, const std::string &shape, const std::string &dims,
                     const std::string &encoding, const std::string &type) {
  bool stack = std::ranges::count(shape, 'x') == 2;
  return "m3.weight @" + name + " : !m3.weight<" + shape + ", " + encoding +
         "> {parts = [#m3.part<values, \"" + name + (stack ? ".{e}" : "") + "\", \"" + type +
         "\", [" + dims + "]>]}\n";
}

std::string moduleText() {
  return weightOp("x", "150x256", "150, 256", "f32", "F32") +
         weightOp("layers.0.router", "4x256", "4, 256", "f32", "F32") +
         weightOp("layers.0.experts.gate", "4x64x256", "64, 256", "bf16", "BF16") +
         weightOp("layers.0.experts.up", "4x64x256", "64, 256", "bf16", "BF16") +
         weightOp("layers.0.experts.down", "4x256x64", "256, 64", "bf16", "BF16") + R"(
func.func @step(%batch: !m3.batch) -> tensor<?x256xf32> {
  %x = m3.embed %batch, @x : tensor<?x256xbf16>
  %e, %w = m3.route %x, @layers.0.router {top_k = 2, scale = 2.0} : tensor<?x256xbf16> -> tensor<?x2xi32>, tensor<?x2xf32>
  %y = m3.experts %x, %e, %w, @layers.0.experts.gate, @layers.0.experts.up, @layers.0.experts.down {alpha = 1.702, limit = 7.0}
    : tensor<?x256xbf16>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x256xf32>
  return %y : tensor<?x256xf32>
})";
}

class Scene {
public:
  Scene() : up(experts * 2 * width, hidden, false), down(experts * hidden, width, false) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal(0, 0.1f);
    x.resize(size_t(rows * hidden));
    for (float &value : x)
      value = formats::roundToBf16(normal(random));
    router.resize(size_t(16 * hidden)); // in whatever order: it gives the rows some experts
    for (float &value : router)
      value = normal(random);
  }

  KernelProgram build(int64_t tileRows) const {
    std::string tile = std::to_string(tileRows);
    return {moduleText(),
            chip,
            bucket,
            {"experts_up.packed_rows=1", "experts_down.packed_rows=1", "experts_up.rows=" + tile,
             "experts_down.rows=" + tile}};
  }

  /// How many results are out of their bounds.
  int64_t wrong(KernelProgram &program, uint64_t seed = 1) const {
    interpreter::Batch batch = oneText(rows);
    StepInput input{&batch, {}, nullptr, 0, 2, seed, "", {}};
    input.times = 3; // stages come early, late, at random
    input.weights = {{"x", x},
                     {"layers.0.router.fragments", router},
                     {"layers.0.experts.gate_up.fragments", up.words},
                     {"layers.0.experts.down.fragments", down.words}};
    program.run(input);
    return wrongPlaces(program) + wrongActivations(program) + wrongOutputs(program) +
           wrongSums(program);
  }

private:
  static int64_t expertOf(const KernelProgram &program, int64_t entry) {
    return program.buffer<int32_t>("expert_ids")[size_t(entry)];
  }
  /// The list: entries expert by expert, of each in their order.
  static std::vector<int64_t> listed(const KernelProgram &program) {
    std::vector<int64_t> list(entries);
    for (int64_t i = 0; i < entries; ++i)
      list[size_t(i)] = i;
    std::ranges::sort(list, {},
                      [&](int64_t entry) { return std::pair(expertOf(program, entry), entry); });
    return list;
  }

  int64_t wrongPlaces(const KernelProgram &program) const {
    auto groups = program.buffer<int32_t>("expert_groups");
    std::vector<int64_t> list = listed(program);
    int64_t count = groups[0] != experts;
    for (int64_t e = 0; e < experts; ++e) {
      auto isEarlier = [&](int64_t entry) { return expertOf(program, entry) < e; };
      count += groups[size_t(1 + e)] != e;
      count += groups[size_t(1 + experts + e)] != std::ranges::count_if(list, isEarlier);
    }
    count += groups[size_t(1 + 2 * experts)] != entries;
    for (int64_t i = 0; i < entries; ++i)
      count += groups[size_t(2 + 2 * experts + i)] != list[size_t(i)];
    return count;
  }

  struct Sum {
    double value = 0, error = 0;
  };
  /// Row n of a weight times `k` values.
  template <class Value> static Sum product(const FragmentWeight &weight, int64_t n, Value value) {
    Sum sum;
    double size = 0;
    for (int64_t k = 0; k < weight.inputs; ++k) {
      double term = value(k) * weight.values[size_t(n * weight.inputs + k)];
      sum.value += term, size += std::fabs(term);
    }
    sum.error = (double(weight.inputs) / 16 * 11 + 8) * u * size;
    return sum;
  }
  static bool isRounded(uint16_t code, Sum sum) {
    return valueOf(code) >= formats::roundToBf16(float(sum.value - sum.error)) &&
           valueOf(code) <= formats::roundToBf16(float(sum.value + sum.error));
  }

  int64_t wrongActivations(const KernelProgram &program) const {
    auto z = program.buffer<uint16_t>("expert_act");
    std::vector<int64_t> list = listed(program);
    int64_t count = 0;
    for (int64_t i = 0; i < entries; ++i)
      for (int64_t n = 0; n < width; ++n) {
        const float *row = &x[size_t(list[size_t(i)] / topK * hidden)];
        // Panels of gate and up in turn.
        int64_t at = expertOf(program, list[size_t(i)]) * 2 * width + n / 16 * 32 + n % 16;
        auto value = [&](int64_t k) { return double(row[k]); };
        Sum gate = product(up, at, value), raised = product(up, at + 16, value);
        double g = std::min(gate.value, 7.0), v = std::clamp(raised.value, -7.0, 7.0);
        Sum out;
        out.value = (v + 1) * g / (1 + std::exp(-1.702 * g));
        out.error = 8.8 * gate.error + 7 * raised.error +
                    (2 * 1.702 * std::fabs(g) + 12) * u * std::fabs(out.value);
        count += !isRounded(z[size_t(i * width + n)], out);
      }
    return count;
  }

  int64_t wrongOutputs(const KernelProgram &program) const {
    auto z = program.buffer<uint16_t>("expert_act"), y = program.buffer<uint16_t>("expert_out");
    std::vector<int64_t> list = listed(program);
    int64_t count = 0;
    for (int64_t i = 0; i < entries; ++i)
      for (int64_t n = 0; n < hidden; ++n) {
        int64_t entry = list[size_t(i)];
        auto value = [&](int64_t k) { return valueOf(z[size_t(i * width + k)]); };
        count += !isRounded(y[size_t(entry * hidden + n)],
                            product(down, expertOf(program, entry) * hidden + n, value));
      }
    return count;
  }

  int64_t wrongSums(const KernelProgram &program) const {
    auto y = program.buffer<uint16_t>("expert_out");
    auto shares = program.buffer<float>("expert_weights"), out = program.buffer<float>("hidden");
    int64_t count = 0;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t n = 0; n < hidden; ++n) {
        double sum = 0, size = 0;
        for (int64_t entry = r * topK; entry < (r + 1) * topK; ++entry) {
          double term = shares[size_t(entry)] * valueOf(y[size_t(entry * hidden + n)]);
          sum += term, size += std::fabs(term);
        }
        count += !(std::fabs(out[size_t(r * hidden + n)] - sum) <= topK * u * size);
      }
    return count;
  }

  std::vector<float> x, router;
  const FragmentWeight up, down;
};

class PackedExperts : public testing::TestWithParam<int64_t> {};

TEST_P(PackedExperts, AreWithinTheBoundsOfTheirSums) {
  Scene scene;
  KernelProgram program = scene.build(GetParam());
  int64_t packed = std::ranges::count_if(program.kernels, [](const auto &entry) {
    return entry.first.starts_with("experts_") &&
           entry.second.source.find("mmaShared(") != std::string::npos;
  });
  EXPECT_EQ(packed, 2);
  EXPECT_EQ(scene.wrong(program), 0);
}
INSTANTIATE_TEST_SUITE_P(RowsOfATile, PackedExperts, testing::Values(64, 128));

struct Fault : TextFault {
  const char *kernel; ///< its name begins so
};
const Fault faults[] = {
    {{"EntriesOfEarlierWarpsForgotten", R"(select\((s\d+), (e\d+), i64\(0\)\))",
      "select($1, i64(0), i64(0))"},
     "expert_list"},
    {{"EntriesOfTheNextExpert", R"((x\d+) == (s\d+);)", "$1 == $2 + 1;"}, "expert_list"},
    {{"TilesOfTheFirstExpert", R"(storeScalar\(p3 \+ (it\d+), blockX\))",
      "storeScalar(p3 + $1, i64(0))"},
     "expert_list"},
    {{"RowsOfEntries", "ListedRows<2>", "ListedRows<1>"}, "pack_experts_256"},
    {{"TilesFromTheFirstEntry", R"(minimum\((e\d+), (s\d+)\))", "minimum($1, $2 - 1)"},
     "pack_experts_64"},
    {{"WeightsOfTheFirstExpert", R"((e\d+) \* i64\(8\))", "i64(0) * $1"}, "experts_up"},
    {{"OutputsToTheFirstEntry", R"(\w+ \+ i64\(10\);)", "i64(10);"}, "experts_down"},
};
void PrintTo(const Fault &fault, std::ostream *out) { *out << fault.name; }

class PlantedInExperts : public testing::TestWithParam<Fault> {};
TEST_P(PlantedInExperts, IsFound) {
  Scene scene;
  KernelProgram program = scene.build(64);
  plant(program, chip, GetParam().kernel, GetParam(), std::regex_constants::format_first_only);
  try {
    EXPECT_GT(scene.wrong(program), 0);
  } catch (const Error &error) {
    EXPECT_NE(error.where().find("work item ("), std::string::npos) << error.what();
  }
}
std::string faultName(const testing::TestParamInfo<Fault> &info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Experts, PlantedInExperts, testing::ValuesIn(faults), faultName);

} // namespace
