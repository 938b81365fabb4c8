// How many sequences of what length fit beside the weights: the arithmetic of `m3c capacity`.
#pragma once

#include "models/minimax_m3/WeightMap.h"

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace m3c {

/// What one model puts into memory. Sizes in bytes.
struct ModelFootprint {
  std::string name;
  int64_t layers = 0, kvHeads = 0, headDim = 0, indexDim = 0;
  int64_t maxPositions = 0; ///< tokens of a sequence at most
  double routedBytes = 0;   ///< routed experts
  double restBytes = 0;     ///< everything else of the checkpoint
  std::string weights = {}; ///< how they are stored, for people
  std::string defaultCache = {};
  std::vector<std::string> assumptions = {}; ///< about the figures above
};

/// M3.1 and M3 in MXFP8 at full size: routed experts from their shapes, the rest as the published
/// size of the repository less those.
std::vector<ModelFootprint> builtInFootprints();

/// A model that was read: routed experts and the rest by the stored sizes of its weight map, and
/// what was left out (vision, drafter) among the rest.
ModelFootprint footprintOf(const std::string &name, const ModelConfig &config,
                           const std::vector<Weight> &weights, const Findings &findings);

/// Storage of the cache by name: "f32", "bf16", "fp8", "nvfp4". Bytes of `elements` values of one
/// token and head.
double cacheBytes(const std::string &type, int64_t elements);
const std::vector<std::string> &cacheTypes();

/// How the model is spread: `tp` ranks share every matrix and the KV heads, `dp` copies of
/// attention each serve their own sequences; routed experts are spread over all chips.
struct Parallelism {
  std::string name;
  int64_t tensor = 1, data = 1;
  int64_t chips() const { return tensor * data; }
};

/// Reads "depN" (data-parallel attention, expert parallel), "tpN" or "tpNdpM". Throws Error.
Parallelism parseParallelism(const std::string &text);

struct CapacityQuery {
  std::string chip;
  double memoryBytes = 0;    ///< of one chip
  double usableShare = 0.95; ///< of the memory
  int64_t count = 1;         ///< chips; a multiple of what the parallelism takes
  Parallelism parallel;
  int64_t context = 0; ///< tokens of every sequence
  std::string cache;   ///< a cache type, or "" for the model's default
};

struct CapacityRow {
  CapacityQuery query;
  std::string model, weights, cache;
  double kvBytesPerToken = 0, indexBytesPerToken = 0; ///< of the whole model
  double kvBytesPerTokenChip = 0, indexBytesPerTokenChip = 0;
  double routedBytes = 0, restBytes = 0;         ///< of the whole model
  double weightBytesChip = 0, freeBytesChip = 0; ///< free may be negative: does not fit
  int64_t sequencesPerGroup = 0;                 ///< one attention replica (a chip under depN)
  int64_t sequences = 0;                         ///< on all chips
  double tokens = 0;                             ///< that the cache of all chips holds
};

/// Throws Error when `count` is no multiple of the chips that the parallelism takes, and when the
/// model has no positions for the context.
CapacityRow capacityRow(const ModelFootprint &model, const CapacityQuery &query);

/// What the arithmetic takes for granted, in sentences.
std::vector<std::string> capacityAssumptions();

nlohmann::ordered_json capacityJson(const std::vector<ModelFootprint> &models,
                                    const std::vector<CapacityRow> &rows);
std::string capacityText(const std::vector<ModelFootprint> &models,
                         const std::vector<CapacityRow> &rows);

} // namespace m3c
