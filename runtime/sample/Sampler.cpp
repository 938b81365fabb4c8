#include "runtime/sample/Sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "runtime/base/Error.h"
#include "runtime/sample/Philox.h"

namespace m3c::sample {

namespace {

constexpr double greedyBelow = 1e-6; // temperature
// An FP32 logit of magnitude 16 is rounded by up to 2^-20, which moves its probability by about
// 1e-6.
constexpr double massTolerance = 1e-6;

template <class C> bool better(const C &a, const C &b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

[[noreturn]] void badLogits(uint64_t position, const std::string &why) {
  throw Error("cannot sample from the logits", fmt::format("position {}", position), why,
              "a weight or an earlier result is not finite; `m3c check` finds such weights");
}

/// A row summed up in one pass.
struct Row {
  float largest;
  int32_t best;
};

/// Checks every logit; the largest is finite afterwards.
Row scan(std::span<const float> logits, uint64_t position) {
  Row row{-std::numeric_limits<float>::infinity(), -1};
  for (size_t id = 0; id < logits.size(); ++id) {
    float logit = logits[id];
    // Written so that NaN fails too.
    if (!(logit < std::numeric_limits<float>::infinity()))
      badLogits(position, fmt::format("the logit of token {} is {}", id, logit));
    if (logit > row.largest)
      row = {logit, int32_t(id)};
  }
  if (row.best < 0)
    badLogits(position, fmt::format("none of the {} logits is finite", logits.size()));
  return row;
}

double logSumExpAbove(std::span<const float> logits, float largest) {
  double sum = 0;
  for (float logit : logits)
    sum += std::exp(double(logit) - double(largest));
  return double(largest) + std::log(sum);
}

} // namespace

void checkParameters(const SamplingParameters &parameters) {
  auto refuse = [](const char *name, double value, const char *range) {
    throw Error("sampling parameter out of range", name,
                fmt::format("found {}, expected {}", value, range));
  };
  double temperature = parameters.temperature, topP = parameters.topP;
  if (!(temperature >= 0 && temperature < std::numeric_limits<double>::infinity()))
    refuse("temperature", temperature, "a finite number of at least 0");
  if (!(topP > 0 && topP <= 1))
    refuse("top_p", topP, "more than 0 and at most 1 (for the most probable token: temperature 0)");
}

double logSumExp(std::span<const float> logits, uint64_t position) {
  return logSumExpAbove(logits, scan(logits, position).largest);
}

double logProbOf(std::span<const float> logits, int32_t id, uint64_t position) {
  if (id < 0 || size_t(id) >= logits.size())
    throw Error("token id out of range", fmt::format("position {}", position),
                fmt::format("found {}, expected 0 to {}", id, int64_t(logits.size()) - 1));
  return double(logits[size_t(id)]) - logSumExp(logits, position);
}

int32_t argmax(std::span<const float> logits, uint64_t position) {
  return scan(logits, position).best;
}

double Sampler::filter(std::span<const float> logits, const SamplingParameters &parameters,
                       uint64_t position) {
  float largest = scan(logits, position).largest;
  double temperature = std::max(parameters.temperature, greedyBelow);
  kept.clear();
  kept.reserve(logits.size());
  for (size_t id = 0; id < logits.size(); ++id)
    if (std::isfinite(logits[id]))
      kept.push_back({logits[id], int32_t(id), 0});
  size_t topK = parameters.temperature < greedyBelow ? 1 : parameters.topK;
  if (topK > 0 && topK < kept.size()) {
    std::nth_element(kept.begin(), kept.begin() + ptrdiff_t(topK - 1), kept.end(),
                     better<Candidate>);
    kept.resize(topK);
    std::sort(kept.begin(), kept.end(), better<Candidate>);
  }
  double total = 0;
  for (Candidate &candidate : kept) {
    candidate.weight = std::exp((double(candidate.logit) - double(largest)) / temperature);
    total += candidate.weight;
  }
  kept.resize(cutToMass(parameters.topP, total));
  double mass = 0;
  for (const Candidate &candidate : kept)
    mass += candidate.weight;
  return mass;
}

/// Sorts the best candidates to the front until their mass reaches topP · total; returns their
/// number.
size_t Sampler::cutToMass(double topP, double total) {
  if (topP >= 1)
    return kept.size();
  double needed = (topP - massTolerance) * total, mass = 0;
  // Sorting in growing pieces: the set is small unless the distribution is flat.
  for (size_t begin = 0, piece = 256; begin < kept.size(); piece *= 8) {
    size_t end = std::min(kept.size(), begin + piece);
    auto first = kept.begin() + ptrdiff_t(begin), last = kept.begin() + ptrdiff_t(end);
    if (last != kept.end())
      std::nth_element(first, last, kept.end(), better<Candidate>);
    std::sort(first, last, better<Candidate>);
    for (; begin < end; ++begin) {
      mass += kept[begin].weight;
      if (mass >= needed)
        return begin + 1;
    }
  }
  return kept.size();
}

SampledToken Sampler::sample(std::span<const float> logits, const SamplingParameters &parameters,
                             uint64_t position) {
  Row row = scan(logits, position);
  double total = logSumExpAbove(logits, row.largest);
  auto chosen = [&](int32_t id) { return SampledToken{id, double(logits[size_t(id)]) - total}; };
  if (parameters.temperature < greedyBelow)
    return chosen(row.best);
  double mass = filter(logits, parameters, position);
  double target = philoxUniform(parameters.seed, position) * mass, below = 0;
  int32_t last = row.best;
  for (const Candidate &candidate : kept) {
    if (candidate.weight == 0)
      continue;
    below += candidate.weight;
    last = candidate.id;
    if (target < below)
      return chosen(last);
  }
  return chosen(last); // rounding of the sum may leave target == mass
}

} // namespace m3c::sample
