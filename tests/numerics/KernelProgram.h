// Builds the kernels of a small m3 module and runs the launches of one bucket, on the host or in
// the emulator. Free of MLIR headers.
#pragma once

#include "compiler/interpreter/Values.h"
#include "runtime/hal/Hal.h"

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace m3c::numerics {

/// Chips of every target that the host driver can run, e.g. "x86-avx2".
std::vector<std::string> hostChips();
/// These, and one chip of each target that can be emulated.
std::vector<std::string> runnableChips();
/// Those of them whose target lacks kernels: matrix instructions for up to 16 FP32 rows, the CPU's
/// kernels for the rest.
std::vector<std::string> incompleteChips();

/// Rows of one text, the first at `position`; the token of row r is r.
interpreter::Batch oneText(int64_t rows, int32_t position = 0);

/// What a launch passes: one 64-bit parameter.
struct Argument {
  enum Kind { Buffer, Weight, Pool, Batch, Scalar } kind;
  std::string name;  ///< of a buffer, or the symbol of a weight
  int64_t value = 0; ///< buffer: its number; pool: byte offset; batch: BatchArray;
                     ///< scalar: itself
};
struct Launch {
  std::string kernel, label;
  std::vector<Argument> arguments;
  int64_t count[3], blocksPerItem[3];
};
struct ArenaBuffer {
  std::string name;
  int64_t rowBytes, blockBytes, fixedBytes;
};
struct BuiltKernel {
  std::string source;
  std::vector<std::byte> code;
  hal::KernelShape shape;
  bool standsIn = false; ///< the CPU's, where the chip's target has none of its own
};

/// What a step works on. `pool` is the address of cache page 0.
struct StepInput {
  const interpreter::Batch *batch;
  /// F32 matrices by symbol, or the words of a weight buffer by its name.
  std::map<std::string, std::vector<float>> weights;
  std::byte *pool = nullptr;
  int64_t blocks = 0; ///< page-table row length; 0 = the power of two that the runtime would take
  unsigned threads = 1;
  uint64_t seed = 1; ///< of the order in which an emulated device runs its warps
  std::string only;  ///< run launches whose label ends so; empty: all
  std::map<std::string, std::vector<float>> given; ///< first contents of buffers, by name
  int64_t poolPages = 0, pageBytes = 0; ///< of the pool; pages that the batch names are filled
  /// How often all launches run, one after the other: what is asynchronous on an emulated device
  /// lands early, late and at random in three launches.
  unsigned times = 1;
};

/// One bucket of one module for one chip, built.
class KernelProgram {
public:
  /// `module` holds one function; it is taken as a step although it reads a cache that it does not
  /// write. `schedule` overrides choices, "family.choice=value".
  KernelProgram(const std::string &module, const std::string &chip, int64_t rows,
                const std::vector<std::string> &schedule = {});

  /// Runs all launches. Buffers hold NaN bytes before; the counters of meetings are zero before,
  /// and must be after.
  void run(const StepInput &input);
  /// The buffer of that name after a run (the last one of several).
  template <class T> std::span<const T> buffer(const std::string &name) const {
    const std::vector<std::byte> &bytes = memory.at(numberOf(name));
    return {reinterpret_cast<const T *>(bytes.data()), bytes.size() / sizeof(T)};
  }

  std::map<std::string, BuiltKernel> kernels;
  std::vector<Launch> launches;

private:
  void lower(const std::string &module, const std::string &chip,
             const std::vector<std::string> &schedule);
  class Placement;
  size_t numberOf(const std::string &name) const;

  std::string chip;
  int64_t rows;
  std::vector<ArenaBuffer> buffers;
  std::vector<std::vector<std::byte>> memory;
};

} // namespace m3c::numerics
