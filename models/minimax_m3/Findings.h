// What reading a model found beside the model itself: kept for the plan's manifest, printed as
// warnings, refused under --strict.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace m3c {

struct Findings {
  /// Tensors that m3c recognises and does not use.
  struct LeftOut {
    int64_t tensors = 0;
    uint64_t bytes = 0;
  };

  std::vector<std::string> warnings;
  std::vector<std::string> notes;          ///< documented defaults that were taken
  std::vector<std::string> unknownKeys;    ///< "text_config.foo"
  std::vector<std::string> unknownTensors; ///< full names
  std::map<std::string, LeftOut> leftOut;  ///< by group: "vision", "mtp", "drafter"
};

} // namespace m3c
