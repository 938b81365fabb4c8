// What the runtime asks of libm3emu, the emulator. The library has the compiler's parts that it
// needs; the runtime opens it with dlopen and knows these declarations only. Plain data and
// function pointers: no exception and no object of C++ crosses.
#pragma once

#include <cstdint>

namespace m3c::hal::emulator {

struct Emulator;
struct Program;

/// Takes the parts of an m3c::Error.
struct Report {
  void *context;
  void (*error)(void *context, const char *what, const char *where, const char *why,
                const char *next);
};

struct Options {
  const char *target; ///< "sm90"
  uint64_t seed;      ///< of the order of threads, warps and copies
  uint32_t threads;   ///< of the CPU; 0: one for each core
};

struct Text {
  const char *name, *text;
};

struct Source {
  const char *kernel;
  const char *text;
  const Text *headers;
  uint32_t headerCount;
  uint32_t threads; ///< of a work item
  uint32_t cluster; ///< work items along x that run together
  uint64_t sharedBytes;
  uint32_t parameters;
};

struct Launch {
  Program *program;
  uint32_t grid[3];
  const uint64_t *values; ///< one for each parameter
  const char *label;
};

struct Counts {
  uint64_t launches, workItems, threads;
  uint64_t meetings;       ///< of all lanes of a warp, or of all warps of a work item
  uint64_t sharedAccesses; ///< checked
  uint64_t copies;         ///< asynchronous ones
  uint64_t instructions;   ///< of threads; what counts says compiler/emulator/CountInstructions.h
  double kernelSeconds;    ///< in launches, not in compiling
  double compileSeconds;
  uint64_t compiled, cached; ///< kernels
};

/// Functions that can fail return false or null after calling `report.error`.
struct Api {
  uint32_t version;
  Emulator *(*open)(const Options &, const Report &);
  void (*close)(Emulator *);
  void *(*allocate)(Emulator *, uint64_t bytes, const char *name, const Report &);
  void (*release)(Emulator *, void *);
  /// Nothing is compiled before `prepare` or the first launch. Texts are copied.
  Program *(*load)(Emulator *, const Source &, const Report &);
  void (*unload)(Emulator *, Program *);
  /// Compiles those that are not, side by side.
  bool (*prepare)(Emulator *, Program *const *, uint32_t count, const Report &);
  bool (*launch)(Emulator *, const Launch &, const Report &);
  Counts (*counts)(const Emulator *);
};

/// Changes with this file: a number, and the sizes of what crosses, so that a library with another
/// layout is refused even where the number was forgotten.
inline constexpr uint32_t apiVersion =
    3u << 24 |
    uint32_t(sizeof(Options) + sizeof(Source) + sizeof(Launch) + sizeof(Counts) + sizeof(Api));

/// The one symbol of the library.
using GetApi = const Api *(*)();
inline constexpr const char *entryName = "m3EmulatorApi";

} // namespace m3c::hal::emulator
