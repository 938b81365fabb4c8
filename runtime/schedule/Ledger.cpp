#include "runtime/schedule/Ledger.h"

#include "runtime/base/Progress.h"

#include <fmt/format.h>

namespace m3c {

uint64_t Ledger::total() const {
  uint64_t sum = 0;
  for (const Line &line : entries)
    sum += line.bytes;
  return sum;
}

std::string Ledger::text() const {
  std::string text;
  for (const Line &line : entries)
    text += fmt::format("{:<16} {:>12}\n", line.what, byteText(line.bytes));
  return text + fmt::format("{:<16} {:>12}\n", "total", byteText(total()));
}

} // namespace m3c
