// How the tiles of ragged requests are shared out over the work items that fill a chip. Pure
// functions: schedules ask them for parts, and kernels compute the shares on the device
// (passes/kernel/families/cache/WorkShare.h), where alone the lengths are known.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace m3c {

/// Tiles begin … end − 1 of a request.
struct WorkShare {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
};

/// Share `part` of `count` tiles over `parts`: stretches in order, the first count % parts of them
/// one tile longer.
WorkShare shareOf(int64_t count, int64_t parts, int64_t part);

/// Parts of each of `groups` groups of equal requests, so that their work items fill `units`
/// multiprocessors or compute units; 1 where the groups alone do.
int64_t partsFor(int64_t units, int64_t groups);

/// The same where a request's tiles are the blocks of a selection: each part of it costs the sum of
/// all, so they are a power of two, eight at most.
int64_t partsOfSelection(int64_t units, int64_t groups);

/// A stretch of one request's tiles.
struct WorkRun {
  int64_t request = 0;
  WorkShare share;
};

/// The tiles of all requests shared out over `parts`: each request's longer shares begin at the
/// part where those of the request before end. So every tile is in one part, in stretches, and two
/// parts differ by one tile at most, whatever the lengths. Requests without tiles are legal. Entry
/// [part] has its runs in the order of the requests.
std::vector<std::vector<WorkRun>> planWork(std::span<const int64_t> tiles, int64_t parts);

/// Stretch `part` of `count` tiles cut into `parts`, or into as many as there are tiles, the longer
/// ones among the others: where parts are a multiple of the requests and these equally long, each
/// begins where a stretch does.
WorkShare stretchOf(int64_t count, int64_t parts, int64_t part);
/// The part whose stretch has tile `tile`; between two parts that have tiles all have some.
int64_t partOf(int64_t count, int64_t parts, int64_t tile);

/// The tiles of all requests laid end to end and cut into `parts` stretches: a part may end one
/// request, have whole ones and begin another, so all but its first and its last request are its
/// alone. Every tile is in one part, and two parts differ by one tile at most. Requests without
/// tiles are legal, and in no part. Entry [part] has its runs in the order of the requests.
std::vector<std::vector<WorkRun>> planFlat(std::span<const int64_t> tiles, int64_t parts);

/// Requests whose tiles planFlat lays end to end, at most: kernels keep a number of each.
constexpr int64_t mostFlatRequests = 256;

/// Multiprocessors or compute units, and how many work items of attention stand on each.
struct AttentionPlaces {
  int64_t units;
  int64_t flat = 1, ofRows = 1; ///< with stretches, with parts of rows
};

/// Parts of planFlat for `rows` rows of each of `heads` KV heads, so that their work items fill the
/// places; 0 where it is one row, whose parts are equal, where rows are too many, and where a
/// unit would have more pages than with parts of rows: of all pages of rows never, of `selected`
/// ones with every selection full.
int64_t flatPartsFor(const AttentionPlaces &places, int64_t rows, int64_t heads, int64_t selected);
/// The same where they are wanted in any case; 0 where rows are too many. `units`: all places.
int64_t mostFlatParts(int64_t units, int64_t rows, int64_t heads, int64_t selected);

/// How many of `most` parts planFlat is given. Requests that read the same memory, as rows of one
/// sequence do, are best cut at the same places, so that what one has read the others find in a
/// cache: where all are `alike`, a multiple of the requests, or so many parts that each has
/// equally many requests.
int64_t flatParts(int64_t most, int64_t requests, bool alike);

/// Which parts have tiles of a request in planFlat: `count` of them from `first` on.
struct WorkParts {
  int64_t first = 0, count = 0;
};

/// That of the request whose tiles are `request` of the `all` that lie end to end, one at least.
WorkParts flatPartsOf(WorkShare request, int64_t all, int64_t parts);

/// Where planFlat's part `part` of request `request` leaves its sums. From one run to the next the
/// part, the request or both are the next one, so no two runs have one slot, those of a request
/// follow each other, and all are below flatSlots.
constexpr int64_t flatSlot(int64_t part, int64_t request) { return part + request; }
constexpr int64_t flatSlots(int64_t parts, int64_t requests) { return parts + requests; }

/// Where the sums of `fan` neighbouring parts of a request go, group `group` of it, whose first
/// part's slot is `slot`: again no two groups have one slot, and all are below flatGroups.
constexpr int64_t flatGroup(int64_t slot, int64_t request, int64_t fan, int64_t group) {
  return slot / fan + request + group;
}
constexpr int64_t flatGroups(int64_t parts, int64_t requests, int64_t fan) {
  return flatSlots(parts, requests) / fan + requests + 1;
}

} // namespace m3c
