// Registers that the warps of a work item give up and take while it runs.
#pragma once

#include "compiler/emulator/Cluster.h"

#include <deque>

namespace m3c::emulator {

/// Of one work item. Every thread begins with as many registers; what warps give up is in a pool
/// that the others take from, and wait for. Warps do it in groups that follow each other, all of a
/// group the same; between two times of one group its warps meet.
class Cluster::Registers {
public:
  explicit Registers(Cluster &cluster) : cluster(cluster) {}

  void begin(unsigned rank);
  /// `together`: warps of a group. `what` names the instruction.
  void set(FibreThread &thread, const char *what, unsigned count, unsigned together,
           bool increases);
  /// The warp of `thread` has ended.
  void end(FibreThread &thread);
  /// Why no thread goes on, and which one waits; null: not for want of registers.
  const FibreThread *lacking(std::string &why) const;

private:
  struct OfWarp {
    unsigned count = 0;     ///< registers of a thread
    unsigned asked = 0;     ///< of an instruction that some lanes have come to, or that waits
    bool increases = false; ///< that instruction
    bool has = false;       ///< it has come to that of its group
    bool ended = false;     ///< the warp has
    uint32_t time = 0;      ///< of its own, when it did the last one; 0: none yet
    const char *what = nullptr;
  };
  void check(FibreThread &thread, const char *what, unsigned count, bool increases);
  void join(FibreThread &thread, unsigned together);
  void grant();
  unsigned numberOf(const Warp &warp) const { return warp.index - first; }
  uint64_t missing(const OfWarp &warp) const {
    return uint64_t(warp.asked - warp.count) * cluster.shape->lanes;
  }

  Cluster &cluster;
  unsigned first = 0;   ///< warp of the cluster
  unsigned ofGroup = 1; ///< warps
  uint64_t pool = 0;    ///< that nobody has
  std::vector<OfWarp> warps;
  std::deque<Warp *> waiting; ///< in the order of their coming
};

} // namespace m3c::emulator
