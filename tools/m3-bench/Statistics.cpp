#include "tools/m3-bench/Statistics.h"

#include "runtime/base/Error.h"

#include <algorithm>
#include <cmath>

namespace m3c::bench {

namespace {

double quantile(const std::vector<double> &sorted, double share) {
  double at = share * double(sorted.size() - 1);
  size_t below = size_t(std::floor(at)), above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - double(below)) * (sorted[above] - sorted[below]);
}

} // namespace

Summary summarise(std::vector<double> values) {
  if (values.empty())
    throw Error("nothing was measured", "m3-bench");
  std::sort(values.begin(), values.end());
  return {values.size(), quantile(values, 0.5), quantile(values, 0.1), quantile(values, 0.9)};
}

Comparison compare(const Metric &before, const Metric &after) {
  const Summary &a = before.value, &b = after.value;
  Comparison result;
  result.ratio = before.larger ? b.median / a.median : a.median / b.median;
  result.clear = b.low > a.high || b.high < a.low;
  return result;
}

} // namespace m3c::bench
