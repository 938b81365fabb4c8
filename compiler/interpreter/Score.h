// Scores sequences and continues prompts with the interpreter: the outputs of `m3-run score`.
#pragma once

#include "compiler/import/Import.h"
#include "compiler/interpreter/Interpreter.h"

#include <functional>

namespace m3c::interpreter {

struct SequenceScore {
  std::vector<float> lastLogits;  ///< [V]
  std::vector<float> nextLogprob; ///< [T-1]
  std::vector<int32_t> argmax;    ///< [T]
  std::vector<int32_t> blocks;    ///< [layers, KV heads, k], the last token's choice, -1 padded
  std::vector<int32_t> experts;   ///< [MoE layers, T, top-k]
};

class Scorer {
public:
  /// `module` is what buildGraph gives for `config`. `chunk` rows are run at a time.
  Scorer(mlir::ModuleOp module, const ModelConfig &config, WeightSource &weights, unsigned threads,
         int64_t chunk);

  SequenceScore score(const std::vector<int32_t> &ids);
  /// Exactly `steps` greedy tokens; the end-of-text token does not stop it.
  std::vector<int32_t> greedy(const std::vector<int32_t> &prompt, int64_t steps);

private:
  struct Sequence;
  /// Runs `ids` from `position` on; returns the logits of the last row, or of all.
  Tensor step(Sequence &sequence, std::span<const int32_t> ids, bool allLogits);
  void check(const std::vector<int32_t> &ids, int64_t length) const;

  mlir::func::FuncOp function;
  const ModelConfig &config;
  Interpreter interpreter;
  CacheShape shape;
  int64_t chunk;
};

struct ScoreOptions {
  int64_t maxTokens = 32;
  bool traceBlocks = false, traceExperts = false;
};

/// What a file asked for.
struct ScoreCounts {
  size_t texts = 0, prompts = 0;
};

/// For every `ids.X` of the input file the score's tensors, for every `prompt.X` `greedy.X`,
/// written as one file. Throws Error when the file has neither. `progress` is told the name of the
/// tensor that is worked on.
ScoreCounts
scoreFile(Scorer &scorer, const ModelConfig &config, const std::string &input,
          const std::string &output, const ScoreOptions &options,
          const std::function<void(size_t done, size_t total, const std::string &)> &progress);

} // namespace m3c::interpreter
