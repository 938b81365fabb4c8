// What is known of each byte of a work item's shared memory: who wrote it and when, who has read it
// since, and what is under way. An access that is not ordered after what it depends on is a race,
// whatever order this run happened to take.
//
// Most accesses are whole words of four bytes. A word whose bytes have one history has one entry;
// an access of a part of it gives each byte its own, until the whole word is written again.
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
  /// The same where it is plain that nothing is wrong; false: nothing is done.
  bool readQuickly(const Accessor &who, uint64_t offset, unsigned bytes);
  bool writeQuickly(const Accessor &who, uint64_t offset, unsigned bytes);

  /// Asynchronous copies into shared memory. From `start` to `land` the bytes are nobody's; after
  /// it they are written by `writer`: a warp's thread, or the asynchronous proxy (entry `warps`).
  Complaint startWrite(const Accessor &who, uint64_t offset, uint64_t bytes);
  void landWrite(uint64_t offset, uint64_t bytes, unsigned warp, unsigned lane, uint32_t time);
  /// The asynchronous proxy reads: ordinary writes must have been fenced (`fenced`).
  Complaint startRead(const Accessor &who, const Knowledge &fenced, uint64_t offset,
                      uint64_t bytes);
  /// `product`: the number of the matrix instruction that read (0: none did); a later write must
  /// know that it has ended (entry `ofProducts` of a Knowledge).
  void endRead(uint64_t offset, uint64_t bytes, uint32_t product = 0, unsigned ofProducts = 0);

private:
  struct Entry {
    uint32_t written = 0; ///< time of the last write; before `base`: never
    uint8_t warp = 0, lane = 0;
    uint8_t pending = 0;     ///< asynchronous writes that have not landed
    uint8_t reading : 7 = 0; ///< asynchronous reads under way
    uint8_t split : 1 = 0;   ///< of a word: its bytes have entries of their own
    uint32_t lastRead = 0;
  };
  static constexpr uint32_t laneBits = 7;  ///< of what is kept of a read
  static constexpr uint32_t several = 127; ///< the lane that stands for several

  /// Entries of words come first, those of bytes after them.
  uint64_t entryOfByte(uint64_t at) const { return words + at; }
  /// Gives the bytes of a word their own entries.
  void split(uint64_t word);
  /// Calls `body(entry, first byte)` for what the access covers.
  template <class Body> Complaint each(uint64_t offset, uint64_t bytes, Body body);

  bool wasWritten(const Entry &entry) const { return entry.written >= base; }
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
  bool mayRace(const Accessor &who, const Entry &entry) const {
    return entry.written >= who.least || entry.warp == warps;
  }
  void noteRead(const Accessor &who, uint64_t index);
  void noteWrite(const Accessor &who, uint64_t index);
  std::string writerText(const Entry &entry) const;
  Complaint checkRead(const Accessor &who, const Entry &entry, uint64_t at) const;
  Complaint checkWrite(const Accessor &who, uint64_t index, uint64_t at) const;
  Complaint checkReaders(const Accessor &who, uint64_t index, uint64_t at) const;

  std::vector<Entry> entries;
  uint32_t &reader(uint64_t index, unsigned warp) { return readers[index * (warps + 1) + warp]; }
  uint32_t reader(uint64_t index, unsigned warp) const {
    return readers[index * (warps + 1) + warp];
  }
  void forgetReaders(uint64_t index) {
    for (unsigned warp = 0; warp <= warps; ++warp)
      reader(index, warp) = 0;
  }
  /// [entry][warp]: time · 128 + lane of its last read since the write; behind the warps the last
  /// product that read.
  std::vector<uint32_t> readers;
  unsigned productEntry = 0; ///< of a Knowledge: the products that read here
  bool marked = false;       ///< some entry has more than times
  uint64_t words = 0;
  unsigned warps = 0;
  uint64_t allLanes = 0;
  uint32_t base = 1;
};

inline void Shadow::noteRead(const Accessor &who, uint64_t index) {
  uint32_t &mine = reader(index, who.warp);
  bool same = mine >> laneBits == who.now && (mine & several) != who.lane;
  mine = who.now << laneBits | (same ? several : who.lane);
  Entry &entry = entries[index];
  entry.lastRead = entry.lastRead > who.now ? entry.lastRead : who.now;
}

inline bool Shadow::readQuickly(const Accessor &who, uint64_t offset, unsigned bytes) {
  if (bytes != 4)
    return false;
  uint64_t word = offset / 4;
  const Entry &entry = entries[word];
  bool own = entry.warp == who.warp && (entry.lane == who.lane || entry.written < who.synced);
  bool plain = !entry.split && !entry.pending && wasWritten(entry) && entry.warp != warps &&
               (own || entry.written < who.least);
  if (plain)
    noteRead(who, word);
  return plain;
}

inline bool Shadow::writeQuickly(const Accessor &who, uint64_t offset, unsigned bytes) {
  if (bytes != 4)
    return false;
  uint64_t word = offset / 4;
  Entry &entry = entries[word];
  bool plain = !entry.split && !entry.pending && !entry.reading && entry.lastRead < who.least &&
               entry.written < who.least && entry.warp != warps;
  if (!plain)
    return false;
  noteWrite(who, word);
  return true;
}

inline void Shadow::noteWrite(const Accessor &who, uint64_t index) {
  Entry &entry = entries[index];
  if (entry.lastRead >= base)
    forgetReaders(index);
  entry.written = who.now;
  entry.warp = uint8_t(who.warp);
  entry.lane = uint8_t(who.lane);
  entry.lastRead = 0;
}

} // namespace m3c::emulator
