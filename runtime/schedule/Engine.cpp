#include "runtime/schedule/Engine.h"

#include "runtime/base/Error.h"
#include "runtime/base/Log.h"
#include "runtime/drivers/Drivers.h"
#include "runtime/plan/List.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <mutex>
#include <thread>

namespace m3c {

Engine::Engine(plan::PlanFile plan, const hal::DeviceOptions &options) : file(std::move(plan)) {
  hal::OpenedDevice opened = hal::openDeviceFor(tables(), file.name(), options);
  hardware = std::move(opened.device);
  chosen = opened.target;
  fromSource = opened.fromSource;
  loadKernels();
}

Engine::Engine(plan::PlanFile plan, std::unique_ptr<hal::Device> device)
    : file(std::move(plan)), hardware(std::move(device)) {
  chosen = hal::bestTarget(tables(), hardware->info());
  if (!chosen)
    fromSource = (chosen = hal::sourceTarget(tables(), hardware->info()));
  if (!chosen)
    throw Error(fmt::format("{} has no code for this device", file.name()), file.name(),
                fmt::format("no target suits {}", hardware->info().name));
  loadKernels();
}

void Engine::loadKernels() {
  kernels.resize(plan::list(tables().kernels()).size());
  if (fromSource)
    buildSources();
  for (const plan::Bucket *bucket : plan::list(chosen->buckets()))
    for (const plan::Launch *launch : plan::list(bucket->launches()))
      if (std::unique_ptr<hal::Kernel> &kernel = kernels[launch->kernel()]; !kernel)
        kernel = loadKernel(launch->kernel());
}

const plan::CodeObject &Engine::object(uint32_t index) const {
  return plan::requireObject(file, *tables().kernels()->Get(index), *chosen);
}

bool Engine::isOwn(const plan::CodeObject &object) const {
  return object.chip()->string_view() == chosen->chip()->string_view();
}

std::unique_ptr<hal::Kernel> Engine::loadKernel(uint32_t index) {
  const plan::Kernel &kernel = *tables().kernels()->Get(index);
  const plan::CodeObject &code = object(index);
  std::unique_ptr<hal::Module> &module = modules[code.section()];
  if (!module)
    module = loadModule(kernel, code);
  return module->kernel(code.symbol()->str(), {kernel.params(), code.shared_bytes(), code.threads(),
                                               code.cluster(), code.overlaps()});
}

std::unique_ptr<hal::Module> Engine::loadModule(const plan::Kernel &kernel,
                                                const plan::CodeObject &object) {
  auto found = built.find(object.section());
  std::span<const std::byte> code =
      found == built.end() ? file.sectionBytes(object.section()) : found->second;
  loadedCode += code.size();
  if (!isOwn(object))
    return hardware->loadFallback(code, kernel.name()->string_view());
  return hardware->load(code, kernel.name()->string_view());
}

hal::SourceText Engine::sourceOf(const plan::CodeObject &object) const {
  auto textOf = [&](uint32_t section) {
    std::span<const std::byte> bytes = file.sectionBytes(section);
    return std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  };
  hal::SourceText source;
  source.text = textOf(uint32_t(object.source_section()));
  for (const plan::NamedSection *header : plan::list(chosen->headers()))
    source.headers.emplace_back(header->name()->str(), textOf(header->section()));
  for (const flatbuffers::String *option : plan::list(chosen->build_options()))
    source.options.push_back(option->str());
  return source;
}

void Engine::buildSources() {
  std::vector<std::pair<const plan::Kernel *, const plan::CodeObject *>> wanted;
  for (const plan::Kernel *kernel : plan::list(tables().kernels()))
    for (const plan::CodeObject *object : plan::list(kernel->objects()))
      if (isOwn(*object) && object->source_section() >= 0 &&
          built.try_emplace(object->section()).second)
        wanted.emplace_back(kernel, object);
  log::info("{}: kernels of {} are built from their sources for {}, {} of them", file.name(),
            chosen->chip()->str(), hardware->info().name, wanted.size());
  if (plan::isIncomplete(*chosen))
    log::info("{}: {} lacks the others yet; those of {} stand in", file.name(),
              chosen->name()->str(), chosen->fallback_chip()->str());
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr fault;
  auto work = [&] {
    for (size_t i; (i = next++) < wanted.size();)
      try {
        const auto &[kernel, object] = wanted[i];
        built.at(object->section()) = hardware->build(sourceOf(*object), kernel->name()->str());
      } catch (...) {
        std::lock_guard lock(mutex);
        fault = fault ? fault : std::current_exception();
        next = wanted.size();
      }
  };
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < std::min<size_t>(std::thread::hardware_concurrency(), wanted.size());
       ++i)
    helpers.emplace_back(work);
  work();
  for (std::thread &helper : helpers)
    helper.join();
  if (fault)
    std::rethrow_exception(fault);
}

/// A plan has sizes and constants of one config.json in its code; tensors of equal shapes do not
/// show that another one differs in, say, a norm's epsilon.
void Engine::checkConfig(const WeightSource &source) const {
  std::string given = source.configDigest(), meant;
  nlohmann::json manifest = nlohmann::json::parse(file.manifest(), nullptr, false);
  const nlohmann::json::json_pointer place("/checkpoint/config");
  if (manifest.is_object() && manifest.contains(place) && manifest[place].is_string())
    meant = manifest[place];
  if (given.empty() && !meant.empty() && !source.configPath().empty())
    throw Error(fmt::format("{} does not exist", source.configPath()), source.configPath(),
                fmt::format("it tells whether {} was compiled from this checkpoint", file.name()),
                "fetch the file, or give the checkpoint that the plan was compiled from");
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
