#include "tests/unit/runtime/ToyPlan.h"

#include "runtime/base/MappedFile.h"

namespace m3c::test {

using namespace m3c::plan;

namespace {

std::unique_ptr<ArgT> arg(ArgKind kind, uint32_t index, uint64_t offset, int64_t value = 0) {
  auto result = std::make_unique<ArgT>();
  result->kind = kind;
  result->index = index;
  result->offset = offset;
  result->value = value;
  return result;
}

/// With what a launch does with it.
std::unique_ptr<ArgT> used(std::unique_ptr<ArgT> arg, Access access, uint64_t rowBytes,
                           uint64_t fixedBytes) {
  arg->access = access;
  arg->row_bytes = rowBytes;
  arg->fixed_bytes = fixedBytes;
  return arg;
}

std::unique_ptr<ArgT> batch(BatchArray array) {
  return used(arg(ArgKind::Batch, uint32_t(array), 0), Access::Read, 0, 0);
}

std::unique_ptr<KernelT> kernel(const std::string &name, uint32_t params, uint32_t section) {
  auto result = std::make_unique<KernelT>();
  result->name = name;
  result->family = "toy";
  result->params = params;
  result->schedule = "by hand";
  auto object = std::make_unique<CodeObjectT>();
  object->chip = "generic";
  object->section = section;
  object->symbol = name;
  result->objects.push_back(std::move(object));
  return result;
}

constexpr uint64_t pageBytes = 1024; // 512 used: one int32 a token
constexpr uint64_t blocksOffset = 0, expertsOffset = 4096, logitsOffset = 8192;

std::unique_ptr<LaunchT> launch(uint32_t kernelIndex, const std::string &label, uint32_t rows) {
  auto result = std::make_unique<LaunchT>();
  result->kernel = kernelIndex;
  result->label = label;
  result->grid_x = std::make_unique<GridDim>(rows, 0);
  result->grid_y = std::make_unique<GridDim>(1, 0);
  result->grid_z = std::make_unique<GridDim>(1, 0);
  for (BatchArray array : {BatchArray::Counts, BatchArray::TokenIds, BatchArray::Positions,
                           BatchArray::SequenceOfRow, BatchArray::PageTable})
    result->args.push_back(batch(array));
  result->args.push_back(used(arg(ArgKind::CachePool, 0, 0),
                              kernelIndex == 0 ? Access::ReadWrite : Access::Read, 0, 512));
  result->args.push_back(arg(ArgKind::Scalar, 0, 0, pageBytes));
  return result;
}

std::unique_ptr<TapT> tap(TapKind kind, uint64_t offset) {
  auto result = std::make_unique<TapT>();
  result->kind = kind;
  result->after_launch = 1;
  result->offset = offset;
  result->row_bytes = 8;
  return result;
}

std::unique_ptr<BucketT> bucket(uint32_t rows, uint32_t vocab) {
  auto result = std::make_unique<BucketT>();
  result->rows = rows;
  result->logit_rows = rows;
  result->logits_offset = logitsOffset;
  result->arena_bytes = logitsOffset + uint64_t(rows) * vocab * 4;
  result->launches.push_back(launch(0, "layers.0.insert", rows));
  result->launches.push_back(launch(1, "layers.0.route", rows));
  result->launches[1]->args.push_back(
      used(arg(ArgKind::Arena, 0, blocksOffset), Access::Write, 8, 0));
  result->launches[1]->args.push_back(
      used(arg(ArgKind::Arena, 0, expertsOffset), Access::Write, 8, 0));
  result->launches.push_back(launch(2, "head", rows));
  auto &head = result->launches[2]->args;
  head.push_back(batch(BatchArray::LogitRows));
  head.push_back(used(arg(ArgKind::Arena, 0, logitsOffset), Access::Write, 4ull * vocab, 0));
  head.push_back(used(arg(ArgKind::Weight, 0, 0), Access::Read, 0, 4ull * vocab));
  head.push_back(arg(ArgKind::Scalar, 0, 0, vocab));
  result->taps.push_back(tap(TapKind::Blocks, blocksOffset));
  result->taps.push_back(tap(TapKind::Experts, expertsOffset));
  return result;
}

std::unique_ptr<WeightBufferT> scaleWeight(uint32_t vocab) {
  auto piece = std::make_unique<WeightPieceT>();
  piece->tensor = "scale";
  piece->dtype = "F32";
  piece->shape = {vocab};
  auto result = std::make_unique<WeightBufferT>();
  result->symbol = "scale";
  result->recipe = Recipe::Raw;
  result->bytes = vocab * 4;
  result->pieces.push_back(std::move(piece));
  return result;
}

} // namespace

std::vector<std::byte> testKernelCode() {
  MappedFile file = MappedFile::open(M3C_TEST_KERNELS);
  return {file.bytes().begin(), file.bytes().end()};
}

TablesT toyTables(uint32_t codeSection, const ToyOptions &options) {
  TablesT tables;
  tables.model = std::make_unique<ModelT>();
  ModelT &model = *tables.model;
  model.model_type = "toy";
  model.layers = model.heads = model.kv_heads = 1;
  model.hidden = 16;
  model.head_dim = 128;
  model.vocab = options.vocab;
  model.max_positions = options.maxPositions;
  model.bos_token = 0;
  model.eos_token = 1;
  model.topk_blocks = 2;
  model.experts = 6;
  model.experts_per_token = 2;
  model.sparse_layers = {true};
  model.moe_layers = {true};
  tables.cache = std::make_unique<CacheT>();
  tables.cache->page_bytes = pageBytes;
  tables.cache->slot_bytes = 256;
  tables.cache->layers.push_back(std::make_unique<CacheLayerT>());
  tables.weights.push_back(scaleWeight(options.vocab));
  tables.kernels.push_back(kernel("toy_insert", 7, codeSection));
  tables.kernels.push_back(kernel("toy_taps", 9, codeSection));
  tables.kernels.push_back(kernel("toy_logits", 11, codeSection));
  auto target = std::make_unique<TargetT>();
  target->name = "toy";
  target->chip = "generic";
  target->required_features = options.features;
  target->proof = "executed";
  for (uint32_t rows : options.buckets)
    target->buckets.push_back(bucket(rows, options.vocab));
  tables.targets.push_back(std::move(target));
  return tables;
}

PlanWriter toyPlan(const ToyOptions &options) {
  PlanWriter writer;
  std::vector<std::byte> bytes = testKernelCode();
  if (!options.code.empty())
    bytes.assign(reinterpret_cast<const std::byte *>(options.code.data()),
                 reinterpret_cast<const std::byte *>(options.code.data() + options.code.size()));
  uint32_t code = writer.addSection(SectionKind::Code, bytes);
  TablesT tables = toyTables(code, options);
  if (!options.source.empty()) {
    uint32_t source = writer.addSection(SectionKind::Source, options.source);
    for (auto &kernel : tables.kernels)
      for (auto &object : kernel->objects)
        object->source_section = int32_t(source);
    auto header = std::make_unique<NamedSectionT>();
    header->name = "tile.h";
    header->section = writer.addSection(SectionKind::Extra, "// tiles");
    tables.targets[0]->headers.push_back(std::move(header));
    tables.targets[0]->build_options = {"--std=c++20"};
    tables.targets[0]->source_features = options.sourceFeatures;
  }
  writer.setTables(tables);
  writer.setManifest(R"({"model": "toy"})");
  return writer;
}

float toyLogit(const std::vector<int32_t> &tokens, uint32_t v) {
  uint32_t hash = 1;
  for (size_t p = 0; p < tokens.size(); ++p)
    hash = hash * 31 + uint32_t(tokens[p]) * 7 + uint32_t(p);
  return (1 + float(v) / 64) * float((hash ^ uint32_t(v * 2654435761u)) % 4096);
}

} // namespace m3c::test
