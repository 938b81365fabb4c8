// What a step must do at least, counted from the plan's tables: bytes that must be read from
// memory, and FP32 operations.
//
// Bytes: each weight buffer that a launch names, once (of a stack of experts only the chosen ones;
// of the embedding only the rows looked up), and of the cache what the positions need: the index
// keys of all earlier tokens, keys and values of the selected ones. Activations stay in caches and
// are not counted. Operations: two for each multiply-add of products, scores and attention.
#pragma once

#include "runtime/plan/plan_generated.h"

#include <string>
#include <vector>

namespace m3c {

/// One step of some sequences of equal length.
struct StepShape {
  uint64_t context = 0;   ///< tokens of each in the cache before it
  uint32_t rows = 1;      ///< tokens of each
  uint32_t logitRows = 1; ///< of each
  /// Experts that its rows chose, by layer; a layer that is missing counts as min(all, rows·top-k).
  std::vector<uint32_t> distinctExperts = {};
  uint32_t requests = 1; ///< sequences

  uint64_t allRows() const { return uint64_t(requests) * rows; }
};

/// "128x1@8192": sequences, tokens of each in the step, tokens before. Throws Error.
StepShape parseShape(const std::string &text);
/// "8192+1", with several sequences "8192+128x1": part of the names of results.
std::string shapeName(const StepShape &shape);

struct Work {
  double bytes = 0, operations = 0;
  Work &operator+=(const Work &other) {
    bytes += other.bytes;
    operations += other.operations;
    return *this;
  }
};

/// Layer in a label such as "layers.3.attention"; −1 without one.
int layerOfLabel(std::string_view label);
/// The label without its layer: "attention".
std::string kindOfLabel(std::string_view label);
/// The same, where attention over all tokens is told from attention over blocks: "dense_attention".
std::string kindOf(const plan::Tables &tables, const plan::Launch &launch);

Work launchWork(const plan::Tables &tables, const plan::Launch &launch, const StepShape &step);

/// Bytes of activations and of new cache rows that a launch reads and writes, by what the plan says
/// of its arguments: rows and blocks of the step, not of the bucket.
struct Traffic {
  double read = 0, written = 0;
};
Traffic launchTraffic(const plan::Tables &tables, const plan::Bucket &bucket,
                      const plan::Launch &launch, const StepShape &step);

/// The bucket of a target that runs a step: the smallest that holds its rows. Null when none does.
const plan::Bucket *bucketFor(const plan::Target &target, const StepShape &step);
/// All launches of that bucket.
Work stepWork(const plan::Tables &tables, const plan::Target &target, const StepShape &step);

} // namespace m3c
