// Parses the example of every m3 operation, taken from the text of its description.
#include "dialects/m3/M3.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

using namespace mlir;

namespace {

struct Example {
  std::string op, text;
};

std::string readAll(const std::string &path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Every ```mlir block of M3Ops.td with the mnemonic of the definition that it stands in.
std::vector<Example> examples() {
  std::vector<Example> result;
  std::istringstream lines(readAll(M3C_ROOT "/dialects/m3/M3Ops.td"));
  std::string line, op, block;
  bool inside = false;
  std::regex definition("^def M3_\\w+Op : \\w+<\"(\\w+)\".*");
  for (std::smatch match; std::getline(lines, line);) {
    if (std::regex_match(line, match, definition))
      op = match[1];
    if (inside && line.find("```") != std::string::npos) {
      result.push_back({op, block});
      inside = false;
    } else if (inside) {
      block += line + "\n";
    } else if (line.find("```mlir") != std::string::npos) {
      inside = true;
      block.clear();
    }
  }
  return result;
}

constexpr const char *cacheType = "!m3.cache<kv = nvfp4, grid = e4m3, page = 128, layers = 4, "
                                  "kv_heads = 2, head_dim = 128, index_dim = 128>";

/// What the examples refer to: values by name and type.
const std::vector<std::pair<std::string, std::string>> values = {
    {"batch", "!m3.batch"},
    {"cache", cacheType},
    {"kv", "!m3.cache<kv = f32, grid = exact, page = 128, layers = 4, kv_heads = 2, "
           "head_dim = 128, index_dim = 0>"},
    {"h", "tensor<?x128xf32>"},
    {"n", "tensor<?x128xf32>"},
    {"cs", "tensor<?x64xf32>"},
    {"q", "tensor<?x512xf32>"},
    {"qn", "tensor<?x512xf32>"},
    {"qr", "tensor<?x512xf32>"},
    {"qq", "tensor<?x512xf32, #m3.storage<e4m3>>"},
    {"k", "tensor<?x256xf32>"},
    {"v", "tensor<?x256xf32>"},
    {"ik", "tensor<?x128xf32>"},
    {"iq", "tensor<?x256xf32, #m3.storage<e4m3>>"},
    {"s", "tensor<?x2x?xf32>"},
    {"sel", "tensor<?x2x16xi32>"},
    {"o", "tensor<?x512xf32>"},
    {"g", "tensor<?x512xf32>"},
    {"u", "tensor<?x512xf32>"},
    {"e", "tensor<?x2xi32>"},
    {"w", "tensor<?x2xf32>"},
    {"logits", "tensor<?x512xf32>"},
    {"temperature", "tensor<?xf32>"},
    {"uniform", "tensor<?xf32>"}};

constexpr const char *weights = R"(
m3.weight @embed : !m3.weight<512x128, bf16>
m3.weight @layers.0.input_norm : !m3.weight<128, bf16>
m3.weight @layers.0.q_norm : !m3.weight<128, bf16>
m3.weight @layers.0.o_proj : !m3.weight<128x512, mxfp8>
m3.weight @layers.2.router : !m3.weight<6x128, f32>
m3.weight @layers.2.router_bias : !m3.weight<6, f32>
m3.weight @layers.2.experts.gate : !m3.weight<6x64x128, nvfp4>
m3.weight @layers.2.experts.up : !m3.weight<6x64x128, nvfp4>
m3.weight @layers.2.experts.down : !m3.weight<6x128x64, nvfp4>
m3.weight @layers.2.shared.gate : !m3.weight<64x128, mxfp8>
m3.weight @layers.2.shared.up : !m3.weight<64x128, mxfp8>
m3.weight @layers.2.shared.down : !m3.weight<128x64, mxfp8>
)";

/// The example inside a function that has whatever it does not define itself.
std::string wrap(const Example &example) {
  if (example.op == "weight")
    return example.text;
  std::set<std::string> defined;
  std::regex value("%(\\w+)"), results("^\\s*(%[\\w, %]+) = m3");
  std::istringstream lines(example.text);
  std::string line;
  for (std::smatch match; std::getline(lines, line);)
    if (std::regex_search(line, match, results)) {
      std::string names = match[1];
      for (std::sregex_iterator it(names.begin(), names.end(), value), end; it != end; ++it)
        defined.insert((*it)[1]);
    }
  std::string text = weights;
  if (example.text.find("@layers.0.q_proj") != std::string::npos)
    text += "m3.weight @layers.0.q_proj : !m3.weight<512x128, mxfp8>\n";
  text += "func.func @f(";
  const char *separator = "";
  for (const auto &[name, type] : values)
    if (!defined.contains(name)) {
      text += separator + ("%" + name) + ": " + type;
      separator = ", ";
    }
  return text + ") {\n" + example.text + "return\n}\n";
}

struct M3Examples : testing::Test {
  MLIRContext context;
  M3Examples() {
    context.loadDialect<m3c::m3::M3Dialect, func::FuncDialect, arith::ArithDialect>();
  }
};

TEST_F(M3Examples, everyOperationHasOne) {
  std::set<std::string> seen;
  for (const Example &example : examples())
    seen.insert("m3." + example.op);
  seen.insert("m3.yield"); // stands in the example of m3.fused
  for (RegisteredOperationName name : context.getRegisteredOperationsByDialect("m3"))
    EXPECT_TRUE(seen.contains(name.getStringRef().str())) << name.getStringRef().str();
}

TEST_F(M3Examples, parseVerifyAndPrintAgain) {
  for (const Example &example : examples()) {
    std::string text = wrap(example);
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module) << example.op << "\n" << text;
    std::string printed, again;
    llvm::raw_string_ostream(printed) << *module;
    EXPECT_NE(printed.find("m3." + example.op), std::string::npos);
    OwningOpRef<ModuleOp> reparsed = parseSourceString<ModuleOp>(printed, &context);
    ASSERT_TRUE(reparsed) << printed;
    llvm::raw_string_ostream(again) << *reparsed;
    EXPECT_EQ(printed, again);
  }
}

/// The labels "M3-Cnn" in a set of files of the repository.
std::set<std::string> labels(std::initializer_list<const char *> files) {
  std::set<std::string> found;
  std::regex label("M3-C\\d\\d");
  for (const char *file : files) {
    std::string text = readAll(std::string(M3C_ROOT "/") + file);
    EXPECT_FALSE(text.empty()) << file;
    for (std::sregex_iterator it(text.begin(), text.end(), label), end; it != end; ++it)
      found.insert(it->str());
  }
  return found;
}

TEST(M3Labels, standInDescriptionVerifierAndTest) {
  auto described = labels({"dialects/m3/M3Ops.td", "dialects/m3/M3Types.td"});
  auto verified =
      labels({"dialects/m3/M3.cpp", "dialects/m3/M3Verify.cpp", "dialects/m3/M3VerifyCache.cpp"});
  EXPECT_GT(described.size(), 30u);
  EXPECT_EQ(described, verified);
  EXPECT_EQ(described, labels({"tests/lit/m3/invalid.mlir"}));
}

} // namespace
