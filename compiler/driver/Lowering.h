// From an imported model to kernels as text and a scheduled plan, for every chip asked for.
#pragma once

#include "compiler/driver/Kernels.h"
#include "compiler/driver/Manifest.h"
#include "compiler/driver/PassSteps.h"
#include "compiler/planfile/PlanBuilder.h"
#include "runtime/base/Error.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <set>

namespace m3c {

/// What the kernels of a chip's module let the user choose, by family.
using FamilyChoices = std::map<std::string, std::set<std::string>>;

class Lowering {
public:
  explicit Lowering(const CompileOptions &options);

  /// The m3 function of the model.
  void buildGraph(const ImportedModel &model, const CacheChoice &cache);
  /// Passes that `runPasses` will run.
  uint64_t stepCount(size_t chips) const;
  /// Graph passes once, then the chip's passes on a copy for each. `after` gets "pass" or
  /// "chip: pass" and its seconds. Throws Error when the launches of two chips differ.
  void runPasses(const std::vector<ChipTarget> &chips,
                 const std::function<void(const std::string &, double)> &after);
  void printKernels();

  const std::vector<KernelText> &kernels(size_t chip) const { return variants[chip].kernels; }
  void addObjects(size_t chip, const std::vector<BuildResult> &objects);
  nlohmann::ordered_json decisions() const { return weightDecisions(*graph); }
  PlanForecast forecast() const;
  /// The plan; every chip must have its objects.
  plan::PlanWriter plan(const ImportedModel &model, std::string manifest);

private:
  // The module of one chip.
  struct Variant {
    const Target *target;
    Chip chip;
    mlir::OwningOpRef<mlir::ModuleOp> module;
    std::vector<KernelText> kernels;
  };

  // Throws Error for an override that no kernel of any chip has.
  void checkSchedule();
  // The error for one, "family.choice=number"; the plan's kernels, for `chips`, have `choices`.
  [[noreturn]] void refuseChoice(const std::string &given, const FamilyChoices &choices,
                                 const std::string &chips);
  // Targets whose kernels for this model have it.
  std::vector<std::string> targetsWith(const std::string &given);
  // The error of a pass as one about the choices that were given; returns when there are none.
  void refuseSchedule(const Error &error, const std::string &chip) const;
  void runOn(mlir::ModuleOp module, const std::vector<PassStep> &steps, const std::string &prefix,
             const std::function<void(const std::string &, double)> &after);
  void dump(const PassStep &step, mlir::ModuleOp module, const std::string &prefix);
  void keepHeaders(std::map<std::string, std::string> &extras) const;
  void keepSources(std::map<std::string, KernelBuild> &builds,
                   std::map<std::string, std::string> &extras) const;

  const CompileOptions &options;
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> graph;
  std::vector<Variant> variants;
  std::map<std::string, KernelBuild> builds;
  unsigned dumped = 0;
};

} // namespace m3c
