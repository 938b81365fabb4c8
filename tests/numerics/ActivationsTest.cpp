// Kernels that read and write BF16 rows against the reference on equal inputs: each is given what
// the kernel before it wrote.
//
// Conversions are compared bit for bit. A result of F32 arithmetic is rounded from a value within
// `error` of the double one, so that its code lies between those of value − error and value +
// error: rounding is monotone. With u = 2^-24: a chain of n products is off by n·u·Σ|term|; a root
// mean square over n values by (n/32 + 8)·u (sixteen chains, a tree, a division, a root), the norm
// by two products more; exp by 4 u.
//
// Packed weights are chosen so that their layout does not matter: one panel of 16 outputs, or rows
// of equal values. That is how hosts have them; targets with matrix instructions pack other words.
#include "tests/numerics/KernelProgram.h"

#include "compiler/interpreter/Kernels.h"
#include "runtime/base/Formats.h"

#include "gtest/gtest.h"
#include <cmath>
#include <random>

using namespace m3c;
using namespace m3c::numerics;

namespace {

constexpr double u = 0x1p-24;
constexpr int64_t tokens = 64, width = 64, outputs = 16;

double valueOf(uint16_t code) { return std::bit_cast<float>(uint32_t(code) << 16); }

/// The code is that of a value within `error` of `value`.
void expectRounded(uint16_t code, double value, double error, const std::string &what) {
  EXPECT_GE(valueOf(code), formats::roundToBf16(float(value - error))) << what;
  EXPECT_LE(valueOf(code), formats::roundToBf16(float(value + error))) << what;
}

std::vector<float> deviates(int64_t count, unsigned seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(static_cast<size_t>(count));
  for (float &value : values)
    value = normal(random);
  return values;
}

/// Of z = (up + 1) · gate · sigmoid(1.702 · gate): alpha and the exponent are rounded, which exp
/// turns into relative errors; then exp and six operations.
double swigluError(double gate, double z) {
  return (2 * 1.702 * std::fabs(gate) + 12) * u * std::fabs(z);
}

/// "m3.weight @name", stored as F32.
std::string weight(const std::string &name, const std::vector<int64_t> &shape) {
  auto join = [](const std::vector<int64_t> &sizes, const char *separator) {
    std::string text;
    for (int64_t size : sizes)
      text += (text.empty() ? "" : separator) + std::to_string(size);
    return text;
  };
  bool stack = shape.size() == 3;
  std::vector<int64_t> stored(shape.begin() + stack, shape.end());
  return "m3.weight @" + name + " : !m3.weight<" + join(shape, "x") +
         ", f32> {parts = [#m3.part<values, \"" + name + (stack ? ".{e}" : "") + "\", \"F32\", [" +
         join(stored, ", ") + "]>]}\n";
}

/// A panel of a weight that has one: words [k][16] of w [16][k].
std::vector<float> panel(const std::vector<float> &w, int64_t k) {
  std::vector<float> words(w.size());
  for (size_t e = 0; e < w.size(); e += size_t(outputs * k))
    for (int64_t n = 0; n < outputs; ++n)
      for (int64_t i = 0; i < k; ++i)
        words[e + size_t(i * outputs + n)] = w[e + size_t(n * k + i)];
  return words;
}

/// Few rows stream the weights through registers, many share a dequantised chunk.
struct Shape {
  int64_t rows, bucket;
};
void PrintTo(const Shape &shape, std::ostream *out) { *out << shape.rows << " rows"; }

class Bf16Rows : public testing::TestWithParam<Shape> {
protected:
  int64_t rows() const { return GetParam().rows; }
};

TEST_P(Bf16Rows, singleOperations) {
  std::string text = weight("x", {tokens, width}) + weight("h", {tokens, outputs}) +
                     weight("g", {width}) + weight("w", {outputs, width}) +
                     weight("v", {outputs, width}) + R"(
func.func @step(%batch: !m3.batch) -> tensor<?x16xbf16> {
  %x = m3.embed %batch, @x : tensor<?x64xbf16>
  %n = m3.norm %x, @g {eps = 1.0e-6} : tensor<?x64xbf16>
  %p = m3.project %n, @w : tensor<?x64xbf16> -> tensor<?x16xbf16>
  %f = m3.project %n, @v : tensor<?x64xbf16> -> tensor<?x16xf32>
  %z = m3.swiglu_oai %f, %f {alpha = 1.702, limit = 7.0} : tensor<?x16xf32> -> tensor<?x16xbf16>
  %h = m3.embed %batch, @h : tensor<?x16xbf16>
  %s = arith.addf %h, %p : tensor<?x16xbf16>
  %t = arith.truncf %f : tensor<?x16xf32> to tensor<?x16xbf16>
  %q = m3.quantize %t {grid = e4m3} : tensor<?x16xbf16> -> tensor<?x16xbf16, #m3.storage<e4m3>>
  return %s : tensor<?x16xbf16>
})";
  std::vector<float> x = deviates(tokens * width, 1), h = deviates(tokens * outputs, 2),
                     g = deviates(width, 3, 0.2f), w = deviates(outputs * width, 4),
                     v = deviates(outputs * width, 5);
  interpreter::Batch batch = oneText(rows(), 1000);
  for (const std::string &chip : hostChips()) {
    SCOPED_TRACE(chip);
    KernelProgram program(text, chip, GetParam().bucket);
    StepInput input{&batch, {}, nullptr, 0, 2, 1, "", {}};
    input.weights = {{"x", x}, {"h", h}, {"g", g}, {"w", panel(w, width)}, {"v", panel(v, width)}};
    program.run(input);
    auto codes = [&](const char *name) { return program.buffer<uint16_t>(name); };
    auto normed = codes("normed"), product = codes("w"), sum = codes("add"),
         activation = codes("swiglu"), hidden = codes("hidden"), narrow = codes("convert"),
         grid = codes("quantize");
    auto wide = program.buffer<float>("v");
    for (int64_t r = 0; r < rows(); ++r) {
      double squares = 0;
      for (int64_t i = 0; i < width; ++i)
        squares += std::pow(formats::roundToBf16(x[size_t(r * width + i)]), 2);
      double factor = 1 / std::sqrt(squares / width + 1e-6);
      for (int64_t i = 0; i < width; ++i) {
        double value =
            formats::roundToBf16(x[size_t(r * width + i)]) * factor * (1 + double(g[size_t(i)]));
        expectRounded(normed[size_t(r * width + i)], value,
                      (width / 32 + 12) * u * std::fabs(value), "norm");
      }
      for (int64_t n = 0; n < outputs; ++n) {
        size_t at = size_t(r * outputs + n);
        double p = 0, f = 0, sizeP = 0, sizeF = 0;
        for (int64_t i = 0; i < width; ++i) {
          double in = valueOf(normed[size_t(r * width + i)]);
          p += in * w[size_t(n * width + i)];
          f += in * v[size_t(n * width + i)];
          sizeP += std::fabs(in * w[size_t(n * width + i)]);
          sizeF += std::fabs(in * v[size_t(n * width + i)]);
        }
        expectRounded(product[at], p, width * u * sizeP, "project");
        EXPECT_NEAR(wide[at], f, width * u * sizeF);
        EXPECT_EQ(valueOf(hidden[at]), formats::roundToBf16(h[at]));
        EXPECT_EQ(valueOf(sum[at]),
                  formats::roundToBf16(float(valueOf(hidden[at]) + valueOf(product[at]))));
        double gate = std::min(double(wide[at]), 7.0), up = std::clamp(double(wide[at]), -7.0, 7.0);
        double z = (up + 1) * gate / (1 + std::exp(-1.702 * gate));
        expectRounded(activation[at], z, swigluError(gate, z), "swiglu");
        EXPECT_EQ(valueOf(narrow[at]), formats::roundToBf16(wide[at]));
        EXPECT_EQ(valueOf(grid[at]), formats::roundToE4m3(float(valueOf(narrow[at]))));
      }
    }
  }
}

