// A plan on a device: code loaded, weights bound. Sessions share one engine; after `bindWeights` it
// does not change.
#pragma once

#include "runtime/hal/Hal.h"
#include "runtime/plan/Objects.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/weights/WeightBinder.h"

#include <map>
#include <optional>

namespace m3c {

class Engine {
public:
  /// Opens the device that suits the plan and loads the kernels that its best target launches.
  /// Where the plan has no code for the device but sources, they are built here, by all cores.
  /// Throws Error when this machine can run none, or a kernel has no code for the target.
  Engine(plan::PlanFile plan, const hal::DeviceOptions &options);
  /// The same on a given device.
  Engine(plan::PlanFile plan, std::unique_ptr<hal::Device> device);

  const plan::PlanFile &plan() const { return file; }
  const plan::Tables &tables() const { return file.tables(); }
  const plan::Target &target() const { return *chosen; }
  /// The launches of the target, a bucket per row count.
  const plan::Bucket &bucket(uint32_t index) const { return *chosen->buckets()->Get(index); }
  hal::Device &device() const { return *hardware; }

  /// Reads and repacks the weights; once, before the first session. Throws Error when the source is
  /// a checkpoint with another config.json than the plan was compiled for.
  void bindWeights(const WeightSource &source, const WeightProgress &progress = {});
  bool hasWeights() const { return weights.has_value(); }
  const Weights &boundWeights() const { return *weights; }

  const hal::Kernel &kernel(uint32_t index) const { return *kernels.at(index); }
  /// The code object that `kernel(index)` was made from: of the target's chip, or of the one that
  /// stands in. Throws Error when there is none.
  const plan::CodeObject &object(uint32_t index) const;
  /// Whether code is of the target's chip, not of the one that stands in for kernels that it lacks.
  bool isOwn(const plan::CodeObject &object) const;
  /// The text of an object whose source the plan keeps, with all that goes with it.
  hal::SourceText sourceOf(const plan::CodeObject &object) const;
  /// Bytes of machine code that are loaded.
  uint64_t codeBytes() const { return loadedCode; }

private:
  void checkConfig(const WeightSource &source) const;
  void loadKernels();
  std::unique_ptr<hal::Kernel> loadKernel(uint32_t index);
  std::unique_ptr<hal::Module> loadModule(const plan::Kernel &kernel,
                                          const plan::CodeObject &object);
  void buildSources();

  plan::PlanFile file;
  const plan::Target *chosen = nullptr;
  bool fromSource = false;                          ///< the plan has no code for this device
  std::map<uint32_t, std::vector<std::byte>> built; ///< by section of the code that it stands for
  std::unique_ptr<hal::Device> hardware;
  std::map<uint32_t, std::unique_ptr<hal::Module>> modules; ///< by section
  std::vector<std::unique_ptr<hal::Kernel>> kernels;        ///< null where the target launches none
  std::optional<Weights> weights;
  uint64_t loadedCode = 0;
};

} // namespace m3c
