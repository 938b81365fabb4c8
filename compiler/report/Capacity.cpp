#include "compiler/report/Capacity.h"

#include "runtime/base/Error.h"
#include "runtime/checkpoint/Dtype.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace m3c {

namespace {

// Full-size shapes (docs/model.md), the same in M3 and M3.1.
constexpr int64_t fullLayers = 60, fullMoeLayers = 57, fullExperts = 128, fullHidden = 6144,
                  fullExpertWidth = 3072, fullKvHeads = 4, fullHeadDim = 128,
                  fullPositions = 1048576;
// Published sizes of the repositories, bytes.
constexpr double m31Repository = 250.1e9, m3Mxfp8Repository = 451.5e9;

ModelFootprint fullSize(std::string name, std::string weights, double bytesPerWeight,
                        double repository, std::string cache) {
  ModelFootprint model{std::move(name), fullLayers,  fullKvHeads,
                       fullHeadDim,     fullHeadDim, fullPositions};
  model.routedBytes =
      double(fullMoeLayers * fullExperts * 3 * fullHidden * fullExpertWidth) * bytesPerWeight;
  model.restBytes = repository - model.routedBytes;
  model.weights = std::move(weights);
  model.defaultCache = std::move(cache);
  model.assumptions = {fmt::format("{}: the rest is the published repository of {:.1f} GB less the "
                                   "routed experts, vision tower and MTP module included",
                                   model.name, repository / 1e9)};
  return model;
}

double storedBytes(const Weight &weight) {
  double bytes = 0;
  for (const WeightPart &part : weight.parts) {
    double elements = 1;
    for (int64_t extent : part.shape)
      elements *= double(extent);
    bytes += elements * dtypeBits(*parseDtype(part.dtype)) / 8;
  }
  return bytes;
}

int64_t divideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

} // namespace

std::vector<ModelFootprint> builtInFootprints() {
  // NVFP4: half a byte and an E4M3 scale per 16; MXFP8: a byte and an E8M0 scale per 32.
  return {fullSize("M3.1", "experts NVFP4, rest MXFP8", 0.5 + 1.0 / 16, m31Repository, "nvfp4"),
          fullSize("M3", "MXFP8", 1 + 1.0 / 32, m3Mxfp8Repository, "fp8")};
}

ModelFootprint footprintOf(const std::string &name, const ModelConfig &config,
                           const std::vector<Weight> &weights, const Findings &findings) {
  ModelFootprint model{name,
                       config.layers,
                       config.kvHeads,
                       config.headDim,
                       config.anySparse() ? config.indexDim : 0,
                       config.maxPositions};
  for (const Weight &weight : weights) {
    bool routed = weight.symbol.find(".experts.") != std::string::npos;
    (routed ? model.routedBytes : model.restBytes) += storedBytes(weight);
  }
  for (const auto &[group, left] : findings.leftOut) {
    model.restBytes += double(left.bytes);
    model.assumptions.push_back(
        fmt::format("{}: {} of {:.2f} GB counted among the rest", name, group, left.bytes / 1e9));
  }
  if (findings.leftOut.empty())
    model.assumptions.push_back(name + ": the text model alone, no vision tower or drafter");
  model.weights = fmt::format("experts {}, projections {}", encodingName(config.expertEncoding),
                              encodingName(config.projectionEncoding));
  bool allSparse = std::ranges::all_of(config.sparseLayer, [](bool sparse) { return sparse; });
  model.defaultCache =
      config.expertEncoding == WeightEncoding::Nvfp4Packed && allSparse ? "nvfp4" : "fp8";
  return model;
}

const std::vector<std::string> &cacheTypes() {
  static const std::vector<std::string> types = {"f32", "bf16", "fp8", "nvfp4"};
  return types;
}