TEST_P(Bf16Rows, headsStayF32BetweenNormAndRotation) {
  std::string text = weight("x", {tokens, width}) + weight("g", {width / 2}) + R"(
func.func @step(%batch: !m3.batch) -> tensor<?x64xbf16> {
  %cs = m3.rope_table %batch {theta = 5.0e6, rotary = 16} : tensor<?x16xf32>
  %x = m3.embed %batch, @x : tensor<?x64xbf16>
  %n = m3.head_norm %x, @g {heads = 2, eps = 1.0e-6} : tensor<?x64xbf16> -> tensor<?x64xf32>
  %r = m3.rope %n, %cs {heads = 2} : tensor<?x64xf32>, tensor<?x16xf32> -> tensor<?x64xbf16>
  return %r : tensor<?x64xbf16>
})";
  std::vector<float> x = deviates(tokens * width, 6), g = deviates(width / 2, 7, 0.2f);
  interpreter::Batch batch = oneText(rows(), 1000);
  for (const std::string &chip : runnableChips()) {
    SCOPED_TRACE(chip);
    KernelProgram program(text, chip, GetParam().bucket);
    StepInput input{&batch, {{"x", x}, {"g", g}}, nullptr, 0, 2, 1, "", {}};
    program.run(input);
    auto normed = program.buffer<float>("g"), table = program.buffer<float>("rope_table");
    auto rotated = program.buffer<uint16_t>("rope");
    for (int64_t r = 0; r < rows(); ++r)
      for (int64_t head = 0; head < width; head += width / 2) {
        size_t first = size_t(r * width + head);
        double squares = 0;
        for (size_t i = 0; i < width / 2; ++i)
          squares += std::pow(formats::roundToBf16(x[first + i]), 2);
        double factor = 1 / std::sqrt(squares / (width / 2) + 1e-6);
        for (size_t i = 0; i < width / 2; ++i) {
          double value = formats::roundToBf16(x[first + i]) * factor * (1 + double(g[i]));
          EXPECT_NEAR(normed[first + i], value, 13 * u * std::fabs(value));
        }
        for (size_t i = 0; i < width / 2; ++i) {
          double value = normed[first + i], error = 0;
          if (i < 16) {
            size_t pair = i % 8;
            double a = normed[first + pair], b = normed[first + 8 + pair];
            double c = table[size_t(r * 16) + pair], s = table[size_t(r * 16) + 8 + pair];
            value = i < 8 ? a * c - b * s : b * c + a * s;
            error = 3 * u * (std::fabs(a) + std::fabs(b));
          }
          expectRounded(rotated[first + i], value, error, "rope");
        }
      }
  }
}

