#include "compiler/emulator/Shadow.h"

#include <fmt/format.h>

#include <algorithm>

namespace m3c::emulator {

void Shadow::begin(uint64_t count, unsigned warpCount, unsigned lanes, uint32_t begins) {
  // Times only grow, so entries of the work item before count as none.
  uint64_t wanted = (count + 3) / 4;
  bool fits = words == wanted && warps == warpCount;
  if (!fits || begins < base) {
    words = wanted;
    entries.assign(words * 5, {});
    readers.assign(words * 5 * (warpCount + 1), 0);
  } else if (marked) {
    for (uint64_t i = 0; i < entries.size(); ++i) {
      Entry &entry = entries[i];
      entry.pending = entry.reading = entry.split = 0;
      if (entry.lastRead == UINT32_MAX) { // products are numbered anew
        entry.lastRead = 0;
        forgetReaders(i);
      }
    }
  }
  marked = false;
  warps = warpCount;
  allLanes = lanes == 64 ? ~uint64_t(0) : (uint64_t(1) << lanes) - 1;
  base = begins;
}

void Shadow::split(uint64_t word) {
  Entry &whole = entries[word];
  if (whole.split)
    return;
  marked = true;
  for (uint64_t byte = 0; byte < 4; ++byte) {
    uint64_t index = entryOfByte(word * 4 + byte);
    entries[index] = whole;
    std::copy_n(&reader(word, 0), warps + 1, &reader(index, 0));
  }
  whole.split = 1;
}

template <class Body> Complaint Shadow::each(uint64_t offset, uint64_t count, Body body) {
  for (uint64_t at = offset, end = offset + count; at < end;) {
    uint64_t word = at / 4;
    bool whole = at % 4 == 0 && end - at >= 4;
    if (!whole)
      split(word);
    bool one = whole && !entries[word].split;
    if (Complaint complaint = body(one ? word : entryOfByte(at), at); !complaint.empty())
      return complaint;
    at += one ? 4 : 1;
  }
  return {};
}

std::string Shadow::writerText(const Entry &entry) const {
  if (entry.warp == warps)
    return "an asynchronous copy";
  return fmt::format("lane {} of warp {}", entry.lane, entry.warp);
}

Complaint Shadow::checkRead(const Accessor &who, const Entry &entry, uint64_t at) const {
  if (entry.pending)
    return fmt::format("reads byte {} of shared memory before the copy that fills it was waited "
                       "for",
                       at);
  if (!wasWritten(entry))
    return fmt::format("reads byte {} of shared memory, which nothing has written", at);
  if (mayRace(who, entry) && !ordered(who, entry.warp, entry.lane, entry.written))
    return fmt::format("reads byte {} of shared memory, which {} wrote with no {} between", at,
                       writerText(entry), entry.warp == warps ? "wait" : "barrier");
  return {};
}

Complaint Shadow::read(const Accessor &who, uint64_t offset, unsigned count) {
  return each(offset, count, [&](uint64_t index, uint64_t at) {
    Complaint complaint = checkRead(who, entries[index], at);
    if (complaint.empty())
      noteRead(who, index);
    return complaint;
  });
}

Complaint Shadow::checkWrite(const Accessor &who, uint64_t index, uint64_t at) const {
  const Entry &entry = entries[index];
  if (entry.pending)
    return fmt::format("writes byte {} of shared memory while a copy fills it", at);
  if (entry.reading)
    return fmt::format("writes byte {} of shared memory while the asynchronous proxy reads it", at);
  if (wasWritten(entry) && mayRace(who, entry) &&
      !ordered(who, entry.warp, entry.lane, entry.written))
    return fmt::format("writes byte {} of shared memory, which {} wrote with no {} between", at,
                       writerText(entry), entry.warp == warps ? "wait" : "barrier");
  if (entry.lastRead >= base && entry.lastRead >= who.least)
    return checkReaders(who, index, at);
  return {};
}

Complaint Shadow::checkReaders(const Accessor &who, uint64_t index, uint64_t at) const {
  if (uint32_t product = reader(index, warps);
      product && !who.knowledge->of[productEntry].covers(product, 0))
    return fmt::format("writes byte {} of shared memory, which a product read whose end nobody "
                       "waited for",
                       at);
  for (unsigned warp = 0; warp < warps; ++warp) {
    uint32_t found = reader(index, warp), time = found >> laneBits, lane = found & several;
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
  Complaint complaint = each(offset, count, [&](uint64_t index, uint64_t at) {
    Complaint wrong = checkWrite(who, index, at);
    if (wrong.empty())
      noteWrite(who, index);
    return wrong;
  });
  // Words that were written as a whole are one again.
  for (uint64_t word = (offset + 3) / 4; (word + 1) * 4 <= offset + count; ++word)
    if (Entry &whole = entries[word]; whole.split && complaint.empty()) {
      whole.split = whole.pending = whole.reading = 0;
      noteWrite(who, word);
      forgetReaders(word);
    }
  return complaint;
}

Complaint Shadow::startWrite(const Accessor &who, uint64_t offset, uint64_t count) {
  marked = true;
  return each(offset, count, [&](uint64_t index, uint64_t at) {
    Complaint complaint = checkWrite(who, index, at);
    entries[index].pending = 1;
    return complaint;
  });
}

void Shadow::landWrite(uint64_t offset, uint64_t count, unsigned warp, unsigned lane,
                       uint32_t time) {
  each(offset, count, [&](uint64_t index, uint64_t) {
    forgetReaders(index);
    entries[index] = {};
    entries[index].written = time;
    entries[index].warp = uint8_t(warp);
    entries[index].lane = uint8_t(lane);
    return Complaint();
  });
}

Complaint Shadow::startRead(const Accessor &who, const Knowledge &fenced, uint64_t offset,
                            uint64_t count) {
  marked = true;
  return each(offset, count, [&](uint64_t index, uint64_t at) -> Complaint {
    Entry &entry = entries[index];
    if (entry.reading >= 100)
      return "has more than 100 operations of the asynchronous proxy under way on one byte";
    if (entry.pending || !wasWritten(entry))
      return fmt::format("lets the asynchronous proxy read byte {} of shared memory, which {}", at,
                         entry.pending ? "a copy still fills" : "nothing has written");
    if (!ordered(who, entry.warp, entry.lane, entry.written))
      return fmt::format("lets the asynchronous proxy read byte {} of shared memory, which {} "
                         "wrote with no barrier between",
                         at, writerText(entry));
    if (entry.warp != warps && !fenced.of[entry.warp].covers(entry.written, entry.lane))
      return fmt::format("lets the asynchronous proxy read byte {} of shared memory, which {} "
                         "wrote with no proxy fence between",
                         at, writerText(entry));
    ++entry.reading;
    return {};
  });
}

void Shadow::endRead(uint64_t offset, uint64_t count, uint32_t product, unsigned ofProducts) {
  if (product)
    productEntry = ofProducts;
  each(offset, count, [&](uint64_t index, uint64_t) {
    --entries[index].reading;
    if (product) {
      reader(index, warps) = product;
      entries[index].lastRead = UINT32_MAX; // the readers are looked at
    }
    return Complaint();
  });
}

} // namespace m3c::emulator
