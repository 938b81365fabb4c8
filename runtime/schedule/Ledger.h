// How much memory a run takes, known before it starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace m3c {

class Ledger {
public:
  struct Line {
    std::string what;
    uint64_t bytes;
  };
  void add(std::string what, uint64_t bytes) { entries.push_back({std::move(what), bytes}); }
  const std::vector<Line> &lines() const { return entries; }
  uint64_t total() const;
  /// One line each: "weights  1.5 GiB".
  std::string text() const;

private:
  std::vector<Line> entries;
};

} // namespace m3c
