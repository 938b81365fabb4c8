#include "models/minimax_m3/GraphWeights.h"

#include "dialects/m3/M3.h"
#include "runtime/base/Error.h"

#include <map>

using namespace mlir;

namespace m3c {
namespace {

m3::Encoding encodingOf(WeightEncoding encoding) {
  switch (encoding) {
  case WeightEncoding::F32:
    return m3::Encoding::F32;
  case WeightEncoding::Bf16:
    return m3::Encoding::BF16;
  case WeightEncoding::Mxfp8:
    return m3::Encoding::MXFP8;
  case WeightEncoding::Nvfp4:
    return m3::Encoding::NVFP4;
  case WeightEncoding::Nvfp4Packed:
    return m3::Encoding::NVFP4Packed;
  }
  return m3::Encoding::F32;
}

m3::PartRole roleOf(WeightPart::Role role) {
  switch (role) {
  case WeightPart::Role::Values:
    return m3::PartRole::Values;
  case WeightPart::Role::BlockScale:
    return m3::PartRole::BlockScale;
  case WeightPart::Role::GlobalScale:
    return m3::PartRole::GlobalScale;
  case WeightPart::Role::InputScale:
    return m3::PartRole::InputScale;
  }
  return m3::PartRole::Values;
}

/// The stack and the number of an expert's weight: "layers.3.experts.7.gate" gives
/// "layers.3.experts.gate" and "7"; an empty number for any other symbol.
std::pair<std::string, std::string> splitExpert(const std::string &symbol) {
  static constexpr std::string_view key = ".experts.";
  size_t at = symbol.find(key);
  if (at == std::string::npos)
    return {symbol, ""};
  size_t begin = at + key.size(), end = symbol.find('.', begin);
  return {symbol.substr(0, begin) + symbol.substr(end + 1), symbol.substr(begin, end - begin)};
}

/// Tensor name with the expert's number replaced by `{e}`.
std::string patternOf(const std::string &name, const std::string &expert) {
  if (expert.empty())
    return name;
  std::string key = ".experts." + expert + ".";
  size_t at = name.find(key);
  if (at == std::string::npos)
    throw Error("cannot stack the experts of a layer", "tensor " + name,
                "its name does not hold '" + key + "'", "report this checkpoint layout");
  return name.substr(0, at) + ".experts.{e}." + name.substr(at + key.size());
}

class WeightDeclarer {
public:
  explicit WeightDeclarer(OpBuilder &builder) : builder(builder) {}

  void declare(const Weight &weight) {
    auto [symbol, expert] = splitExpert(weight.symbol);
    ArrayAttr parts = partsOf(weight, expert);
    auto stack = stacks.find(symbol);
    if (stack == stacks.end()) {
      SmallVector<int64_t> shape(weight.shape.begin(), weight.shape.end());
      if (!expert.empty())
        shape.insert(shape.begin(), 1);
      stacks.emplace(symbol, create(symbol, shape, weight, parts));
    } else {
      extend(stack->second, weight, expert, parts);
    }
  }

private:
  ArrayAttr partsOf(const Weight &weight, const std::string &expert) {
    SmallVector<Attribute> parts;
    for (const WeightPart &part : weight.parts)
      parts.push_back(m3::PartAttr::get(builder.getContext(), roleOf(part.role),
                                        patternOf(part.name, expert), part.dtype, part.shape));
    return builder.getArrayAttr(parts);
  }

  m3::WeightOp create(StringRef symbol, ArrayRef<int64_t> shape, const Weight &weight,
                      ArrayAttr parts) {
    auto type =
        m3::WeightType::getChecked([&] { return emitError(builder.getUnknownLoc()); },
                                   builder.getContext(), shape, encodingOf(weight.encoding));
    if (!type)
      throw Error("weight has a shape that its encoding does not allow", weight.symbol,
                  "the scale group does not divide K", "check the checkpoint's configuration");
    Location name = NameLoc::get(builder.getStringAttr(symbol)); // what errors name
    return m3::WeightOp::create(builder, name, symbol, type, parts, m3::DemotionAttr(),
                                m3::ShardingAttr());
  }

  void extend(m3::WeightOp stack, const Weight &weight, const std::string &expert,
              ArrayAttr parts) {
    m3::WeightType type = stack.weightType();
    if (std::to_string(type.experts()) != expert || stack.getParts() != parts ||
        type.getEncoding() != encodingOf(weight.encoding) ||
        type.getShape().drop_front() != ArrayRef<int64_t>(weight.shape))
      throw Error("the experts of a layer differ", weight.symbol,
                  "all experts of a layer need the same format, shape and tensor names as expert 0",
                  "store the layer's experts in one format");
    SmallVector<int64_t> shape(type.getShape());
    ++shape[0];
    stack.setType(m3::WeightType::get(builder.getContext(), shape, type.getEncoding()));
  }

  OpBuilder &builder;
  std::map<std::string, m3::WeightOp> stacks;
};

} // namespace

void declareWeights(OpBuilder &builder, const std::vector<Weight> &weights) {
  WeightDeclarer declarer(builder);
  for (const Weight &weight : weights)
    declarer.declare(weight);
}

} // namespace m3c
