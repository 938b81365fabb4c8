#include "runtime/capsule/MakeCapsules.h"

#include "runtime/base/Error.h"
#include "runtime/base/Formats.h"
#include "runtime/base/OutputPlace.h"
#include "runtime/capsule/MadeUpStep.h"
#include "runtime/plan/List.h"
#include "runtime/schedule/Session.h"
#include "runtime/schedule/StepGraphs.h"
#include "runtime/weights/SyntheticSource.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <tuple>

namespace m3c {

namespace {

using Element = CapsuleArgument::Element;

/// Memory that some arguments of a launch reach: a stretch of a buffer, or parts of the cache.
struct Region {
  const hal::Buffer *buffer = nullptr;
  uint64_t begin = 0, end = 0;
  std::vector<CapsulePart> parts = {}; ///< from the buffer's beginning; empty: all of the stretch
  uint8_t access = 0;                  ///< plan::Access of all of them together
  size_t owner = 0;                    ///< the first of them
  Element element = Element::Bytes;
  bool reads() const { return access & uint8_t(plan::Access::Read); }
  bool writes() const { return access & uint8_t(plan::Access::Write); }
};

Element elementOf(plan::Element element) {
  return element == plan::Element::F32    ? Element::F32
         : element == plan::Element::Bf16 ? Element::Bf16
                                          : Element::Bytes;
}

class Maker {
public:
  Maker(Engine &engine, const CapsuleRequest &request, MadeUpStep &step, const plan::Launch &launch)
      : engine(engine), request(request), step(step), launch(launch),
        kernel(*engine.tables().kernels()->Get(launch.kernel())),
        object(engine.object(launch.kernel())) {
    for (const plan::Arg *arg : plan::list(launch.args()))
      places.push_back(step.placeOf(*arg));
    for (size_t i = 0; i < places.size(); ++i)
      addToRegions(i);
    mergeRegions();
  }

  void run() {
    clearResults();
    step.launch(launch);
  }

  /// Runs the launch.
  Capsule make() {
    Capsule capsule = describe();
    clearResults();
    for (const Region &region : regions)
      capsule.arguments[region.owner].input = contents(region);
    step.launch(launch);
    for (const Region &region : regions)
      setExpected(capsule.arguments[region.owner], region);
    return capsule;
  }

private:
  /// What a launch only writes holds nothing of launches before: capsules do not depend on which
  /// others are made.
  void clearResults() {
    for (const Region &region : regions)
      if (!region.reads())
        eachPart(region, [&](uint64_t place, uint64_t, uint64_t bytes) {
          step.stream().fill(const_cast<hal::Buffer &>(*region.buffer), place, bytes, 0xff);
        });
  }

  std::string label() const {
    return launch.label() ? launch.label()->str() : kernel.name()->str();
  }

  void addToRegions(size_t i) {
    const MadeUpStep::Place &place = places[i];
    const plan::Arg &arg = *launch.args()->Get(uint32_t(i));
    if (!place.buffer)
      return;
    Region region{place.buffer, place.value, place.value + place.bytes};
    if (place.inPages) {
      region.begin = 0;
      region.end = place.buffer->size();
      for (int32_t page : step.usedPages())
        region.parts.push_back(
            {uint64_t(page) * step.pageBytes() + place.inPages->offset, place.inPages->bytes});
    }
    if (arg.access() == plan::Access::Unknown || region.begin == region.end ||
        (place.inPages && place.inPages->bytes == 0))
      throw Error(fmt::format("the plan does not say what {} does with argument {}",
                              kernel.name()->str(), i),
                  label(), "capsules hold the bytes that a launch reads and writes",
                  "make the plan again with `m3c compile`");
    region.access = uint8_t(arg.access());
    region.owner = i;
    auto elements = plan::list(object.elements());
    if (i < elements.size())
      region.element = elementOf(elements[uint32_t(i)]);
    regions.push_back(region);
  }

