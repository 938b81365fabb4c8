// The manifest of a plan: what it was made from, by what, and which decisions were taken.
#pragma once

#include "compiler/driver/Compile.h"
#include "compiler/import/Import.h"
#include "passes/targets/common/Target.h"

#include "mlir/IR/BuiltinOps.h"

namespace m3c {

/// How keys and values are stored, with the reason.
struct CacheChoice {
  std::string type, grid, why;
};

/// The cache type that the options ask for, or the default by rule: experts in
/// nvfp4-pack-quantized with every layer sparse take nvfp4, else fp8. Throws Error (wrong usage)
/// for an unknown type, and for a grid that the type does not have.
CacheChoice chooseCache(const CompileOptions &options, const ImportedModel &model);

/// One line of `m3c explain`.
nlohmann::ordered_json decision(const std::string &what, const std::string &choice,
                                const std::string &why);

/// How the weights of the graph are read: one decision per storage format, demotions included.
nlohmann::ordered_json weightDecisions(mlir::ModuleOp graph);

/// JSON without timings, paths or host names.
std::string manifestText(const CompileOptions &options, const ImportedModel &model,
                         const CacheChoice &cache, const std::vector<ChipTarget> &chips,
                         const nlohmann::ordered_json &decisions);

/// Version of m3c.
const char *versionText();

} // namespace m3c
