#include "compiler/emulator/Registers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace m3c::emulator {

void Cluster::Registers::begin(unsigned rank) {
  size_t count = cluster.warps.size() / cluster.shape->cluster;
  first = unsigned(rank * count);
  pool = 0;
  waiting.clear();
  warps.assign(count, {});
  for (OfWarp &warp : warps)
    warp.count = cluster.shape->registers;
}

/// Of a thread (PTX ISA, "setmaxnreg").
static constexpr unsigned fewest = 24, most = 256, granule = 8;

/// What one thread asks for, by itself.
void Cluster::Registers::check(FibreThread &thread, const char *what, unsigned count,
                               bool increases) {
  if (count < fewest || count > most || count % granule)
    cluster.fail(thread, fmt::format("asks for {} registers, which are multiples of {} from {} to "
                                     "{}",
                                     count, granule, fewest, most));
  const Warp &home = *thread.home;
  OfWarp &warp = warps[numberOf(home)];
  if (home.exited)
    cluster.fail(thread, "changes registers while lanes of its warp have ended");
  if (!home.arrived || std::strcmp(home.what, what) != 0)
    warp.asked = count;
  else if (warp.asked != count)
    cluster.fail(thread, fmt::format("asks for {} registers, another lane of its warp for {}",
                                     count, warp.asked));
  if (increases ? count < warp.count : count > warp.count)
    cluster.fail(thread, fmt::format("{} its registers to {} and has {}",
                                     increases ? "increases" : "decreases", count, warp.count));
}

/// The warp comes to the instruction of its group.
void Cluster::Registers::join(FibreThread &thread, unsigned together) {
  Warp &home = *thread.home;
  OfWarp &own = warps[numberOf(home)];
  ofGroup = together;
  unsigned begin = numberOf(home) / together * together;
  if (begin + together > warps.size())
    cluster.fail(thread, fmt::format("changes registers in a group of {} warps, registers are "
                                     "changed by {} together",
                                     warps.size() - begin, together));
  if (own.has)
    cluster.fail(thread, fmt::format("changes registers again before all {} warps of its group "
                                     "have come to it once",
                                     together));
  unsigned there = 1;
  for (unsigned i = begin; i < begin + together; ++i) {
    const OfWarp &other = warps[i];
    if (&other == &own)
      continue;
    if (other.ended && !other.has)
      cluster.fail(thread, fmt::format("changes registers, and warp {} of its group has ended "
                                       "without",
                                       i));
    if (other.has && (other.asked != own.asked || other.increases != own.increases))
      cluster.fail(thread, fmt::format("asks for {} registers ({}), warp {} of its group for {} "
                                       "({})",
                                       own.asked, own.what, i, other.asked, other.what));
    const Seen &seen = home.knowledge.of[first + i];
    bool known = seen.time > other.time || (seen.time == other.time && seen.lanes);
    if (other.time && !other.has && !known)
      cluster.fail(thread, fmt::format("changes registers again with no barrier after warp {} of "
                                       "its group has done so",
                                       i));
    there += other.has;
  }
  own.has = true;
  own.time = home.now;
  if (there == together)
    for (unsigned i = begin; i < begin + together; ++i)
      warps[i].has = false;
}

void Cluster::Registers::set(FibreThread &thread, const char *what, unsigned count,
                             unsigned together, bool increases) {
  Warp &home = *thread.home;
  OfWarp &own = warps[numberOf(home)];
  check(thread, what, count, increases);
  if (!cluster.gather(thread, what))
    return cluster.leave(thread);
  own.what = what;
  own.increases = increases;
  join(thread, together);
  if (increases) {
    waiting.push_back(&home);
  } else {
    pool += uint64_t(own.count - count) * cluster.shape->lanes;
    own.count = count;
    home.ready |= home.all;
  }
  grant();
  if (!(home.ready >> thread.lane & 1)) {
    home.next = thread.lane;
    cluster.leave(thread);
  }
}

/// Gives what the pool has to those that wait and can have all they ask for.
void Cluster::Registers::grant() {
  std::erase_if(waiting, [&](Warp *warp) {
    OfWarp &own = warps[numberOf(*warp)];
    if (missing(own) > pool)
      return false;
    pool -= missing(own);
    own.count = own.asked;
    for (FibreThread *thread : warp->threads)
      cluster.wake(*thread);
    return true;
  });
}

void Cluster::Registers::end(FibreThread &thread) {
  const unsigned number = numberOf(*thread.home);
  warps[number].ended = true;
  if (warps[number].has)
    return;
  // Warps of its group that have come to an instruction wait for nobody, but it is not legal.
  for (unsigned i = 0; i < warps.size(); ++i)
    if (warps[i].has && i / ofGroup == number / ofGroup)
      cluster.fail(thread, fmt::format("ends and has not changed its registers ({}), as warp {} of "
                                       "its group has",
                                       warps[i].what, i));
}

const FibreThread *Cluster::Registers::lacking(std::string &why) const {
  if (waiting.empty()) {
    auto some = std::ranges::find(warps, true, &OfWarp::has);
    if (some == warps.end())
      return nullptr;
    why = fmt::format("it has changed its registers ({}), others of its {} warps have not",
                      some->what, ofGroup);
    return cluster.warps[first + size_t(some - warps.begin())].threads.front();
  }
  const Warp &warp = *waiting.front();
  const OfWarp &own = warps[numberOf(warp)];
  // Warps that have not come to it yet might have kept the fewest that there are.
  uint64_t asked = 0, has = uint64_t(cluster.shape->registers) * cluster.shape->threads;
  for (const OfWarp &each : warps)
    asked += uint64_t(each.what ? each.asked : fewest) * cluster.shape->lanes;
  why =
      fmt::format("it waits for {} registers more of each thread ({} to {}), {} of the {} that its "
                  "warp lacks are free; ",
                  own.asked - own.count, own.what, own.asked, pool, missing(own));
  why += asked > has ? fmt::format("the warps ask for {}, the work item began with {}", asked, has)
                     : "no warp that goes on gives up any";
  return warp.threads.front();
}

} // namespace m3c::emulator
