#include "models/minimax_m3/GraphBuilder.h"

#include "models/minimax_m3/GraphWeights.h"
#include "runtime/base/Error.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"

#include <cmath>

using namespace mlir;

namespace m3c {
namespace {

class StepBuilder {
public:
  StepBuilder(OpBuilder &builder, const ModelConfig &config, m3::CacheType cacheType,
              m3::Activations activations)
      : builder(builder), loc(builder.getUnknownLoc()), config(config), cacheType(cacheType),
        f32(builder.getF32Type()),
        element(activations == m3::Activations::BF16 ? Type(builder.getBF16Type()) : f32) {}

  void build() {
    MLIRContext *context = builder.getContext();
    auto type =
        builder.getFunctionType({m3::BatchType::get(context), cacheType}, {f32Rows(config.vocab)});
    auto function = func::FuncOp::create(builder, loc, "step", type);
    function->setAttr(m3::stepAttr, builder.getUnitAttr());
    Block *body = function.addEntryBlock();
    builder.setInsertionPointToStart(body);
    batch = body->getArgument(0);
    cache = body->getArgument(1);
    table = m3::RopeTableOp::create(builder, loc, f32Rows(config.rotaryDim), batch,
                                    builder.getF64FloatAttr(config.ropeTheta),
                                    builder.getI64IntegerAttr(config.rotaryDim));
    Value h = m3::EmbedOp::create(builder, loc, f32Rows(config.hidden), batch, "embed");
    for (int64_t layer = 0; layer < config.layers; ++layer) {
      loc = NameLoc::get(builder.getStringAttr("layers." + Twine(layer))); // what errors name
      h = buildLayer(h, layer);
    }
    loc = builder.getUnknownLoc();
    Value normed = norm(h, "norm");
    Value last = m3::GatherRowsOp::create(builder, loc, normed.getType(), normed, batch);
    Value logits = m3::ProjectOp::create(builder, loc, f32Rows(config.vocab), last, "lm_head");
    func::ReturnOp::create(builder, loc, logits);
  }

private:
  /// What one kernel hands to the next.
  RankedTensorType rows(int64_t width, Attribute encoding = {}) {
    return RankedTensorType::get({ShapedType::kDynamic, width}, element, encoding);
  }
  /// What stays inside a kernel wherever operations are fused, and what decides a choice
  /// (docs/adr/0005).
  RankedTensorType f32Rows(int64_t width) {
    return RankedTensorType::get({ShapedType::kDynamic, width}, f32);
  }
  std::string symbol(int64_t layer, StringRef name) {
    return ("layers." + Twine(layer) + "." + name).str();
  }

  Value norm(Value x, StringRef weight) { return norm(x, weight, rows(config.hidden)); }
  Value norm(Value x, StringRef weight, RankedTensorType type) {
    return m3::NormOp::create(builder, loc, type, x, weight, llvm::APFloat(config.normEps));
  }
  /// What the residual stream gets: F32, as the stream is.
  Value projectF32(Value x, StringRef weight) {
    return m3::ProjectOp::create(builder, loc, f32Rows(config.hidden), x, weight);
  }
  Value add(Value a, Value b) { return arith::AddFOp::create(builder, loc, a, b); }
  /// The same values as F32.
  Value widen(Value x) {
    if (x.getType() == f32Rows(widthOf(x)))
      return x;
    return arith::ExtFOp::create(builder, loc, f32Rows(widthOf(x)), x);
  }
  static int64_t widthOf(Value x) { return cast<RankedTensorType>(x.getType()).getDimSize(1); }
  Value toE4m3(Value x) {
    auto storage = m3::StorageAttr::get(builder.getContext(), m3::Grid::E4M3);
    return m3::QuantizeOp::create(builder, loc, rows(widthOf(x), storage), x, m3::Grid::E4M3);
  }