constexpr int64_t experts = 4, topK = 2, hidden = 16;

/// Norm-free MoE layer with its residual; gate and up are one vector a row of x is summed with.
std::string moeModule() {
  return weight("x", {tokens, hidden}) + weight("h", {tokens, hidden}) +
         weight("layers.0.router", {experts, hidden}) +
         weight("layers.0.experts.gate", {experts, outputs, hidden}) +
         weight("layers.0.experts.up", {experts, outputs, hidden}) +
         weight("layers.0.experts.down", {experts, hidden, outputs}) +
         weight("layers.0.shared.gate", {outputs, hidden}) +
         weight("layers.0.shared.up", {outputs, hidden}) +
         weight("layers.0.shared.down", {hidden, outputs}) + R"(
func.func @step(%batch: !m3.batch) -> tensor<?x16xbf16> {
  %x = m3.embed %batch, @x : tensor<?x16xbf16>
  %h = m3.embed %batch, @h : tensor<?x16xbf16>
  %e, %w = m3.route %x, @layers.0.router {top_k = 2, scale = 2.0} : tensor<?x16xbf16> -> tensor<?x2xi32>, tensor<?x2xf32>
  %y = m3.fused "experts_shared"(%n = %x : tensor<?x16xbf16>, %i = %e : tensor<?x2xi32>, %v = %w : tensor<?x2xf32>, %r = %h : tensor<?x16xbf16>) -> (tensor<?x16xbf16>) {
    %wide = arith.extf %r : tensor<?x16xbf16> to tensor<?x16xf32>
    %routed = m3.experts %n, %i, %v, @layers.0.experts.gate, @layers.0.experts.up, @layers.0.experts.down {alpha = 1.702, limit = 7.0}
      : tensor<?x16xbf16>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x16xf32>
    %a = arith.addf %wide, %routed : tensor<?x16xf32>
    %shared = m3.shared_expert %n, @layers.0.shared.gate, @layers.0.shared.up, @layers.0.shared.down {alpha = 1.702, limit = 7.0} : tensor<?x16xbf16>
    %s = arith.extf %shared : tensor<?x16xbf16> to tensor<?x16xf32>
    %b = arith.addf %a, %s : tensor<?x16xf32>
    %out = arith.truncf %b : tensor<?x16xf32> to tensor<?x16xbf16>
    m3.yield %out : tensor<?x16xbf16>
  }
  return %y : tensor<?x16xbf16>
})";
}

/// One output of a down product from the activation that the kernel stored: what it may be rounded
/// to at least and at most.
std::pair<double, double> downRange(std::span<const uint16_t> z, const float *w) {
  double value = 0, size = 0;
  for (int64_t i = 0; i < outputs; ++i) {
    value += valueOf(z[size_t(i)]) * w[i];
    size += std::fabs(valueOf(z[size_t(i)]) * w[i]);
  }
  double error = outputs * u * size;
  return {formats::roundToBf16(float(value - error)), formats::roundToBf16(float(value + error))};
}

