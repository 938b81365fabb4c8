#include "passes/targets/common/WorkPlan.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace m3c {

WorkShare shareOf(int64_t count, int64_t parts, int64_t part) {
  int64_t each = count / parts, longer = count % parts;
  int64_t begin = part * each + std::min(part, longer);
  return {begin, begin + each + (part < longer ? 1 : 0)};
}

int64_t partsFor(int64_t units, int64_t groups) { return std::max<int64_t>(1, units / groups); }

/// Parts of a selection, at most.
static constexpr int64_t selectionParts = 8;

int64_t partsOfSelection(int64_t units, int64_t groups) {
  auto parts = uint64_t(partsFor(units, groups));
  return std::min(selectionParts, int64_t(std::bit_floor(parts)));
}

static int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t mostFlatParts(int64_t units, int64_t rows, int64_t heads, int64_t selected) {
  if (rows > mostFlatRequests)
    return 0;
  int64_t most = partsFor(units, heads);
  return selected ? std::min(most, rows * selectionParts) : most;
}

int64_t flatPartsFor(const AttentionPlaces &places, int64_t rows, int64_t heads, int64_t selected) {
  int64_t all = places.units * places.flat, parts = mostFlatParts(all, rows, heads, selected);
  if (rows == 1 || partsFor(all, heads) == 1)
    return 0;
  if (!selected || !parts)
    return parts;
  int64_t ofRow = partsOfSelection(places.units * places.ofRows, rows * heads);
  int64_t byRows = ceilDiv(rows * heads * ofRow, places.units) * ceilDiv(selected, ofRow);
  int64_t flat = ceilDiv(parts * heads, places.units) * ceilDiv(rows * selected, parts);
  return flat <= byRows ? parts : 0;
}

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

WorkShare stretchOf(int64_t count, int64_t parts, int64_t part) {
  int64_t used = std::min(parts, count);
  if (part >= used)
    return {count, count};
  return {part * count / used, (part + 1) * count / used};
}

int64_t partOf(int64_t count, int64_t parts, int64_t tile) {
  return ((tile + 1) * std::min(parts, count) - 1) /
         count; // the last that begins with the tile or before
}

std::vector<std::vector<WorkRun>> planFlat(std::span<const int64_t> tiles, int64_t parts) {
  std::vector<std::vector<WorkRun>> plan(static_cast<size_t>(parts));
  int64_t all = std::accumulate(tiles.begin(), tiles.end(), int64_t(0));
  for (int64_t part = 0; part < parts; ++part) {
    WorkShare stretch = stretchOf(all, parts, part);
    int64_t begin = 0; // of the request
    for (size_t request = 0; request < tiles.size(); begin += tiles[request++]) {
      WorkShare share = {std::max(stretch.begin - begin, int64_t(0)),
                         std::min(stretch.end - begin, tiles[request])};
      if (share.count() > 0)
        plan[size_t(part)].push_back({int64_t(request), share});
    }
  }
  return plan;
}

int64_t flatParts(int64_t most, int64_t requests, bool alike) {
  if (!alike)
    return most;
  if (requests <= most)
    return most / requests * requests;
  return ceilDiv(requests, ceilDiv(requests, most)); // equally many requests for each part
}

WorkParts flatPartsOf(WorkShare request, int64_t all, int64_t parts) {
  int64_t first = partOf(all, parts, request.begin);
  return {first, partOf(all, parts, request.end - 1) - first + 1};
}

} // namespace m3c
