// The report of `m3c capacity`: JSON and a table.
#include "compiler/report/Capacity.h"

#include <cmath>

#include <fmt/format.h>

namespace m3c {

static std::vector<std::string> allAssumptions(const std::vector<ModelFootprint> &models) {
  std::vector<std::string> all = capacityAssumptions();
  for (const ModelFootprint &model : models)
    all.insert(all.end(), model.assumptions.begin(), model.assumptions.end());
  return all;
}

static int64_t whole(double value) { return int64_t(std::floor(value)); }

static nlohmann::ordered_json rowJson(const CapacityRow &row) {
  return {{"model", row.model},
          {"weights", row.weights},
          {"chip", row.query.chip},
          {"memory_bytes", whole(row.query.memoryBytes)},
          {"usable_share", row.query.usableShare},
          {"count", row.query.count},
          {"parallel", row.query.parallel.name},
          {"context", row.query.context},
          {"kv", row.cache},
          {"kv_bytes_per_token", whole(row.kvBytesPerToken)},
          {"index_bytes_per_token", whole(row.indexBytesPerToken)},
          {"bytes_per_token", whole(row.kvBytesPerToken + row.indexBytesPerToken)},
          {"bytes_per_token_per_chip", whole(row.kvBytesPerTokenChip + row.indexBytesPerTokenChip)},
          {"routed_bytes", whole(row.routedBytes)},
          {"rest_bytes", whole(row.restBytes)},
          {"weight_bytes_per_chip", whole(row.weightBytesChip)},
          {"free_bytes_per_chip", whole(row.freeBytesChip)},
          {"fits", row.freeBytesChip > 0},
          {"sequences_per_replica", row.sequencesPerGroup},
          {"sequences", row.sequences},
          {"cache_tokens", whole(row.tokens)}};
}

nlohmann::ordered_json capacityJson(const std::vector<ModelFootprint> &models,
                                    const std::vector<CapacityRow> &rows) {
  nlohmann::ordered_json out = {{"assumptions", allAssumptions(models)}};
  out["rows"] = nlohmann::ordered_json::array();
  for (const CapacityRow &row : rows)
    out["rows"].push_back(rowJson(row));
  return out;
}

std::string capacityText(const std::vector<ModelFootprint> &models,
                         const std::vector<CapacityRow> &rows) {
  std::string out =
      fmt::format("{:<12} {:<7} {:>5} {:<8} {:>9} {:<6} {:>11} {:>11} {:>9} {:>8} "
                  "{:>8} {:>9}\n",
                  "model", "chip", "count", "parallel", "context", "kv", "K,V B/token",
                  "index B/tok", "routed GB", "rest GB", "free GB", "sequences");
  for (const CapacityRow &row : rows)
    out += fmt::format(
        "{:<12} {:<7} {:>5} {:<8} {:>9} {:<6} {:>11} {:>11} {:>9.2f} {:>8.2f} {:>8.2f} {:>9}\n",
        row.model, row.query.chip, row.query.count, row.query.parallel.name, row.query.context,
        row.cache, row.kvBytesPerToken, row.indexBytesPerToken, row.routedBytes / 1e9,
        row.restBytes / 1e9, row.freeBytesChip / 1e9,
        row.freeBytesChip > 0 ? std::to_string(row.sequences) : "no room");
  out += "\nassumptions (free is per chip, after the weights)\n";
  for (const std::string &line : allAssumptions(models))
    out += fmt::format("  - {}\n", line);
  return out;
}

} // namespace m3c