TEST_P(Bf16Rows, expertsAreRoundedOneByOneAndTheirSumOnce) {
  // Rows of equal values: both halves of a pair of panels are the same words in any order.
  auto vectors = [](int64_t count, unsigned seed) { return deviates(count * outputs, seed, 0.5f); };
  std::vector<float> gate = vectors(experts, 8), sharedGate = vectors(1, 9);
  auto pairWords = [](const std::vector<float> &v) {
    std::vector<float> words;
    for (size_t e = 0; e < v.size(); e += size_t(outputs))
      for (int64_t i = 0; i < 2 * hidden; ++i)
        words.insert(words.end(), v.begin() + long(e), v.begin() + long(e) + outputs);
    return words;
  };
  std::vector<float> x = deviates(tokens * hidden, 10), h = deviates(tokens * hidden, 11),
                     down = deviates(experts * hidden * outputs, 12),
                     sharedDown = deviates(hidden * outputs, 13),
                     router(size_t(outputs * hidden)); // a whole panel, outputs past 4 unused
  std::vector<float> random = deviates(experts * hidden, 14);
  std::copy(random.begin(), random.end(), router.begin());
  interpreter::Batch batch = oneText(rows(), 1000);
  for (const std::string &chip : hostChips()) {
    SCOPED_TRACE(chip);
    KernelProgram program(moeModule(), chip, GetParam().bucket);
    StepInput input{&batch, {}, nullptr, 0, 2, 1, "", {}};
    input.weights = {{"x", x},
                     {"h", h},
                     {"layers.0.router", panel(router, hidden)},
                     {"layers.0.experts.gate_up", pairWords(gate)},
                     {"layers.0.experts.down", panel(down, outputs)},
                     {"layers.0.shared.gate_up", pairWords(sharedGate)},
                     {"layers.0.shared.down", panel(sharedDown, outputs)}};
    program.run(input);
    auto ids = program.buffer<int32_t>("expert_ids"),
         groups = program.buffer<int32_t>("expert_groups");
    auto shares = program.buffer<float>("expert_weights");
    auto z = program.buffer<uint16_t>("expert_act"),
         shared = program.buffer<uint16_t>("shared_act"),
         result = program.buffer<uint16_t>("hidden");
    std::vector<size_t> placeOf(size_t(rows() * topK));
    for (size_t place = 0; place < placeOf.size(); ++place)
      placeOf[size_t(groups[size_t(2 + 2 * experts) + place])] = place;
    auto expectActivation = [&](std::span<const uint16_t> act, const float *v, int64_t row) {
      for (int64_t n = 0; n < outputs; ++n) {
        double g = 0, size = 0;
        for (int64_t i = 0; i < hidden; ++i) {
          g += formats::roundToBf16(x[size_t(row * hidden + i)]) * double(v[n]);
          size += std::fabs(formats::roundToBf16(x[size_t(row * hidden + i)]) * double(v[n]));
        }
        double gateValue = std::min(g, 7.0), up = std::clamp(g, -7.0, 7.0);
        double value = (up + 1) * gateValue / (1 + std::exp(-1.702 * gateValue));
        // |∂z/∂gate| < 1.1·8 and |∂z/∂up| ≤ 7, both of the same sum.
        expectRounded(act[size_t(n)], value, 16 * hidden * u * size + swigluError(gateValue, value),
                      "activation");
      }
    };
    for (int64_t r = 0; r < rows(); ++r) {
      auto sharedRow = shared.subspan(size_t(r * outputs), size_t(outputs));
      expectActivation(sharedRow, sharedGate.data(), r);
      for (int64_t slot = 0; slot < topK; ++slot)
        expectActivation(z.subspan(placeOf[size_t(r * topK + slot)] * outputs, size_t(outputs)),
                         gate.data() + ids[size_t(r * topK + slot)] * outputs, r);
      for (int64_t d = 0; d < hidden; ++d) {
        double least = formats::roundToBf16(h[size_t(r * hidden + d)]), most = least;
        double size = std::fabs(least);
        auto add = [&](std::pair<double, double> range, double share) {
          least += share * range.first;
          most += share * range.second;
          size += share * std::max(std::fabs(range.first), std::fabs(range.second));
        };
        for (int64_t slot = 0; slot < topK; ++slot) {
          size_t entry = size_t(r * topK + slot);
          add(downRange(z.subspan(placeOf[entry] * outputs, size_t(outputs)),
                        down.data() + (ids[entry] * hidden + d) * outputs),
              shares[entry]);
        }
        add(downRange(sharedRow, sharedDown.data() + d * outputs), 1);
        double error = (topK + 2) * u * size; // a chain of the terms
        uint16_t code = result[size_t(r * hidden + d)];
        EXPECT_GE(valueOf(code), formats::roundToBf16(float(least - error)));
        EXPECT_LE(valueOf(code), formats::roundToBf16(float(most + error)));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Buckets, Bf16Rows, testing::Values(Shape{5, 8}, Shape{40, 64}),
                         [](const auto &info) { return std::to_string(info.param.rows) + "rows"; });

} // namespace
