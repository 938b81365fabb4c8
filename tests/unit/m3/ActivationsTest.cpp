// What BF16 element types mean to the interpreter, on values rounded by hand. BF16 has eight
// significant bits: between 1 and 2 the step is 2^-7.
#include "compiler/interpreter/Interpreter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace mlir;
using namespace m3c;
using interpreter::Matrix;
using interpreter::Tensor;

namespace {

struct Activations : testing::Test {
  MLIRContext context{MLIRContext::Threading::DISABLED};
  interpreter::GivenWeights weights;

  Activations() { context.loadDialect<m3::M3Dialect, func::FuncDialect, arith::ArithDialect>(); }

  void give(const std::string &name, int64_t rows, int64_t cols, std::vector<float> values) {
    weights.matrices[name] = std::make_shared<Matrix>(Matrix{rows, cols, 1, std::move(values)});
  }

  /// The first result of the module's function on the given rows.
  std::vector<double> run(const std::string &text, std::vector<Tensor> inputs) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    if (!module)
      throw std::runtime_error("not parsed:\n" + text);
    std::vector<interpreter::Value> values;
    for (Tensor &input : inputs)
      values.push_back(interpreter::makeValue(std::move(input)));
    interpreter::Interpreter runner(weights);
    auto results = runner.run(*module->getOps<func::FuncOp>().begin(), std::move(values));
    return std::get<std::shared_ptr<const Tensor>>(results[0])->reals;
  }
};

Tensor row(std::vector<double> values) {
  int64_t width = int64_t(values.size());
  return {{1, width}, std::move(values), {}};
}

/// A projection of [1, 1] onto 1 + w.
std::string projectTo(const char *element) {
  return std::string("m3.weight @w : !m3.weight<4x2, f32>\n"
                     "func.func @f(%x: tensor<?x2xbf16>) -> tensor<?x4x") +
         element + "> {\n%y = m3.project %x, @w : tensor<?x2xbf16> -> tensor<?x4x" + element +
         ">\nreturn %y : tensor<?x4x" + element + ">\n}";
}

TEST_F(Activations, aResultIsRoundedToItsElementType) {
  // 1 + 2^-9: nearer to 1. 1 + 2^-8: a tie, 1 is even. 1 + 3·2^-8: a tie, 1 + 2^-6 is even.
  // 1 + 2^-8 + 2^-16 is above the tie.
  give("w", 4, 2, {1, 0x1p-9f, 1, 0x1p-8f, 1, 0x3p-8f, 1, 0x1.01p-8f});
  EXPECT_EQ(run(projectTo("bf16"), {row({1, 1})}),
            (std::vector<double>{1, 1, 1 + 0x1p-6, 1 + 0x1p-7}));
  EXPECT_EQ(run(projectTo("f32"), {row({1, 1})}),
            (std::vector<double>{1 + 0x1p-9, 1 + 0x1p-8, 1 + 0x3p-8, 1 + 0x1.01p-8}));
}

TEST_F(Activations, aSumIsRoundedOnce) {
  const char *text = R"(
    func.func @f(%h: tensor<?x1xbf16>, %a: tensor<?x1xbf16>, %b: tensor<?x1xbf16>) -> tensor<?x1xbf16> {
      %s = arith.addf %h, %a : tensor<?x1xbf16>
      %t = arith.addf %s, %b : tensor<?x1xbf16>
      return %t : tensor<?x1xbf16>
    })";
  // Each BF16 addition loses 2^-8 (ties to 1); in F32 both together move the sum by one step.
  EXPECT_EQ(run(text, {row({1}), row({0x1p-8}), row({0x1p-8})}), (std::vector<double>{1}));
  const char *wide = R"(
    func.func @f(%h: tensor<?x1xbf16>, %a: tensor<?x1xf32>, %b: tensor<?x1xf32>) -> tensor<?x1xbf16> {
      %w = arith.extf %h : tensor<?x1xbf16> to tensor<?x1xf32>
      %s = arith.addf %w, %a : tensor<?x1xf32>
      %t = arith.addf %s, %b : tensor<?x1xf32>
      %r = arith.truncf %t : tensor<?x1xf32> to tensor<?x1xbf16>
      return %r : tensor<?x1xbf16>
    })";
  EXPECT_EQ(run(wide, {row({1}), row({0x1p-8}), row({0x1p-8})}), (std::vector<double>{1 + 0x1p-7}));
}

