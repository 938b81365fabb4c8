// The files of `m3-run score` and `m3c interpret`: token ids in, logits and choices out.
#pragma once

#include "runtime/checkpoint/Safetensors.h"

#include <filesystem>
#include <string>
#include <vector>

namespace m3c {

/// Texts of an input file: tensors `ids.X` and `prompt.N`, I32 or I64 of one dimension.
struct ScoreInput {
  struct Text {
    std::string name; ///< X or N
    std::vector<int32_t> ids;
  };
  std::vector<Text> texts;   ///< of `ids.X`, by name
  std::vector<Text> prompts; ///< of `prompt.N`, by name
  std::string file = "";     ///< for messages

  /// Other tensors are ignored. Throws Error naming the tensor for another dtype or shape, for an
  /// empty text and for an id outside [0, vocab), and when there is no text at all.
  static ScoreInput read(const std::filesystem::path &path, uint32_t vocab);
};

/// Results of one text, row by row, in any order of rows.
class TextScore {
public:
  /// `ids` must outlive the score.
  TextScore(std::string name, std::span<const int32_t> ids);

  /// Takes the logits [vocab] after token `token`.
  void addLogits(size_t token, std::span<const float> logits);
  /// Adds last_logits.X, next_logprob.X and argmax.X.
  void write(SafetensorsWriter &out) const;

private:
  std::string name;
  std::span<const int32_t> ids;
  std::vector<float> lastLogits, nextLogProb;
  std::vector<int32_t> argmax;
};

/// Shapes of a trace.
struct TraceShape {
  uint32_t layers = 0, kvHeads = 0, topkBlocks = 0;
  std::vector<uint32_t> moeLayers; ///< ascending layer numbers
  uint32_t expertsPerToken = 0;
};

/// Traced choices of one text.
class TextTrace {
public:
  TextTrace(std::string name, size_t tokens, const TraceShape &shape);

  /// `blocks` [KV heads, top-k] of one layer; only the last token's are kept.
  void addBlocks(uint32_t layer, size_t token, std::span<const int32_t> blocks);
  /// `experts` [experts per token] of one MoE layer.
  void addExperts(uint32_t layer, size_t token, std::span<const int32_t> experts);
  /// Adds blocks.X (I32 [layers, KV heads, top-k], -1 where nothing was given) and experts.X (I32
  /// [MoE layers, T, experts per token]), each where asked for.
  void write(SafetensorsWriter &out, bool withBlocks, bool withExperts) const;

private:
  std::string name;
  size_t tokens;
  const TraceShape &shape;
  std::vector<int32_t> blocks, experts;
};

/// Adds greedy.N.
void writeGreedy(SafetensorsWriter &out, const std::string &name, std::span<const int32_t> ids);

} // namespace m3c
