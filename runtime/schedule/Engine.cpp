#include "runtime/schedule/Engine.h"

#include "runtime/base/Error.h"
#include "runtime/drivers/Drivers.h"
#include "runtime/plan/List.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <thread>

namespace m3c {

Engine::Engine(plan::PlanFile plan, const hal::DeviceOptions &options) : file(std::move(plan)) {
  hal::OpenedDevice opened = hal::openDeviceFor(tables(), file.name(), options);
  hardware = std::move(opened.device);
  chosen = opened.target;
  loadKernels();
}

Engine::Engine(plan::PlanFile plan, std::unique_ptr<hal::Device> device)
    : file(std::move(plan)), hardware(std::move(device)) {
  chosen = hal::bestTarget(tables(), hardware->info());
  if (!chosen)
    throw Error(fmt::format("{} has no code for this device", file.name()), file.name(),
                fmt::format("no target suits {}", hardware->info().name));
  loadKernels();
}

void Engine::loadKernels() {
  kernels.resize(plan::list(tables().kernels()).size());
  for (const plan::Bucket *bucket : plan::list(chosen->buckets()))
    for (const plan::Launch *launch : plan::list(bucket->launches()))
      if (std::unique_ptr<hal::Kernel> &kernel = kernels[launch->kernel()]; !kernel)
        kernel = loadKernel(*tables().kernels()->Get(launch->kernel()));
}

std::unique_ptr<hal::Kernel> Engine::loadKernel(const plan::Kernel &kernel) {
  for (const plan::CodeObject *object : plan::list(kernel.objects())) {
    if (object->chip()->string_view() != chosen->chip()->string_view())
      continue;
    std::unique_ptr<hal::Module> &module = modules[object->section()];
    if (!module) {
      std::span<const std::byte> code = file.sectionBytes(object->section());
      module = hardware->load(code, kernel.name()->string_view());
      loadedCode += code.size();
    }
    return module->kernel(object->symbol()->str(),
                          {kernel.params(), object->shared_bytes(), object->threads(),
                           object->cluster(), object->overlaps()});
  }
  throw Error(
      fmt::format("kernel {} has no code for {}", kernel.name()->str(), chosen->chip()->str()),
      file.name(), "every kernel that a target launches needs a code object for it",
      "make the plan again with `m3c compile`");
}

/// A plan has sizes and constants of one config.json in its code; tensors of equal shapes do not
/// show that another one differs in, say, a norm's epsilon.
void Engine::checkConfig(const WeightSource &source) const {
  std::string given = source.configDigest(), meant;
  nlohmann::json manifest = nlohmann::json::parse(file.manifest(), nullptr, false);
  const nlohmann::json::json_pointer place("/checkpoint/config");
  if (manifest.is_object() && manifest.contains(place) && manifest[place].is_string())
    meant = manifest[place];
  if (!given.empty() && !meant.empty() && given != meant)
    throw Error(fmt::format("{} was compiled for another config.json", file.name()), file.name(),
                fmt::format("its digest is {}, the checkpoint's {}", meant, given),
                "compile this checkpoint, or give the one that the plan was compiled from");
}

void Engine::bindWeights(const WeightSource &source, const WeightProgress &progress) {
  checkConfig(source);
  weights = Weights::bind(tables(), *chosen, source, *hardware, std::thread::hardware_concurrency(),
                          progress);
}

} // namespace m3c
