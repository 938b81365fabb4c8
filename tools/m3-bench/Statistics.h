// What is reported of repeated measurements.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace m3c::bench {

/// Quantiles by linear interpolation between the sorted values (Hyndman and Fan's type 7).
struct Summary {
  size_t samples = 0;
  double median = 0, low = 0, high = 0; ///< low and high: the 10% and 90% quantiles
};

/// Throws Error when there are no values.
Summary summarise(std::vector<double> values);

/// One row of a result file.
struct Metric {
  std::string name, unit;
  bool larger = true; ///< larger is better
  Summary value;
};

/// How two measurements of one metric differ.
struct Comparison {
  double ratio = 1;   ///< new over old, turned so that above 1 is better
  bool clear = false; ///< the 10% to 90% ranges do not overlap
};
Comparison compare(const Metric &before, const Metric &after);

} // namespace m3c::bench
