#include "compiler/planfile/PlanBuilder.h"

#include "compiler/planfile/BucketTables.h"
#include "dialects/plan/Plan.h"
#include "runtime/base/Error.h"
#include "runtime/base/Hash.h"

#include <fmt/format.h>

namespace m3c {

namespace {

// The dialect and the schema number their enumerations alike.
static_assert(int(planir::Recipe::Raw) == int(plan::Recipe::Raw) &&
              int(planir::Recipe::ToF32) == int(plan::Recipe::ToF32) &&
              int(planir::Recipe::PanelWords) == int(plan::Recipe::PanelWords) &&
              int(planir::Recipe::PanelScales) == int(plan::Recipe::PanelScales) &&
              int(planir::Recipe::FragmentWords) == int(plan::Recipe::FragmentWords) &&
              int(planir::Recipe::FragmentScales) == int(plan::Recipe::FragmentScales) &&
              int(planir::Recipe::Scalar) == int(plan::Recipe::Scalar) &&
              int(planir::Recipe::Reciprocal) == int(plan::Recipe::Reciprocal));
static_assert(int(planir::CacheType::F32) == int(plan::CacheType::F32) &&
              int(planir::CacheType::Bf16) == int(plan::CacheType::Bf16) &&
              int(planir::CacheType::Fp8) == int(plan::CacheType::Fp8) &&
              int(planir::CacheType::Nvfp4) == int(plan::CacheType::Nvfp4));
static_assert(int(planir::CacheGrid::Exact) == int(plan::CacheGrid::Exact) &&
              int(planir::CacheGrid::E4m3) == int(plan::CacheGrid::E4m3));

template <typename Op> Op onlyOp(mlir::ModuleOp module, const char *what) {
  auto ops = module.getOps<Op>();
  if (ops.empty() || std::next(ops.begin()) != ops.end())
    throw Error(fmt::format("a plan needs exactly one {}", what), "module");
  return *ops.begin();
}

std::unique_ptr<plan::ModelT> modelTable(const ModelConfig &config) {
  auto model = std::make_unique<plan::ModelT>();
  model->model_type = config.modelType;
  model->layers = uint32_t(config.layers);
  model->hidden = uint32_t(config.hidden);
  model->heads = uint32_t(config.heads);
  model->kv_heads = uint32_t(config.kvHeads);
  model->head_dim = uint32_t(config.headDim);
  model->vocab = uint32_t(config.vocab);
  model->max_positions = uint64_t(config.maxPositions);
  model->bos_token = int32_t(config.bosToken);
  model->eos_token = int32_t(config.eosToken);
  model->pad_token = int32_t(config.padToken);
  model->topk_blocks = uint32_t(config.topkBlocks);
  model->experts = uint32_t(config.experts);
  model->experts_per_token = uint32_t(config.expertsPerToken);
  model->sparse_layers.assign(config.sparseLayer.begin(), config.sparseLayer.end());
  model->moe_layers.assign(config.moeLayer.begin(), config.moeLayer.end());
  return model;
}

std::unique_ptr<plan::CacheT> cacheTable(planir::CacheOp op) {
  auto cache = std::make_unique<plan::CacheT>();
  cache->type = plan::CacheType(op.getType());
  cache->grid = plan::CacheGrid(op.getGrid());
  cache->page_tokens = uint32_t(op.getPageTokens());
  cache->page_bytes = uint64_t(op.getPageBytes());
  cache->slot_bytes = uint64_t(op.getSlotBytes());
  for (auto [kv, index] : llvm::zip(op.getKvOffsets(), op.getIndexOffsets())) {
    auto layer = std::make_unique<plan::CacheLayerT>();
    layer->kv_offset = kv;
    layer->index_offset = index;
    cache->layers.push_back(std::move(layer));
  }
  return cache;
}

std::unique_ptr<plan::WeightPieceT> pieceTable(mlir::DictionaryAttr attribute) {
  auto piece = std::make_unique<plan::WeightPieceT>();
  auto number = [&](llvm::StringRef key, int64_t otherwise) {
    auto value = attribute.getAs<mlir::IntegerAttr>(key);
    return value ? value.getInt() : otherwise;
  };
  piece->tensor = attribute.getAs<mlir::StringAttr>("tensor").str();
  piece->dtype = attribute.getAs<mlir::StringAttr>("dtype").str();
  auto shape = attribute.getAs<mlir::DenseI64ArrayAttr>("shape").asArrayRef();
  piece->shape.assign(shape.begin(), shape.end());
  piece->first_panel = uint32_t(number("first_panel", 0));
  piece->panel_step = uint32_t(number("panel_step", 1));
  piece->dest_offset = uint64_t(number("dest_offset", 0));
  return piece;
}

std::unique_ptr<plan::WeightBufferT> weightTable(planir::WeightBufferOp op) {
  auto weight = std::make_unique<plan::WeightBufferT>();
  weight->symbol = op.getSymName().str();
  weight->recipe = plan::Recipe(op.getRecipe());
  weight->bits = uint32_t(op.getBits());
  weight->bytes = uint64_t(op.getBytes());
  weight->row_length = uint64_t(op.getRowLength());
  weight->panels = uint32_t(op.getPanels());
  weight->abreast = uint32_t(op.getAbreast());
  for (mlir::Attribute piece : op.getPieces())
    weight->pieces.push_back(pieceTable(llvm::cast<mlir::DictionaryAttr>(piece)));
  return weight;
}

// Adds sections of one kind, equal ones once.
class Sections {
public:
  Sections(plan::PlanWriter &writer, plan::SectionKind kind) : writer(writer), kind(kind) {}
  uint32_t add(std::span<const std::byte> bytes) {
    auto [known, isNew] = sections.try_emplace(hash128(bytes).hex(), 0u);
    if (isNew)
      known->second = writer.addSection(kind, bytes);
    return known->second;
  }
  uint32_t add(const std::string &text) { return add(std::as_bytes(std::span(text))); }

private:
  plan::PlanWriter &writer;
  plan::SectionKind kind;
  std::map<std::string, uint32_t> sections;
};

std::unique_ptr<plan::KernelT> kernelTable(const std::string &name, const KernelBuild &build,
                                           Sections &code, Sections &sources) {
  auto kernel = std::make_unique<plan::KernelT>();
  kernel->name = name;
  kernel->family = build.family;
  kernel->params = build.params;
  kernel->schedule = build.schedule;
  for (const KernelObject &object : build.objects) {
    auto table = std::make_unique<plan::CodeObjectT>();
    table->chip = object.chip;
    table->symbol = name;
    table->shared_bytes = object.shape.sharedBytes;
    table->threads = object.shape.threads;
    table->cluster = object.shape.cluster;
    table->overlaps = object.shape.overlaps;
    table->registers = object.shape.registers;
    table->spill_bytes = object.shape.spillBytes;
    table->section = code.add(object.bytes);
    table->elements = object.elements;
    if (!object.source.empty())
      table->source_section = int32_t(sources.add(object.source));
    kernel->objects.push_back(std::move(table));
  }
  if (!build.source.empty())
    kernel->source_section = int32_t(sources.add(build.source));
  return kernel;
}

} // namespace

namespace {

/// Adds the target's weight buffers that no target before it has; the same symbol means the same
/// buffer.
void addWeights(mlir::ModuleOp module, plan::TablesT &tables, SymbolIndices &indices) {
  for (auto weight : module.getOps<planir::WeightBufferOp>()) {
    auto [known, isNew] =
        indices.weights.try_emplace(weight.getSymName().str(), uint32_t(tables.weights.size()));
    std::unique_ptr<plan::WeightBufferT> table = weightTable(weight);
    if (isNew)
      tables.weights.push_back(std::move(table));
    else if (*tables.weights[known->second] != *table)
      throw Error(fmt::format("targets make weight buffer {} differently", known->first), "module");
  }
}

std::unique_ptr<plan::TargetT> targetTable(const PlanTarget &target, const SymbolIndices &indices,
                                           const plan::TablesT &tables, Sections &extras) {
  auto table = std::make_unique<plan::TargetT>();
  table->name = target.name;
  table->chip = target.chip;
  table->required_features = target.requiredFeatures;
  table->proof = target.proof;
  for (const auto &[path, text] : target.headers) {
    auto header = std::make_unique<plan::NamedSectionT>();
    header->name = path;
    header->section = extras.add(text);
    table->headers.push_back(std::move(header));
  }
  table->build_options = target.buildOptions;
  table->source_features = target.sourceFeatures;
  table->fallback_chip = target.fallbackChip;
  table->fallback_features = target.fallbackFeatures;
  auto program = onlyOp<planir::ProgramOp>(target.module, "plan.program");
  for (auto bucket : program.getBody().front().getOps<planir::BucketOp>())
    table->buckets.push_back(bucketTable(bucket, indices, tables));
  return table;
}

} // namespace

plan::PlanWriter buildPlan(const PlanContent &content) {
  plan::PlanWriter writer;
  plan::TablesT tables;
  SymbolIndices indices;
  tables.model = modelTable(content.config);
  for (const PlanTarget &target : content.targets) {
    auto cache = cacheTable(onlyOp<planir::CacheOp>(target.module, "plan.cache"));
    if (tables.cache && *tables.cache != *cache)
      throw Error("targets lay the cache out differently", target.chip);
    tables.cache = std::move(cache);
    addWeights(target.module, tables, indices);
  }
  Sections code(writer, plan::SectionKind::Code), sources(writer, plan::SectionKind::Source),
      extras(writer, plan::SectionKind::Extra);
  for (const auto &[name, build] : content.kernels) {
    indices.kernels[name] = uint32_t(tables.kernels.size());
    tables.kernels.push_back(kernelTable(name, build, code, sources));
  }
  for (const PlanTarget &target : content.targets)
    tables.targets.push_back(targetTable(target, indices, tables, extras));
  for (const auto &[name, text] : content.extras) {
    auto extra = std::make_unique<plan::NamedSectionT>();
    extra->name = name;
    extra->section = extras.add(text);
    tables.extras.push_back(std::move(extra));
  }
  writer.setTables(tables);
  writer.setManifest(content.manifest);
  return writer;
}

} // namespace m3c
