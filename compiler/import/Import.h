// Reads a model folder into what the compiler works on. Only the small JSON files, the headers of
// the shards and the tokenizer are read; no tensor is.
#pragma once

#include "models/minimax_m3/WeightMap.h"
#include "runtime/checkpoint/CheckpointDigests.h"
#include "runtime/text/TextConfig.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace m3c {

struct ImportOptions {
  bool strict = false; ///< refuse keys and tensors that m3c does not know
  int64_t ranks = 1;   ///< one rank's part of the model, of a folder with config.json alone
  int64_t layers = 0;  ///< its first layers alone, likewise; 0 = all
};

struct ImportedModel {
  std::string folder;
  ModelConfig config;
  std::vector<Weight> weights;
  Findings findings;
  CheckpointDigests digests;
  /// What the files beside the weights say about generation; nothing without a tokenizer.
  std::optional<text::TextConfig> generation;
  /// The open headers; `hasTensors()` is false for a folder with config.json alone, whose weights
  /// are synthetic.
  std::shared_ptr<const Checkpoint> checkpoint;
};

/// Throws Error for anything that a correct model folder does not have.
ImportedModel importModel(const std::filesystem::path &folder, const ImportOptions &options = {});

} // namespace m3c
