// Plans made by hand around the kernels of TestKernels.cpp.
#pragma once

#include "runtime/plan/PlanWriter.h"

#include <string>
#include <vector>

namespace m3c::test {

/// Machine code of TestKernels.cpp.
std::vector<std::byte> testKernelCode();

constexpr uint32_t toyVocab = 61;

struct ToyOptions {
  std::vector<uint32_t> buckets = {1, 4, 16}; ///< rows
  uint64_t maxPositions = 1024;
  uint32_t vocab = toyVocab;
  std::vector<std::string> features = {}; ///< required by the only target
  std::string code = "";                  ///< instead of testKernelCode()
  /// Source of every kernel, for devices with one of these features.
  std::string source = "";
  std::vector<std::string> sourceFeatures = {};
};

/// Tables of the toy model: one layer, one weight ("scale", F32 [vocab]), one KV head, six experts
/// top-2, top-2 blocks. `codeSection` holds testKernelCode().
plan::TablesT toyTables(uint32_t codeSection, const ToyOptions &options = {});

/// The whole plan.
plan::PlanWriter toyPlan(const ToyOptions &options = {});

/// Logit `v` after `tokens`, where scale[v] = 1 + v / 64.
float toyLogit(const std::vector<int32_t> &tokens, uint32_t v);

} // namespace m3c::test