  /// Regions that overlap become one; afterwards they stand in the order of their owners.
  void mergeRegions() {
    std::ranges::sort(regions, {}, [](const Region &r) { return std::tuple(r.buffer, r.begin); });
    std::vector<Region> merged;
    for (Region &region : regions) {
      if (merged.empty() || merged.back().buffer != region.buffer ||
          merged.back().end <= region.begin) {
        merged.push_back(std::move(region));
        continue;
      }
      Region &before = merged.back();
      before.end = std::max(before.end, region.end);
      before.access |= region.access;
      before.owner = std::min(before.owner, region.owner);
      before.element = before.element == region.element ? region.element : Element::Bytes;
      before.parts.insert(before.parts.end(), region.parts.begin(), region.parts.end());
    }
    for (Region &region : merged)
      joinParts(region.parts);
    std::ranges::sort(merged, {}, &Region::owner);
    regions = std::move(merged);
  }

  static void joinParts(std::vector<CapsulePart> &parts) {
    std::ranges::sort(parts, {}, &CapsulePart::offset);
    std::vector<CapsulePart> joined;
    for (const CapsulePart &part : parts)
      if (joined.empty() || joined.back().offset + joined.back().bytes < part.offset)
        joined.push_back(part);
      else
        joined.back().bytes =
            std::max(joined.back().bytes, part.offset + part.bytes - joined.back().offset);
    parts = std::move(joined);
  }

  template <typename Visit> static void eachPart(const Region &region, Visit visit) {
    visitParts(region.parts, {region.begin, region.end - region.begin}, visit);
  }

  std::vector<std::byte> contents(const Region &region) const {
    uint64_t all = 0;
    eachPart(region, [&](uint64_t, uint64_t, uint64_t bytes) { all += bytes; });
    std::vector<std::byte> found(all);
    eachPart(region, [&](uint64_t place, uint64_t at, uint64_t bytes) {
      step.stream().read(*region.buffer, place, std::span(found).subspan(at, bytes));
    });
    return found;
  }

  Capsule describe() const {
    Capsule capsule;
    capsule.kernel = object.symbol()->str();
    capsule.label = fmt::format("{} of {} rows", label(), request.rows);
    capsule.target = engine.target().name()->str();
    capsule.chip = object.chip()->str();
    for (const flatbuffers::String *feature : plan::list(engine.target().required_features()))
      capsule.features.push_back(feature->str());
    std::span<const std::byte> code = engine.plan().sectionBytes(object.section());
    capsule.code.assign(code.begin(), code.end());
    if (object.source_section() >= 0)
      capsule.source = engine.sourceOf(object);
    capsule.source.options.clear();
    capsule.grid = gridOf(launch, step.blocks());
    capsule.shape = {kernel.params(), object.shared_bytes(), object.threads(), object.cluster(),
                     object.overlaps()};
    capsule.madeBy = request.isEmulated ? "the emulator" : "the code itself";
    capsule.arguments.resize(places.size());
    for (size_t i = 0; i < places.size(); ++i) {
      capsule.arguments[i].name = fmt::format("{} {}", i, places[i].name);
      capsule.arguments[i].isBuffer = places[i].buffer != nullptr;
      capsule.arguments[i].value = places[i].value;
    }
    for (const Region &region : regions) {
      CapsuleArgument &owner = capsule.arguments[region.owner];
      owner.parts = region.parts;
      owner.size = region.end - region.begin;
      owner.element = region.element;
      for (size_t i = 0; i < places.size(); ++i)
        if (places[i].buffer == region.buffer && places[i].value >= region.begin &&
            places[i].value < region.end) {
          capsule.arguments[i].value -= region.begin;
          if (i != region.owner)
            capsule.arguments[i].same = region.owner;
        }
    }
    return capsule;
  }

  void setExpected(CapsuleArgument &argument, const Region &region) const {
    std::vector<std::byte> after = contents(region);
    if (!region.writes()) {
      if (after != argument.input)
        throw Error(fmt::format("{} changes an argument that it only reads", kernel.name()->str()),
                    fmt::format("{}, argument {}", label(), argument.name),
                    "the plan says that the launch reads it", "this is a defect of m3c");
      return;
    }
    // The same machine code gives the same bytes wherever it runs.
    argument.tolerance = request.isEmulated ? capsuleTolerance(region.element, after) : 0;
    argument.expected = std::move(after);
  }