  /// Projection, norm of each head and rotation: queries and keys, of attention and index.
  Value rotated(Value x, int64_t layer, StringRef name, int64_t heads, int64_t headDim) {
    Value y = m3::ProjectOp::create(builder, loc, f32Rows(heads * headDim), x,
                                    symbol(layer, (name + "_proj").str()));
    y = m3::HeadNormOp::create(builder, loc, f32Rows(heads * headDim), y,
                               symbol(layer, (name + "_norm").str()), heads,
                               llvm::APFloat(config.normEps));
    return m3::RopeOp::create(builder, loc, rows(heads * headDim), y, table, heads);
  }

  /// FP8 and NVFP4: an error of its inputs moves a code to its neighbour.
  bool cachesCodes() {
    return llvm::is_contained({m3::CacheStorage::FP8, m3::CacheStorage::NVFP4}, cacheType.getKv());
  }

  Value buildLayer(Value h, int64_t layer) {
    RankedTensorType type = cachesCodes() ? f32Rows(config.hidden) : rows(config.hidden);
    Value attention = buildAttention(norm(h, symbol(layer, "input_norm"), type), layer);
    h = add(h, projectF32(attention, symbol(layer, "o_proj")));
    Value n = norm(h, symbol(layer, "post_norm"));
    return config.moeLayer[layer] ? buildExperts(h, n, layer) : add(h, buildDense(n, layer));
  }

  Value buildAttention(Value n, int64_t layer) {
    bool sparse = config.sparseLayer[layer];
    Value q = rotated(n, layer, "q", config.heads, config.headDim);
    Value k = rotated(n, layer, "k", config.kvHeads, config.headDim);
    Value v = m3::ProjectOp::create(builder, loc, rows(config.kvHeads * config.headDim), n,
                                    symbol(layer, "v_proj"));
    if (cacheType.getKv() == m3::CacheStorage::NVFP4)
      q = toE4m3(q);
    Value indexQ, indexK;
    if (sparse) {
      indexQ = rotated(n, layer, "index_q", config.indexHeads, config.indexDim);
      indexK = rotated(n, layer, "index_k", 1, config.indexDim);
      if (cachesCodes())
        indexQ = toE4m3(indexQ);
    }
    m3::CacheWriteOp::create(builder, loc, cache, batch, k, v, indexK, layer);
    auto scale = builder.getF64FloatAttr(1 / std::sqrt(double(config.headDim)));
    auto layerAttr = builder.getI64IntegerAttr(layer);
    auto type = rows(config.heads * config.headDim);
    if (!sparse)
      return m3::DenseAttentionOp::create(builder, loc, type, q, cache, batch, layerAttr, scale);
    Value blocks = selectBlocks(indexQ, layer);
    return m3::SparseAttentionOp::create(builder, loc, type, q, cache, blocks, batch, layerAttr,
                                         scale);
  }

  Value selectBlocks(Value indexQ, int64_t layer) {
    int64_t any = ShapedType::kDynamic;
    auto scoreType = RankedTensorType::get({any, config.indexHeads, any}, f32);
    auto type =
        RankedTensorType::get({any, config.indexHeads, config.topkBlocks}, builder.getI32Type());
    Value scores = m3::IndexScoreOp::create(builder, loc, scoreType, indexQ, cache, batch, layer);
    return m3::BlockTopkOp::create(builder, loc, type, scores, batch, config.topkBlocks,
                                   config.initBlocks, config.localBlocks);
  }

  Value buildDense(Value n, int64_t layer) {
    auto product = [&](StringRef name) {
      return m3::ProjectOp::create(builder, loc, f32Rows(config.denseIntermediate), n,
                                   symbol(layer, name));
    };
    Value gate = product("mlp.gate"), up = product("mlp.up");
    Value z =
        m3::SwigluOp::create(builder, loc, rows(config.denseIntermediate), gate, up,
                             llvm::APFloat(config.swigluAlpha), llvm::APFloat(config.swigluLimit));
    return projectF32(z, symbol(layer, "mlp.down"));
  }

