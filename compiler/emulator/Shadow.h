// What is known of each byte of a work item's shared memory: who wrote it and when, who has read it
// since, and what is under way. An access that is not ordered after what it depends on is a race,
// whatever order this run happened to take.
#pragma once

#include "compiler/emulator/Clocks.h"

#include <cstdint>
#include <string>
#include <vector>

namespace m3c::emulator {

/// Who accesses, as the shadow sees it.
struct Accessor {
  unsigned warp, lane;
  uint32_t now;               ///< time of the warp
  uint32_t synced;            ///< accesses of the own warp before this are ordered
  const Knowledge *knowledge; ///< of the thread
  uint32_t least;             ///< knowledge->least()
};

/// A fault, in words that complete "the thread …". Empty: none.
using Complaint = std::string;

class Shadow {
public:
  /// Forgets all; `base` is before every time of the work item that begins.
  void begin(uint64_t bytes, unsigned warps, unsigned lanes, uint32_t base);

  Complaint read(const Accessor &who, uint64_t offset, unsigned bytes);
  Complaint write(const Accessor &who, uint64_t offset, unsigned bytes);

  /// Asynchronous copies into shared memory. From `start` to `land` the bytes are nobody's; after
  /// it they are written by `writer`: a warp's thread, or the asynchronous proxy (entry `warps`).
  Complaint startWrite(const Accessor &who, uint64_t offset, uint64_t bytes);
  void landWrite(uint64_t offset, uint64_t bytes, unsigned warp, unsigned lane, uint32_t time);
  /// The asynchronous proxy reads: ordinary writes must have been fenced (`fenced`).
  Complaint startRead(const Accessor &who, const Knowledge &fenced, uint64_t offset,
                      uint64_t bytes);
  void endRead(uint64_t offset, uint64_t bytes);

private:
  struct Byte {
    uint32_t written; ///< time of the last write; before `base`: never
    uint8_t warp, lane;
    uint8_t pending; ///< asynchronous writes that have not landed
    uint8_t reading; ///< asynchronous reads under way
    uint32_t lastRead;
  };

  bool wasWritten(const Byte &byte) const { return byte.written >= base; }
  bool ordered(const Accessor &who, unsigned warp, unsigned lane, uint32_t time) const {
    if (warp == who.warp)
      return lane == who.lane || time < who.synced;
    return who.knowledge->of[warp].covers(time, lane);
  }
  /// Of all lanes of a warp that read at `time`.
  bool orderedAll(const Accessor &who, unsigned warp, uint32_t time) const {
    if (warp == who.warp)
      return time < who.synced;
    const Seen &seen = who.knowledge->of[warp];
    return time < seen.time || (time == seen.time && (seen.lanes & allLanes) == allLanes);
  }
  /// False for most writes without a look at what the thread knows of the writer.
  bool mayRace(const Accessor &who, const Byte &byte) const {
    return byte.written >= who.least || byte.warp == warps;
  }
  std::string writerText(const Byte &byte) const;
  Complaint checkWrite(const Accessor &who, uint64_t offset, const Byte &byte) const;
  Complaint checkReaders(const Accessor &who, uint64_t offset) const;

  std::vector<Byte> bytes;
  /// [byte][warp]: time · 64 + lane of its last read since the write; the last lane stands for
  /// several.
  std::vector<uint32_t> readers;
  static constexpr uint32_t several = 63;
  unsigned warps = 0;
  uint64_t allLanes = 0;
  uint32_t base = 1;
};

} // namespace m3c::emulator
