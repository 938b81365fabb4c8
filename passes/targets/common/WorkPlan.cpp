#include "passes/targets/common/WorkPlan.h"

#include <algorithm>

namespace m3c {

WorkShare shareOf(int64_t count, int64_t parts, int64_t part) {
  int64_t each = count / parts, longer = count % parts;
  int64_t begin = part * each + std::min(part, longer);
  return {begin, begin + each + (part < longer ? 1 : 0)};
}

int64_t partsFor(int64_t units, int64_t groups) { return std::max<int64_t>(1, units / groups); }

std::vector<std::vector<WorkRun>> planWork(std::span<const int64_t> tiles, int64_t parts) {
  std::vector<std::vector<WorkRun>> plan(static_cast<size_t>(parts));
  int64_t first = 0; // the part that has a request's first share
  for (size_t request = 0; request < tiles.size(); ++request) {
    for (int64_t part = 0; part < parts; ++part) {
      WorkShare share = shareOf(tiles[request], parts, (part + parts - first) % parts);
      if (share.count() > 0)
        plan[size_t(part)].push_back({int64_t(request), share});
    }
    first = (first + tiles[request]) % parts;
  }
  return plan;
}

} // namespace m3c