  Engine &engine;
  const CapsuleRequest &request;
  MadeUpStep &step;
  const plan::Launch &launch;
  const plan::Kernel &kernel;
  const plan::CodeObject &object;
  std::vector<MadeUpStep::Place> places; ///< of each argument
  std::vector<Region> regions;
};

/// Which launches of a target are wanted.
class Wanted {
public:
  Wanted(const Engine &engine, const std::string &name) : engine(engine), name(name) {
    for (const plan::Bucket *bucket : plan::list(engine.target().buckets()))
      for (const plan::Launch *launch : plan::list(bucket->launches())) {
        const plan::Kernel &kernel = *engine.tables().kernels()->Get(launch->kernel());
        known.insert(kernel.name()->str());
        any |= matches(*launch);
      }
    if (!any)
      throw Error(fmt::format("{} has no kernel {} for {}", engine.plan().name(), name,
                              engine.target().chip()->str()),
                  "--kernel", fmt::format("it has {}", fmt::join(known, ", ")),
                  "give one of them, a family, or all", ExitCode::Usage);
  }

  bool matches(const plan::Launch &launch) const {
    const plan::Kernel &kernel = *engine.tables().kernels()->Get(launch.kernel());
    return engine.isOwn(engine.object(launch.kernel())) &&
           (name == "all" || kernel.name()->string_view() == name ||
            (kernel.family() && kernel.family()->string_view() == name));
  }

private:
  const Engine &engine;
  const std::string &name;
  std::set<std::string> known;
  bool any = false;
};

uint64_t bytesBelow(const std::filesystem::path &folder) {
  uint64_t bytes = 0;
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    bytes += entry.file_size();
  return bytes;
}

/// Bytes of a bucket's step, beside the weights.
void checkMemory(const Engine &engine, const CapsuleRequest &request) {
  SessionOptions options;
  options.maxSequences = 3;
  uint64_t perPage = engine.tables().cache()->page_tokens();
  options.pages = (request.tokens + request.rows) / perPage + 6;
  Session::checkMemory(engine, options);
}

} // namespace

double capsuleTolerance(Element element, std::span<const std::byte> expected) {
  // Parts of the largest value: docs/capsules.md.
  constexpr double partF32 = 0x1p-11, partBf16 = 0x1p-7;
  if (element == Element::Bytes)
    return 0;
  double largest = 0;
  for (size_t at = 0; at + elementBytes(element) <= expected.size(); at += elementBytes(element)) {
    double value = std::fabs(capsuleValue(&expected[at], element));
    largest = std::isfinite(value) ? std::max(largest, value) : largest;
  }
  return largest * (element == Element::F32 ? partF32 : partBf16);
}

void makeCapsules(Engine &engine, const CapsuleRequest &request,
                  const std::filesystem::path &folder,
                  const std::function<void(const MadeCapsule &)> &made) {
  Wanted wanted(engine, request.kernel);
  checkMemory(engine, request);
  engine.bindWeights(SyntheticSource(request.seed, engine.tables()));
  for (const plan::Bucket *bucket : plan::list(engine.target().buckets())) {
    CapsuleRequest own = request;
    own.rows = std::min(request.rows, bucket->rows());
    auto launches = plan::list(bucket->launches());
    uint32_t end = launches.size();
    while (end > 0 && !wanted.matches(*launches[end - 1]))
      --end;
    if (end == 0)
      continue;
    MadeUpStep step(engine, *bucket, {own.rows, request.tokens, request.seed});
    std::map<uint32_t, std::set<std::tuple<uint32_t, uint32_t, uint32_t>>> seen;
    for (uint32_t i = 0; i < end; ++i) {
      const plan::Launch &launch = *launches[i];
      hal::Grid grid = gridOf(launch, step.blocks());
      if (!wanted.matches(launch) ||
          !seen[launch.kernel()].emplace(grid.x, grid.y, grid.z).second) {
        Maker(engine, own, step, launch).run();
        continue;
      }
      const plan::Kernel &kernel = *engine.tables().kernels()->Get(launch.kernel());
      std::string name = fmt::format("{}-{}", fileNameOf(kernel.name()->str()), bucket->rows());
      if (seen[launch.kernel()].size() > 1)
        name += fmt::format("-{}x{}x{}", grid.x, grid.y, grid.z);
      writeCapsule(Maker(engine, own, step, launch).make(), folder / name);
      made({name, kernel.name()->str(), kernel.family() ? kernel.family()->str() : "",
            launch.label() ? launch.label()->str() : "", bucket->rows(), grid,
            bytesBelow(folder / name)});
    }
  }
}

} // namespace m3c
