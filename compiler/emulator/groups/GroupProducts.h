// Products that four warps start together (PTX ISA, "wgmma"): their right operand stands in shared
// memory, the left one and the sums in registers, which are nobody's until the warp has waited.
#pragma once

#include "compiler/emulator/Cluster.h"

#include <deque>

namespace m3c::emulator {

/// Of one work item. Each warp of a group starts its part of a product by itself; that all four
/// start the same ones is looked at when they end.
class Cluster::GroupProducts {
public:
  static constexpr unsigned together = 4; ///< warps of a group

  explicit GroupProducts(Cluster &cluster);

  // Once for a warp, by whichever lane came last.
  /// What was done with registers comes before the products after it.
  void fence(FibreThread &thread);
  void multiply(FibreThread &thread, const m3emu::GroupProduct &product);
  /// The products since the last one are a group.
  void commit(FibreThread &thread);
  /// All groups but the latest `most` have ended; where these are none, `count` sums of each lane
  /// are handed over.
  void wait(FibreThread &thread, unsigned most, float *const *sums, unsigned count);
  /// The warp of `thread` has ended.
  void end(FibreThread &thread);

private:
  using Chunks = std::vector<uint64_t>; ///< 16 bytes each of shared memory
  struct OfWarp {
    bool fenced = false;
    bool late = false;                ///< sums are handed over by the wait, not before
    std::vector<float> sums;          ///< [lane][count], of products under way; empty: none is
    Chunks open;                      ///< that products read which are not committed yet
    std::deque<Chunks> groups;        ///< likewise of each group under way
    uint64_t started = 0, digest = 0; ///< of all its products, and of their descriptors
    bool ended = false;
  };
  OfWarp &of(const FibreThread &thread) { return warps[thread.warp]; }
  std::vector<uint64_t> places(FibreThread &thread, const m3emu::GroupProduct &product);
  void takeSums(FibreThread &thread, OfWarp &warp, const m3emu::GroupProduct &product);
  void compute(FibreThread &thread, OfWarp &warp, const m3emu::GroupProduct &product,
               const std::vector<uint64_t> &places);

  Cluster &cluster;
  std::vector<OfWarp> warps;
};

} // namespace m3c::emulator
