#include "compiler/emulator/Emulator.h"

#include "runtime/base/Error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace m3c::emulator {

namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

const EmulatedTarget &targetOf(const std::string &name) {
  if (const EmulatedTarget *target = findEmulatedTarget(name))
    return *target;
  throw Error(fmt::format("{} cannot be emulated", name), "--emulate",
              fmt::format("targets with an emulator: {}", fmt::join(emulatedTargetNames(), ", ")),
              "choose one of them", ExitCode::Usage);
}

/// Runs `part` on this thread and on others; the first exception is thrown on.
template <class Part> void onThreads(size_t threads, Part part) {
  std::mutex mutex;
  std::exception_ptr fault;
  auto guarded = [&](size_t i) {
    try {
      part(i);
    } catch (...) {
      std::lock_guard lock(mutex);
      fault = fault ? fault : std::current_exception();
    }
  };
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < threads; ++i)
    helpers.emplace_back(guarded, i);
  guarded(0);
  for (std::thread &helper : helpers)
    helper.join();
  if (fault)
    std::rethrow_exception(fault);
}

std::string globalFault(const void *memory, uint64_t address, uint64_t bytes, bool writes,
                        bool early) {
  return static_cast<const Memory *>(memory)->fault(address, bytes, writes, early);
}

std::string placeText(const Place &place) {
  if (!place.line)
    return "";
  std::string text =
      place.op.empty()
          ? fmt::format(" (line {} of the text: {})", place.line, place.text)
          : fmt::format(" at {} (line {} of the text: {})", place.op, place.line, place.text);
  return place.role.empty() ? text : fmt::format(", role {}{}", place.role, text);
}

} // namespace

/// A launch under way.
struct Emulator::Run {
  LaunchShape shape;
  uint64_t items, clusters, first;
  std::atomic<uint64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  Fault fault; ///< of the first work item that failed
  hal::emulator::Counts count{};
};

Emulator::Emulator(const EmulatorOptions &given)
    : options(given), target(targetOf(given.target)), cache(ContentCache::defaultFolder()) {
  if (!options.threads)
    options.threads = std::max(1u, std::thread::hardware_concurrency());
  for (unsigned i = 0; i < options.threads; ++i)
    workers.push_back(std::make_unique<Cluster>());
}

std::unique_ptr<Program> Emulator::load(KernelSource source) const {
  return std::make_unique<Program>(std::move(source), target);
}

void Emulator::prepare(std::span<Program *const> programs) {
  Clock::time_point begun = Clock::now();
  std::atomic<size_t> next = 0;
  std::atomic<uint64_t> compiled = 0, cached = 0;
  onThreads(std::min<size_t>(options.threads, programs.size()), [&](size_t) {
    for (size_t i; (i = next++) < programs.size();)
      if (!programs[i]->entry())
        ++(programs[i]->build(cache) ? compiled : cached);
  });
  count.compiled += compiled;
  count.cached += cached;
  count.compileSeconds += secondsSince(begun);
}

void Emulator::work(Run &run, Cluster &cluster) {
  const m3emu::Dim &grid = run.shape.grid;
  hal::emulator::Counts mine{};
  const uint64_t across = grid.x / run.shape.cluster;
  for (uint64_t i; (i = run.next++) < run.clusters && !run.failed;) {
    uint64_t number = (i + run.first) % run.clusters;
    m3emu::Dim block = {unsigned(number % across) * run.shape.cluster,
                        unsigned(number / across % grid.y), unsigned(number / across / grid.y)};
    bool good = cluster.run(run.shape, block);
    mine.meetings += cluster.counts().meetings;
    mine.sharedAccesses += cluster.counts().sharedAccesses;
    mine.copies += cluster.counts().copies;
    mine.instructions += cluster.counts().instructions;
    if (!good && !run.failed.exchange(true)) {
      std::lock_guard lock(run.mutex);
      run.fault = cluster.fault();
    }
  }
  std::lock_guard lock(run.mutex);
  run.count.meetings += mine.meetings;
  run.count.sharedAccesses += mine.sharedAccesses;
  run.count.copies += mine.copies;
  run.count.instructions += mine.instructions;
}

void Emulator::launch(Program &program, std::array<unsigned, 3> grid,
                      std::span<const uint64_t> values, const std::string &label) {
  Program *one[] = {&program};
  if (!program.entry())
    prepare(one);
  const KernelSource &source = program.source();
  if (grid[0] % source.cluster)
    throw Error(fmt::format("launch {} cannot be emulated", label), source.kernel,
                fmt::format("{} work items along x are no multiple of the cluster of {}", grid[0],
                            source.cluster),
                "give the schedule of its family a cluster that divides them");
  Clock::time_point begun = Clock::now();
  Run run;
  static_assert(sizeof(uint64_t) == sizeof(unsigned long));
  run.shape = {program.entry(),
               reinterpret_cast<const unsigned long *>(values.data()),
               {grid[0], grid[1], grid[2]},
               source.threads,
               target.lanes,
               source.cluster,
               target.tensorColumns,
               source.registers,
               source.sharedBytes,
               options.seed * 0x9e3779b97f4a7c15 + count.launches * 0xbf58476d1ce4e5b9,
               Landing((options.seed + count.launches) % 3),
               global.begin(),
               global.pages(),
               global.pageState(),
               global.written(),
               global.noPage(),
               source.overlaps,
               globalFault,
               &global};
  run.items = uint64_t(grid[0]) * grid[1] * grid[2];
  run.clusters = run.items / source.cluster;
  run.first = run.clusters ? run.shape.seed % run.clusters : 0;
  onThreads(std::min<uint64_t>(workers.size(), run.clusters),
            [&](size_t i) { work(run, *workers[i]); });
  ++count.launches;
  count.workItems += run.items;
  count.threads += run.items * source.threads;
  count.meetings += run.count.meetings;
  count.sharedAccesses += run.count.sharedAccesses;
  count.copies += run.count.copies;
  count.instructions += run.count.instructions;
  count.kernelSeconds += secondsSince(begun);
  if (run.failed)
    fail(program, run, label);
}

void Emulator::fail(const Program &program, const Run &run, const std::string &label) const {
  const Fault &fault = run.fault;
  std::string where = fmt::format("kernel {}, work item ({}, {}, {})", program.source().kernel,
                                  fault.item.x, fault.item.y, fault.item.z);
  if (fault.warp >= 0)
    where += fmt::format(", warp {}, lane {}{}", fault.warp, fault.lane,
                         placeText(program.placeOf(fault.place)));
  std::string why = fault.what;
  std::string last;
  size_t shown = 0;
  for (const auto &[what, place] : fault.waiting) {
    std::string text = placeText(program.placeOf(place));
    if (text == last) // other lanes at the same place
      continue;
    last = text;
    if (++shown > 16)
      break;
    why += "\n         " + what + text;
  }
  constexpr const char *landings[] = {"early", "late", "at random"};
  throw Error(fmt::format("launch {} fails in the emulator", label), where, why,
              fmt::format("seed {}, launch {} of this device, copies land {}", options.seed,
                          count.launches - 1, landings[size_t(run.shape.landing)]));
}

} // namespace m3c::emulator
