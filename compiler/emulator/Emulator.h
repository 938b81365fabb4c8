// An emulated device: memory, programs and launches, work items shared out among threads of the
// CPU.
#pragma once

#include "compiler/emulator/Cluster.h"
#include "compiler/emulator/Memory.h"
#include "compiler/emulator/Program.h"
#include "runtime/base/ContentCache.h"
#include "runtime/drivers/emulator/EmulatorApi.h"

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace m3c::emulator {

struct EmulatorOptions {
  std::string target;
  uint64_t seed = 1;
  unsigned threads = 0; ///< 0: one for each core
};

class Emulator {
public:
  /// Throws Error for a target that cannot be emulated.
  explicit Emulator(const EmulatorOptions &options);

  Memory &memory() { return global; }
  std::unique_ptr<Program> load(KernelSource source) const;
  /// Builds what is not built, side by side.
  void prepare(std::span<Program *const> programs);
  /// Runs a launch; asynchronous copies land early, late or at random, one launch after the other,
  /// beginning by the seed.
  /// Throws Error that says which thread did what, and where in the text.
  void launch(Program &program, std::array<unsigned, 3> grid, std::span<const uint64_t> values,
              const std::string &label);
  const hal::emulator::Counts &counts() const { return count; }

private:
  struct Run;
  void work(Run &run, Cluster &cluster);
  [[noreturn]] void fail(const Program &program, const Run &run, const std::string &label) const;

  EmulatorOptions options;
  const EmulatedTarget &target;
  ContentCache cache;
  Memory global;
  std::vector<std::unique_ptr<Cluster>> workers;
  hal::emulator::Counts count{};
};

} // namespace m3c::emulator
