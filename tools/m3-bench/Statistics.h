// Statistics of repeated measurements. Times of a shared machine have a long upper tail, so
// everything rests on medians and quantiles, nothing on means or normal distributions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace m3c::bench {

/// The value below which the share `q` (0 to 1) of the samples lies: linear between order
/// statistics, sample i of n standing at (i − 1) / (n − 1). 0 for no samples.
double quantile(std::span<const double> samples, double q);
double median(std::span<const double> samples);

struct Summary {
  size_t count = 0;
  double median = 0;
  double low = 0, high = 0; ///< 10% and 90% quantiles
  double least = 0;         ///< smallest sample

  /// (high − low) / median: how much the samples scatter.
  double spread() const { return median > 0 ? (high - low) / median : 0; }
};
Summary summarise(std::span<const double> samples);

struct Interval {
  double low = 0, high = 0;
};
/// 95% confidence interval of median(numerator) / median(denominator): percentile bootstrap, 2,000
/// resamples of both sides drawn by a fixed seed, so the same samples give the same interval. With
/// fewer than 5 samples on a side a bootstrap says little: then the widest ratio of single samples.
Interval ratioInterval(std::span<const double> numerator, std::span<const double> denominator);

} // namespace m3c::bench
