// What this processor can do at most, measured: how fast it reads from each level of its memory and
// how many FP32 operations a second it performs. Benchmarks set their results beside these.
#pragma once

#include "runtime/drivers/host/ThreadPool.h"

#include <memory>
#include <string>
#include <vector>

namespace m3c::hal {

/// A cache, or main memory ("memory").
struct MemoryLevel {
  std::string name;    ///< "L1", "L2", "L3", "memory"
  uint64_t bytes;      ///< of one cache; 0 for main memory
  unsigned sharedBy;   ///< logical CPUs that share one
  uint64_t probeBytes; ///< that each worker reads again and again, so that they come from here
};

/// The levels of CPU 0 as the kernel reports them, nearest first, for `workers` workers.
std::vector<MemoryLevel> memoryLevels(unsigned workers);

/// FP32 multiply-add instructions that this processor has, narrowest first, by the
/// features that they belong to: "avx2", "avx512f".
std::vector<std::string> arithmeticSets();

/// Takes one sample at a time (some 10 to 60 ms each), so that samples can be taken between runs of
/// what is compared with them. Workers are pinned to cores as those of the host device are.
class LimitMeter {
public:
  /// `threads` workers, 0 = one for each core that this process may use.
  explicit LimitMeter(unsigned threads);
  ~LimitMeter();

  unsigned workers() const { return pool.workers(); }
  const std::vector<MemoryLevel> &levels() const { return memory; }

  /// Bytes a second of all workers together, plain loads of 64-byte lines in order.
  double readBandwidth(const MemoryLevel &level);
  /// FP32 operations a second of all workers together; a fused multiply-add counts as two for each
  /// lane. `set` is one of `arithmeticSets()`; throws Error for another.
  double arithmeticPeak(const std::string &set);
  /// Cycles a second of one core under load, from a chain of dependent one-cycle additions.
  double clock();

private:
  struct Mapping;

  ThreadPool pool;
  std::vector<MemoryLevel> memory;
  std::unique_ptr<Mapping> data; ///< what the probes read
};

} // namespace m3c::hal