double cacheBytes(const std::string &type, int64_t elements) {
  if (type == "f32")
    return 4.0 * double(elements);
  if (type == "bf16")
    return 2.0 * double(elements);
  if (type == "fp8")
    return double(elements);
  if (type == "nvfp4")
    return double(elements) / 2 + double(elements) / 16;
  throw Error(fmt::format("unknown cache type '{}'", type), "--kv", "",
              fmt::format("choose one of {}", fmt::join(cacheTypes(), ", ")), ExitCode::Usage);
}

Parallelism parseParallelism(const std::string &text) {
  Parallelism result{text};
  const char *at = text.data(), *end = at + text.size();
  auto number = [&](std::string_view prefix, int64_t &value) {
    if (std::string_view(at, size_t(end - at)).substr(0, prefix.size()) != prefix)
      return false;
    auto [next, error] = std::from_chars(at + prefix.size(), end, value);
    if (error != std::errc() || value < 1 || value > 4096)
      return false;
    at = next;
    return true;
  };
  bool ok = number("dep", result.data) ||
            (number("tp", result.tensor) && (at == end || number("dp", result.data)));
  if (!ok || at != end)
    throw Error(fmt::format("unknown parallelism '{}'", text), "--parallel", "",
                "use depN, tpN or tpNdpM with numbers up to 4096, for instance dep4, tp4, tp2dp4",
                ExitCode::Usage);
  return result;
}

CapacityRow capacityRow(const ModelFootprint &model, const CapacityQuery &query) {
  const Parallelism &parallel = query.parallel;
  if (query.count % parallel.chips() != 0)
    throw Error(
        fmt::format("{} chips cannot be divided into groups of {}", query.count, parallel.chips()),
        "--count, --parallel", fmt::format("{} takes {}", parallel.name, parallel.chips()),
        "make the count a multiple", ExitCode::Usage);
  if (query.context > model.maxPositions)
    throw Error(fmt::format("{} has no sequences of {} tokens", model.name, query.context),
                "--context", fmt::format("it has {} positions", model.maxPositions),
                "ask for a shorter context", ExitCode::Usage);
  CapacityRow row{query, model.name, model.weights,
                  query.cache.empty() ? model.defaultCache : query.cache};
  double lane = cacheBytes(row.cache, model.headDim) * double(model.layers);
  row.kvBytesPerToken = 2 * double(model.kvHeads) * lane;
  row.indexBytesPerToken = cacheBytes(row.cache, model.indexDim) * double(model.layers);
  // A rank keeps its own KV heads and the whole index key.
  row.kvBytesPerTokenChip = 2 * double(divideUp(model.kvHeads, parallel.tensor)) * lane;
  row.indexBytesPerTokenChip = row.indexBytesPerToken;
  row.routedBytes = model.routedBytes;
  row.restBytes = model.restBytes;
  row.weightBytesChip =
      model.routedBytes / double(parallel.chips()) + model.restBytes / double(parallel.tensor);
  row.freeBytesChip = query.usableShare * query.memoryBytes - row.weightBytesChip;
  double perToken = row.kvBytesPerTokenChip + row.indexBytesPerTokenChip;
  int64_t groups = query.count / parallel.tensor;
  if (row.freeBytesChip > 0) {
    row.sequencesPerGroup = int64_t(row.freeBytesChip / (perToken * double(query.context)));
    row.tokens = std::floor(row.freeBytesChip / perToken) * double(groups);
  }
  row.sequences = row.sequencesPerGroup * groups;
  return row;
}

std::vector<std::string> capacityAssumptions() {
  return {
      "a reconstruction of the published 76 and 28 sequences, not the vendor's own formula",
      "free = usable share x memory - routed / chips of a group - rest / tensor-parallel ranks",
      "sequences = floor(free / (bytes per token x context)) per attention replica, times replicas",
      "the usable share leaves room for activations, code and graphs; the default is 0.95",
      "memory is the data sheet's, in decimal bytes",
      "one index-key lane per layer, dense layers included; tensor-parallel ranks keep their KV "
      "heads and the whole index key",
      "routed experts are spread evenly over the chips of a group",
      "no speculative drafter and no prefix sharing",
  };
}

} // namespace m3c
