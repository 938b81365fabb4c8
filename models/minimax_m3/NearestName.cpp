#include "models/minimax_m3/NearestName.h"

#include <algorithm>
#include <numeric>

namespace m3c {

constexpr size_t maxNames = 2000;
constexpr size_t maxLength = 200;

/// Inserted, removed and replaced characters between the two (Levenshtein).
static size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string_view nearestName(std::string_view name,
                             const std::vector<std::string_view> &candidates) {
  std::string_view best;
  size_t least = std::min(name.size(), maxLength) / 4 + 1;
  for (size_t i = 0; i < std::min(candidates.size(), maxNames); ++i) {
    if (std::max(name.size(), candidates[i].size()) > maxLength)
      continue;
    size_t distance = editDistance(name, candidates[i]);
    if (distance < least) {
      least = distance;
      best = candidates[i];
    }
  }
  return best;
}

} // namespace m3c