  Value buildExperts(Value h, Value n, int64_t layer) {
    MLIRContext *context = builder.getContext();
    auto reference = [&](StringRef name) {
      return FlatSymbolRefAttr::get(context, symbol(layer, name));
    };
    auto idType =
        RankedTensorType::get({ShapedType::kDynamic, config.expertsPerToken}, builder.getI32Type());
    auto route = m3::RouteOp::create(
        builder, loc, idType, f32Rows(config.expertsPerToken), n, reference("router"),
        config.routingBias ? reference("router_bias") : FlatSymbolRefAttr(),
        builder.getI64IntegerAttr(config.expertsPerToken),
        builder.getF64FloatAttr(config.routedScale));
    Value y = m3::ExpertsOp::create(builder, loc, f32Rows(config.hidden), n, route.getIds(),
                                    route.getWeights(), symbol(layer, "experts.gate"),
                                    symbol(layer, "experts.up"), symbol(layer, "experts.down"),
                                    config.swigluAlpha, config.swigluLimit);
    h = add(h, y);
    if (config.sharedExperts == 0)
      return h;
    Value shared = m3::SharedExpertOp::create(
        builder, loc, n.getType(), n, symbol(layer, "shared.gate"), symbol(layer, "shared.up"),
        symbol(layer, "shared.down"), llvm::APFloat(config.swigluAlpha),
        llvm::APFloat(config.swigluLimit));
    return add(h, widen(shared));
  }

  OpBuilder &builder;
  Location loc;
  const ModelConfig &config;
  m3::CacheType cacheType;
  Type f32, element;
  Value batch, cache, table;
};

} // namespace

m3::CacheStorage defaultCacheStorage(const ModelConfig &config,
                                     const std::vector<Weight> &weights) {
  bool packedExperts = llvm::any_of(
      weights, [](const Weight &weight) { return weight.encoding == WeightEncoding::Nvfp4Packed; });
  bool allSparse = llvm::all_of(config.sparseLayer, [](bool sparse) { return sparse; });
  return packedExperts && allSparse ? m3::CacheStorage::NVFP4 : m3::CacheStorage::FP8;
}

std::optional<m3::Activations> readNumerics(const std::vector<std::string> &entries) {
  std::optional<m3::Activations> activations;
  for (const std::string &entry : entries) {
    auto [name, value] = StringRef(entry).split('=');
    std::optional<m3::Activations> before = activations;
    activations = m3::symbolizeActivations(value);
    if (name == "activations" && before && activations && before != activations)
      throw Error("activations are chosen twice", "--numerics",
                  "'" + entry + "' contradicts the choice before it", "say one of them",
                  ExitCode::Usage);
    if (name != "activations" || !activations)
      throw Error("'" + entry + "' is no choice of numerics", "--numerics", "",
                  "the choices are activations=f32 and activations=bf16", ExitCode::Usage);
  }
  return activations;
}

m3::CacheGrid defaultGrid(m3::CacheStorage kv) {
  return kv == m3::CacheStorage::NVFP4 ? m3::CacheGrid::E4M3 : m3::CacheGrid::Exact;
}

void loadGraphDialects(MLIRContext &context) {
  context.loadDialect<m3::M3Dialect, func::FuncDialect, arith::ArithDialect>();
}

OwningOpRef<ModuleOp> buildGraph(MLIRContext &context, const ModelConfig &config,
                                 const std::vector<Weight> &weights, const GraphOptions &options) {
  loadGraphDialects(context);
  OpBuilder builder(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getUnknownLoc(), "minimax_m3");
  builder.setInsertionPointToStart(module->getBody());
  std::string reason;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (reason.empty())
      reason = diagnostic.str();
    return success();
  });
  declareWeights(builder, weights);
  auto cacheType = m3::CacheType::getChecked([&] { return emitError(builder.getUnknownLoc()); },
                                             &context, options.kv, options.grid, config.blockSize,
                                             config.layers, config.kvHeads, config.headDim,
                                             config.anySparse() ? config.indexDim : 0);
  if (!cacheType)
    throw Error("this model cannot have a cache of this kind", "", reason,
                "choose another --kv or check the configuration");
  StepBuilder(builder, config, cacheType, options.activations).build();
  if (failed(verify(*module)))
    throw Error("the configuration contradicts itself", "the model's graph", reason,
                "check config.json against the checkpoint's tensors");
  return module;
}

} // namespace m3c