TEST_F(Activations, aFusedBodyRoundsInside) {
  const char *text = R"(
    m3.weight @w : !m3.weight<1x1, f32>
    func.func @f(%h: tensor<?x1xbf16>, %x: tensor<?x1xbf16>) -> tensor<?x1xbf16> {
      %y = m3.fused "residual_project"(%a = %h : tensor<?x1xbf16>, %b = %x : tensor<?x1xbf16>) -> (tensor<?x1xbf16>) {
        %p = m3.project %b, @w : tensor<?x1xbf16> -> tensor<?x1xbf16>
        %s = arith.addf %a, %p : tensor<?x1xbf16>
        m3.yield %s : tensor<?x1xbf16>
      }
      return %y : tensor<?x1xbf16>
    })";
  // In steps of 2^-9, of which BF16 has every fourth: the projection 1 + 7 -> 1 + 8, the sum 1 + 11
  // -> 1 + 12. Rounded at the end alone, 1 + 10 would be a tie that goes to 1 + 8.
  give("w", 1, 1, {1 + 0x7p-9f});
  EXPECT_EQ(run(text, {row({0x3p-9}), row({1})}), (std::vector<double>{1 + 0x3p-7}));
}

const char *experts = R"(
    m3.weight @gate : !m3.weight<2x1x1, f32>
    m3.weight @up : !m3.weight<2x1x1, f32>
    m3.weight @down : !m3.weight<2x1x1, f32>
    func.func @f(%x: tensor<?x1xELEMENT>, %e: tensor<?x2xi32>, %w: tensor<?x2xf32>) -> tensor<?x1xf32> {
      %y = m3.experts %x, %e, %w, @gate, @up, @down {alpha = 1.702, limit = 7.0}
        : tensor<?x1xELEMENT>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x1xf32>
      return %y : tensor<?x1xf32>
    })";

std::string withElement(std::string text, const std::string &element) {
  for (size_t at; (at = text.find("ELEMENT")) != std::string::npos;)
    text.replace(at, 7, element);
  return text;
}

TEST_F(Activations, expertsRoundActivationAndOutputAndNotTheSum) {
  for (const char *expert : {"#0", "#1"}) {
    give(std::string("gate") + expert, 1, 1, {7}); // sigmoid(1.702 · 7) = 1 - 6.7e-6
    give(std::string("up") + expert, 1, 1, {0});
  }
  // z = 7 · (1 - 6.7e-6) -> BF16 7. Outputs: 7 · (1 + 3·2^-8) = 7.08203125, between 7.0625 and
  // 7.09375 (step 2^-5), nearer to the latter; 7 · 2^-8 is exact. The F32 sum of both is no BF16
  // value.
  give("down#0", 1, 1, {1 + 0x3p-8f});
  give("down#1", 1, 1, {0x1p-8f});
  Tensor ids{{1, 2}, {}, {0, 1}};
  EXPECT_EQ(run(withElement(experts, "bf16"), {row({1}), ids, row({1, 0.5})}),
            (std::vector<double>{7.09375 + 7 * 0x1p-9}));
  double z = 7 / (1 + std::exp(-1.702 * 7));
  EXPECT_DOUBLE_EQ(run(withElement(experts, "f32"), {row({1}), ids, row({1, 0.5})})[0],
                   z * (1 + 0x3p-8) + 0.5 * z * 0x1p-8);
}

TEST_F(Activations, choicesSeeF32Scores) {
  // Two logits that BF16 would make equal: the larger one, of the higher id, is chosen.
  const char *text = R"(
    m3.weight @router : !m3.weight<2x2, f32>
    func.func @f(%x: tensor<?x2xbf16>) -> tensor<?x1xf32> {
      %e, %w = m3.route %x, @router {top_k = 1, scale = 1.0} : tensor<?x2xbf16> -> tensor<?x1xi32>, tensor<?x1xf32>
      return %w : tensor<?x1xf32>
    })";
  give("router", 2, 2, {1, 0, 1, 0x1p-12f});
  std::vector<int32_t> chosen;
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  interpreter::Interpreter runner(weights);
  runner.observer.experts = [&](const Tensor &ids) { chosen = ids.ids; };
  runner.run(*module->getOps<func::FuncOp>().begin(), {interpreter::makeValue(row({1, 1}))});
  EXPECT_EQ(chosen, std::vector<int32_t>{1});
}

} // namespace
