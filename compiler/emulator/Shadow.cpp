#include "compiler/emulator/Shadow.h"

#include <fmt/format.h>

#include <algorithm>

namespace m3c::emulator {

void Shadow::begin(uint64_t count, unsigned warpCount, unsigned lanes, uint32_t begins) {
  // Times only grow, so entries of the work item before count as none.
  bool fits = bytes.size() >= count && readers.size() >= count * warpCount && warps == warpCount;
  if (!fits || begins < base) {
    bytes.assign(count, {});
    readers.assign(count * warpCount, 0);
  }
  warps = warpCount;
  allLanes = lanes == 64 ? ~uint64_t(0) : (uint64_t(1) << lanes) - 1;
  base = begins;
}

std::string Shadow::writerText(const Byte &byte) const {
  if (byte.warp == warps)
    return "an asynchronous copy";
  return fmt::format("lane {} of warp {}", byte.lane, byte.warp);
}

Complaint Shadow::read(const Accessor &who, uint64_t offset, unsigned count) {
  for (uint64_t at = offset; at < offset + count; ++at) {
    Byte &byte = bytes[at];
    if (byte.pending)
      return fmt::format("reads byte {} of shared memory before the copy that fills it was waited "
                         "for",
                         at);
    if (!wasWritten(byte))
      return fmt::format("reads byte {} of shared memory, which nothing has written", at);
    if (mayRace(who, byte) && !ordered(who, byte.warp, byte.lane, byte.written))
      return fmt::format("reads byte {} of shared memory, which {} wrote with no {} between", at,
                         writerText(byte), byte.warp == warps ? "wait" : "barrier");
    uint32_t &mine = readers[at * warps + who.warp];
    bool same = byte.lastRead >= base && mine >> 6 == who.now && (mine & several) != who.lane;
    mine = who.now << 6 | (same ? several : who.lane);
    byte.lastRead = std::max(byte.lastRead, who.now);
  }
  return {};
}

Complaint Shadow::checkWrite(const Accessor &who, uint64_t at, const Byte &byte) const {
  if (byte.pending)
    return fmt::format("writes byte {} of shared memory while a copy fills it", at);
  if (byte.reading)
    return fmt::format("writes byte {} of shared memory while the asynchronous proxy reads it", at);
  if (wasWritten(byte) && mayRace(who, byte) && !ordered(who, byte.warp, byte.lane, byte.written))
    return fmt::format("writes byte {} of shared memory, which {} wrote with no {} between", at,
                       writerText(byte), byte.warp == warps ? "wait" : "barrier");
  if (byte.lastRead >= base && byte.lastRead >= who.least)
    return checkReaders(who, at);
  return {};
}

Complaint Shadow::checkReaders(const Accessor &who, uint64_t at) const {
  for (unsigned warp = 0; warp < warps; ++warp) {
    uint32_t entry = readers[at * warps + warp], time = entry >> 6, lane = entry & several;
    if (time < base)
      continue;
    bool many = lane == several;
    bool good = many ? orderedAll(who, warp, time) : ordered(who, warp, lane, time);
    if (!good)
      return fmt::format("writes byte {} of shared memory, which {}warp {} read with no barrier "
                         "between",
                         at, many ? "" : fmt::format("lane {} of ", lane), warp);
  }
  return {};
}

Complaint Shadow::write(const Accessor &who, uint64_t offset, unsigned count) {
  for (uint64_t at = offset; at < offset + count; ++at) {
    Byte &byte = bytes[at];
    if (Complaint complaint = checkWrite(who, at, byte); !complaint.empty())
      return complaint;
    if (byte.lastRead >= base)
      std::fill_n(readers.begin() + long(at * warps), warps, 0);
    byte = {who.now, uint8_t(who.warp), uint8_t(who.lane), 0, 0, 0};
  }
  return {};
}

Complaint Shadow::startWrite(const Accessor &who, uint64_t offset, uint64_t count) {
  for (uint64_t at = offset; at < offset + count; ++at) {
    if (Complaint complaint = checkWrite(who, at, bytes[at]); !complaint.empty())
      return complaint;
    bytes[at].pending = 1;
  }
  return {};
}

void Shadow::landWrite(uint64_t offset, uint64_t count, unsigned warp, unsigned lane,
                       uint32_t time) {
  for (uint64_t at = offset; at < offset + count; ++at) {
    std::fill_n(readers.begin() + long(at * warps), warps, 0);
    bytes[at] = {time, uint8_t(warp), uint8_t(lane), 0, 0, 0};
  }
}

Complaint Shadow::startRead(const Accessor &who, const Knowledge &fenced, uint64_t offset,
                            uint64_t count) {
  for (uint64_t at = offset; at < offset + count; ++at) {
    Byte &byte = bytes[at];
    if (byte.pending || !wasWritten(byte))
      return fmt::format("lets the asynchronous proxy read byte {} of shared memory, which {}", at,
                         byte.pending ? "a copy still fills" : "nothing has written");
    if (!ordered(who, byte.warp, byte.lane, byte.written))
      return fmt::format("lets the asynchronous proxy read byte {} of shared memory, which {} "
                         "wrote with no barrier between",
                         at, writerText(byte));
    if (byte.warp != warps && !fenced.of[byte.warp].covers(byte.written, byte.lane))
      return fmt::format("lets the asynchronous proxy read byte {} of shared memory, which {} "
                         "wrote with no proxy fence between",
                         at, writerText(byte));
    ++byte.reading;
  }
  return {};
}

void Shadow::endRead(uint64_t offset, uint64_t count) {
  for (uint64_t at = offset; at < offset + count; ++at)
    --bytes[at].reading;
}

} // namespace m3c::emulator
