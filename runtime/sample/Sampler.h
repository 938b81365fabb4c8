// Choosing the next token from a row of logits.
//
// Order of the filters: temperature, then top-k, then top-p.
//   1. p = softmax(logits / temperature), computed in double from differences to the largest logit.
//   2. top-k keeps the k most probable tokens and renormalises.
//   3. top-p keeps the smallest set of most probable tokens whose mass reaches p: the token that
//      crosses p is kept, so the set is never empty, and an exact sum of p is enough (within 1e-6:
//      the mass is known no better than FP32 logits). The rest is renormalised.
//   4. one token is drawn with the random number of (seed, position).
// Among equal logits the lower id counts as the more probable one, everywhere. Temperatures below
// 1e-6, 0 included, mean greedy: the largest logit wins.
//
// The draw is a function of (logits, parameters, position) alone, position being that of the new
// token in its own sequence: a seeded request gets the same text in any batch. A logit of −infinity
// marks a token that is not allowed; NaN and +infinity are errors, never a silent token 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace m3c::sample {

struct SamplingParameters {
  double temperature = 1.0; ///< [0, infinity)
  uint32_t topK = 0;        ///< 0: off
  double topP = 1.0;        ///< (0, 1]; 1: off
  uint64_t seed = 0;
};

/// Throws Error naming the parameter, its value and its range.
void checkParameters(const SamplingParameters &parameters);

struct SampledToken {
  int32_t id;
  /// Natural logarithm of the token's probability in the model's own distribution: softmax of the
  /// logits as they came, before temperature and filters. Always finite.
  double logProb;
};

/// log Σ exp(logits), in double. Throws Error, naming `position` and the token, on NaN or
/// +infinity, and when no logit is finite.
double logSumExp(std::span<const float> logits, uint64_t position = 0);

/// Log-probability of token `id` under softmax(logits); −infinity for a token that is not allowed.
double logProbOf(std::span<const float> logits, int32_t id, uint64_t position = 0);

/// The token with the largest logit, the lowest id among equals. Throws like `logSumExp`.
int32_t argmax(std::span<const float> logits, uint64_t position = 0);

/// Scratch memory for one thread; allocates on the first row of a size, then never again.
class Sampler {
public:
  /// Draws the token at `position` (0-based, in its own sequence) from `logits` [vocabulary].
  /// `parameters` must have passed `checkParameters`.
  SampledToken sample(std::span<const float> logits, const SamplingParameters &parameters,
                      uint64_t position);

  /// Leaves in `candidates()` the tokens that survive the filters (best first if there was a
  /// filter, else by id) and returns the sum of their weights.
  double filter(std::span<const float> logits, const SamplingParameters &parameters,
                uint64_t position);

  struct Candidate {
    float logit;
    int32_t id;
    double weight; ///< exp((logit − largest) / temperature)
  };
  const std::vector<Candidate> &candidates() const { return kept; }

private:
  size_t cutToMass(double topP, double total);

  std::vector<Candidate> kept;
};

} // namespace m3c::sample
