// Scores the texts of an input file with a session.
#pragma once

#include "runtime/schedule/Session.h"
#include "runtime/score/ScoreFile.h"

namespace m3c {

struct ScoreOptions {
  uint32_t chunk = 512;    ///< most tokens of one text in a step
  uint32_t batch = 1;      ///< texts at once
  uint32_t maxTokens = 32; ///< tokens generated for each prompt
  bool traceBlocks = false, traceExperts = false;
};

/// Pages and sequences that scoring needs.
SessionOptions scoreSession(const Engine &engine, const ScoreInput &input,
                            const ScoreOptions &options);

/// Throws Error naming the tensor of the first text, or prompt with its continuation, that is
/// longer than the model's context or the pages of `session`.
void checkLengths(const Engine &engine, const ScoreInput &input, const ScoreOptions &options,
                  const SessionOptions &session);

/// Runs everything and returns the output file's tensors. `progress` is called with tokens done and
/// tokens in all.
SafetensorsWriter score(const Engine &engine, Session &session, const ScoreInput &input,
                        const ScoreOptions &options,
                        const std::function<void(uint64_t done, uint64_t total)> &progress = {});

/// Token count of all texts and continuations, the total that `score` reports.
uint64_t scoreTokens(const ScoreInput &input, const ScoreOptions &options);

} // namespace m3c
