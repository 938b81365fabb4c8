// The library's one symbol: the emulator behind plain functions.
#include "compiler/emulator/Emulator.h"
#include "runtime/base/Error.h"

#include <fmt/format.h>

namespace m3c::hal::emulator {

struct Emulator {
  m3c::emulator::Emulator real;
};
struct Program {
  std::unique_ptr<m3c::emulator::Program> real;
};

namespace {

/// Runs `body`; its exception becomes a report and `otherwise` the result.
template <class Result, class Body>
Result guarded(const Report &report, Result otherwise, Body body) {
  try {
    return body();
  } catch (const Error &error) {
    report.error(report.context, error.summary().c_str(), error.where().c_str(),
                 error.why().c_str(), error.next().c_str());
  } catch (const std::exception &error) {
    report.error(report.context, "the emulator failed", "", error.what(), "");
  }
  return otherwise;
}

Emulator *open(const Options &options, const Report &report) {
  return guarded<Emulator *>(report, nullptr, [&] {
    m3c::emulator::EmulatorOptions wanted;
    wanted.target = options.target;
    wanted.seed = options.seed;
    wanted.threads = options.threads;
    return new Emulator{m3c::emulator::Emulator(wanted)};
  });
}

void close(Emulator *emulator) { delete emulator; }

void *allocate(Emulator *emulator, uint64_t bytes, const char *name, const Report &report) {
  return guarded<void *>(report, nullptr,
                         [&] { return emulator->real.memory().allocate(bytes, name); });
}

void release(Emulator *emulator, void *memory) {
  emulator->real.memory().release(static_cast<std::byte *>(memory));
}

Program *load(Emulator *emulator, const Source &source, const Report &report) {
  return guarded<Program *>(report, nullptr, [&] {
    m3c::emulator::KernelSource given;
    given.kernel = source.kernel;
    given.text = source.text;
    for (uint32_t i = 0; i < source.headerCount; ++i)
      given.headers[source.headers[i].name] = source.headers[i].text;
    given.threads = source.threads;
    given.cluster = source.cluster;
    given.sharedBytes = source.sharedBytes;
    given.parameters = source.parameters;
    return new Program{emulator->real.load(std::move(given))};
  });
}

void unload(Emulator *, Program *program) { delete program; }

bool prepare(Emulator *emulator, Program *const *programs, uint32_t count, const Report &report) {
  return guarded(report, false, [&] {
    std::vector<m3c::emulator::Program *> list;
    for (uint32_t i = 0; i < count; ++i)
      list.push_back(programs[i]->real.get());
    emulator->real.prepare(list);
    return true;
  });
}

bool launch(Emulator *emulator, const Launch &launch, const Report &report) {
  return guarded(report, false, [&] {
    m3c::emulator::Program &program = *launch.program->real;
    emulator->real.launch(program, {launch.grid[0], launch.grid[1], launch.grid[2]},
                          {launch.values, program.source().parameters}, launch.label);
    return true;
  });
}

Counts counts(const Emulator *emulator) { return emulator->real.counts(); }

} // namespace

} // namespace m3c::hal::emulator

extern "C" __attribute__((visibility("default"))) const m3c::hal::emulator::Api *m3EmulatorApi() {
  using namespace m3c::hal::emulator;
  static constexpr Api api = {apiVersion, open,   close,   allocate, release,
                              load,       unload, prepare, launch,   counts};
  return &api;
}
