// How the tiles of ragged requests are shared out over the work items that fill a chip. Pure
// functions: schedules ask them for parts, and kernels compute the shares on the device
// (passes/kernel/WorkShare.h), where alone the lengths are known.
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

} // namespace m3c
