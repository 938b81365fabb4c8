// `m3c capsule PLAN`: one launch of each kernel with all that it needs, as folders.
#include "runtime/base/Error.h"
#include "runtime/base/OutputPlace.h"
#include "runtime/base/Progress.h"
#include "runtime/capsule/MakeCapsules.h"
#include "runtime/drivers/Drivers.h"
#include "runtime/plan/Objects.h"
#include "tools/common/Numbers.h"
#include "tools/m3c/Commands.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace m3c {
namespace {

struct CapsuleOptions {
  std::string plan, folder, target;
  CapsuleRequest request;
  bool json = false;
};

/// The target whose code the CPU runs itself; null where it runs none.
const plan::Target *ownTarget(const plan::Tables &tables) {
  for (const std::unique_ptr<hal::Driver> &driver : hal::allDrivers())
    if (driver->name() == "host")
      return hal::bestTarget(tables, driver->devices().at(0));
  return nullptr;
}

/// The CPU for the target that it runs, else the emulator.
hal::DeviceOptions deviceFor(const plan::PlanFile &file, const CapsuleOptions &options) {
  const plan::Target *own = ownTarget(file.tables());
  std::vector<std::string> names = plan::targetNames(file.tables());
  std::string name = options.target.empty() ? names.front() : options.target;
  if (std::ranges::find(names, name) == names.end())
    plan::refuseTarget(file.tables(), options.plan, name, "--target");
  hal::DeviceOptions device;
  if (own && own->name()->string_view() == name)
    device.device = "host";
  else
    device.emulate = name;
  return device;
}

int runCapsule(CapsuleOptions options) {
  std::filesystem::path inputs[] = {options.plan};
  requireApart(options.folder, inputs);
  plan::PlanFile file = plan::PlanFile::open(options.plan);
  hal::DeviceOptions device = deviceFor(file, options);
  options.request.isEmulated = !device.emulate.empty();
  Engine engine(std::move(file), device);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  makeCapsules(engine, options.request, options.folder, [&](const MadeCapsule &made) {
    list.push_back({{"folder", made.folder},
                    {"kernel", made.kernel},
                    {"family", made.family},
                    {"label", made.label},
                    {"rows", made.rows},
                    {"grid", {made.grid.x, made.grid.y, made.grid.z}},
                    {"bytes", made.bytes}});
    if (!options.json)
      fmt::print("{:<48} {:>10}  {} [{}, {}, {}]\n", made.folder, byteText(made.bytes), made.label,
                 made.grid.x, made.grid.y, made.grid.z);
  });
  if (options.json)
    fmt::print("{}\n", list.dump(1));
  return 0;
}

} // namespace

std::function<int()> setUpCapsule(CLI::App &app) {
  auto options = std::make_shared<CapsuleOptions>();
  CapsuleRequest &request = options->request;
  app.add_option("PLAN", options->plan, "plan file, compiled with --keep-sources to be emulated")
      ->required();
  app.add_option("--kernel", request.kernel, "a kernel, a family, or all")->required();
  app.add_option("-o,--output", options->folder, "folder for the capsules, one folder each")
      ->required();
  app.add_option(
      "--target", options->target,
      "whose kernels; default: the first of the plan. What the CPU cannot run is emulated");
  app.add_option("--rows", request.rows,
                 "rows of a step, most of one sequence, over the end of a page; smaller buckets "
                 "have fewer")
      ->check(atLeastOne())
      ->capture_default_str();
  app.add_option("--tokens", request.tokens, "tokens in the cache of the longest sequence")
      ->capture_default_str();
  app.add_option("--seed", request.seed, "seed of weights, cache and tokens")
      ->capture_default_str();
  app.add_flag("--json", options->json, "print JSON");
  return [options] { return runCapsule(*options); };
}

} // namespace m3c
