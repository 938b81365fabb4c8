#include "tools/m3-bench/Statistics.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace m3c::bench {

namespace {

double sortedQuantile(const std::vector<double> &sorted, double q) {
  if (sorted.empty())
    return 0;
  double at = q * double(sorted.size() - 1);
  size_t below = size_t(at), above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - double(below)) * (sorted[above] - sorted[below]);
}

std::vector<double> sortedCopy(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

double resampledMedian(std::span<const double> samples, std::mt19937_64 &random) {
  std::vector<double> drawn(samples.size());
  for (double &value : drawn)
    value = samples[random() % samples.size()];
  std::sort(drawn.begin(), drawn.end());
  return sortedQuantile(drawn, 0.5);
}

} // namespace

double quantile(std::span<const double> samples, double q) {
  return sortedQuantile(sortedCopy(samples), q);
}

double median(std::span<const double> samples) { return quantile(samples, 0.5); }

Summary summarise(std::span<const double> samples) {
  std::vector<double> sorted = sortedCopy(samples);
  Summary summary;
  summary.count = sorted.size();
  summary.median = sortedQuantile(sorted, 0.5);
  summary.low = sortedQuantile(sorted, 0.1);
  summary.high = sortedQuantile(sorted, 0.9);
  summary.least = sorted.empty() ? 0 : sorted.front();
  return summary;
}

Interval ratioInterval(std::span<const double> numerator, std::span<const double> denominator) {
  if (numerator.empty() || denominator.empty())
    return {};
  if (std::min(numerator.size(), denominator.size()) < 5) {
    auto [least, most] = std::minmax_element(numerator.begin(), numerator.end());
    auto [under, over] = std::minmax_element(denominator.begin(), denominator.end());
    return {*least / *over, *most / *under};
  }
  std::mt19937_64 random(1);
  std::vector<double> ratios(2000);
  for (double &ratio : ratios) {
    double above = resampledMedian(numerator, random);
    ratio = above / resampledMedian(denominator, random);
  }
  std::sort(ratios.begin(), ratios.end());
  return {sortedQuantile(ratios, 0.025), sortedQuantile(ratios, 0.975)};
}

} // namespace m3c::bench
