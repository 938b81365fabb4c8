// Hardware abstraction: what a session asks of a device. A driver implements these classes; the
// conformance suite (tests/unit/hal/HalConformance.h) says what any of them must do.
//
// One thread at a time uses a device. Work on a stream runs in order; `synchronize` ends when all
// of it is done and reports what failed. Graphs are recorded once and replayed: a replay builds no
// launch, allocates nothing and reads no device memory on the host.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace m3c::hal {

/// Device: where kernels read fastest. Host: visible to the CPU as well as to kernels.
enum class MemoryKind { Device, Host };

/// Work items of a launch; a zero makes the launch empty, which is legal.
struct Grid {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t items() const { return uint64_t(x) * y * z; }
};

struct DeviceInfo {
  std::string driver, name;          ///< "host", "AMD EPYC …"
  std::vector<std::string> features; ///< what a plan's targets may require, sorted
  unsigned workers = 1;              ///< threads or multiprocessors
  uint64_t memoryBytes = 0;          ///< in all
  std::string software = "";         ///< version of what drives it; empty for the host
  uint64_t clockHertz = 0;           ///< the highest, where the driver says it
  uint64_t cacheBytes = 0;           ///< of the last cache, where the driver says it
  /// Numbers of the driver's other devices whose memory this one can read and write directly.
  std::vector<unsigned> peers = {};
  bool supports(std::string_view feature) const;
};

/// What a device has done since it was opened. Tests use them to show that a replay builds,
/// allocates and reads nothing.
struct Counters {
  std::atomic<uint64_t> launchesBuilt{0};   ///< parameter arrays made
  std::atomic<uint64_t> graphsPrepared{0};  ///< graphs instantiated
  std::atomic<uint64_t> allocations{0};     ///< buffers
  std::atomic<uint64_t> allocatedBytes{0};  ///< alive now
  std::atomic<uint64_t> peakBytes{0};       ///< largest allocatedBytes so far
  std::atomic<uint64_t> hostReads{0};       ///< transfers from device memory to the host
  std::atomic<uint64_t> replays{0};         ///< graphs replayed
  std::atomic<uint64_t> kernelsLaunched{0}; ///< direct or replayed
};

/// What a device can do at best, measured on the spot.
struct DeviceLimits {
  double readBytesPerSecond = 0; ///< all workers reading memory that no cache holds
  struct Arithmetic {
    std::string feature;       ///< of the device, in whose instructions the operations are
    double flopsPerSecond = 0; ///< FP32 multiply and add counted as two
  };
  std::vector<Arithmetic> arithmetic; ///< from the narrowest instructions to the widest
};

class Buffer {
public:
  virtual ~Buffer() = default;
  virtual uint64_t size() const = 0;
  /// As kernels see it; at least 64-byte aligned.
  virtual uint64_t address() const = 0;
  /// As the CPU sees it; null for memory that the CPU cannot reach.
  virtual std::byte *host() = 0;
  const std::byte *host() const { return const_cast<Buffer *>(this)->host(); }
};

/// How a kernel is launched: what its code object says in the plan.
struct KernelShape {
  uint32_t parameters = 0;  ///< 64-bit values that a launch passes
  uint64_t sharedBytes = 0; ///< scratch memory of one work item, given at the launch
  uint32_t threads = 1;     ///< hardware threads of one work item; the host driver has one
  /// Work items along x that run together and reach each other's scratch memory; divides the grid.
  uint32_t cluster = 1;
  /// The kernel may begin before the one before it has ended, and waits itself for its results.
  bool overlaps = false;
};

class Kernel {
public:
  virtual ~Kernel() = default;
  virtual const std::string &name() const = 0;
  virtual uint32_t parameters() const = 0;
};

class Module {
public:
  virtual ~Module() = default;
  /// Finds a function. Throws Error when the module has no such symbol, and when the device cannot
  /// launch it in that shape (which resource, and by how much).
  virtual std::unique_ptr<Kernel> kernel(const std::string &symbol, const KernelShape &shape) = 0;
};

class Event {
public:
  virtual ~Event() = default;
  /// True once everything before its last `record` is done; true before any record.
  virtual bool done() const = 0;
  virtual void wait() = 0;
};

/// Nodes run in the order of recording, each after the one before has ended.
class Graph {
public:
  virtual ~Graph() = default;
  /// Throws Error naming `label` when the number of parameters is not the kernel's.
  virtual void launch(const Kernel &kernel, Grid grid, std::span<const uint64_t> parameters,
                      std::string_view label) = 0;
  virtual void copy(Buffer &to, uint64_t toOffset, const Buffer &from, uint64_t fromOffset,
                    uint64_t bytes, std::string_view label) = 0;
  /// Ends the recording. Buffers and kernels must outlive the graph.
  virtual void instantiate() = 0;
  virtual size_t nodes() const = 0;
  virtual const std::string &label(size_t node) const = 0;
};

class Stream {
public:
  virtual ~Stream() = default;
  virtual void launch(const Kernel &kernel, Grid grid, std::span<const uint64_t> parameters,
                      std::string_view label) = 0;
  virtual void copy(Buffer &to, uint64_t toOffset, const Buffer &from, uint64_t fromOffset,
                    uint64_t bytes) = 0;
  virtual void fill(Buffer &to, uint64_t offset, uint64_t bytes, uint8_t value) = 0;
  /// Transfers from and to ordinary memory, which may be reused when the call returns.
  virtual void write(Buffer &to, uint64_t offset, std::span<const std::byte> from) = 0;
  virtual void read(const Buffer &from, uint64_t offset, std::span<std::byte> to) = 0;
  virtual void record(Event &event) = 0;
  virtual void wait(const Event &event) = 0;
  /// Throws Error for a graph that is not instantiated.
  virtual void replay(Graph &graph) = 0;
  /// As `replay`, and waits; `seconds[i]` becomes the time of node i (`nodes()` entries).
  virtual void replayTimed(Graph &graph, std::span<double> seconds) = 0;
  /// Waits; throws Error naming the launch that failed.
  virtual void synchronize() = 0;
};

/// A kernel as text, with what it includes, as a plan keeps it for chips that it has no code for.
struct SourceText {
  std::string text;
  std::vector<std::pair<std::string, std::string>> headers; ///< include path and text
  std::vector<std::string> options;                         ///< of the device's own compiler
};

class Device {
public:
  virtual ~Device() = default;
  virtual const DeviceInfo &info() const = 0;
  /// Zero-filled. Throws Error with the size when there is no room.
  virtual std::unique_ptr<Buffer> allocate(uint64_t bytes, MemoryKind kind,
                                           std::string_view what) = 0;
  /// Lets kernels and copies of this device reach every buffer of `other`, a device of the same
  /// driver that `info().peers` names: those that it has, and those that it allocates later. Throws
  /// Error where they cannot.
  virtual void reach(Device &other);
  /// Loads a code object from memory; `name` is what errors call it.
  virtual std::unique_ptr<Module> load(std::span<const std::byte> code, std::string_view name) = 0;
  /// The same for code of the CPU that runs over this device's memory, in order with its own
  /// kernels: what stands in where a target lacks kernels. Throws Error where the CPU reaches no
  /// kernel's memory.
  virtual std::unique_ptr<Module> loadFallback(std::span<const std::byte> code,
                                               std::string_view name);
  /// Makes a code object for this device from text. Throws Error when the driver has no compiler or
  /// this machine lacks it (what to install), and when the text does not compile. Any number of
  /// threads may call this at once.
  virtual std::vector<std::byte> build(const SourceText &source, const std::string &name) const;
  /// Kernels of the driver for chores of the runtime (runtime/weights/MadeUp.h: "made_up"); null
  /// where it has none, and the CPU does them.
  virtual std::unique_ptr<Module> ownKernels() { return nullptr; }
  virtual std::unique_ptr<Stream> createStream() = 0;
  virtual std::unique_ptr<Event> createEvent() = 0;
  virtual std::unique_ptr<Graph> createGraph() = 0;
  virtual Counters &counters() = 0;
  /// Bytes that an allocation can expect to get now.
  virtual uint64_t availableBytes() const = 0;
  /// Takes some tenths of a second; not while work runs.
  virtual DeviceLimits measureLimits() = 0;
};

struct DeviceOptions {
  unsigned threads = 0; ///< host driver: workers, 0 = one for each core that this process may use
  bool pin = true;      ///< host driver: keep each worker on its core
  /// Which device: "" = the best for the plan, a driver ("host"), or one of its devices ("cuda:1").
  std::string device = "";
  /// Wait for each launch, so that a failure names the launch that caused it. Slow.
  bool checkLaunches = false;
  /// A target whose kernels are emulated from the plan's sources, instead of any device.
  std::string emulate = "";
  uint64_t emulationSeed = 1; ///< of the order of what is emulated
};

class Driver {
public:
  virtual ~Driver() = default;
  virtual std::string_view name() const = 0;
  /// Devices of this machine, without opening them; empty when the driver has none here.
  virtual std::vector<DeviceInfo> devices() const = 0;
  /// Why `devices` is empty, and what to do about it; empty when it is not.
  virtual std::string absence() const { return ""; }
  virtual std::unique_ptr<Device> open(size_t index, const DeviceOptions &options) const = 0;
};

/// Checks shared by drivers: `bytes` at `offset` lie within a buffer of `size`; throws Error naming
/// `what`.
void checkRange(uint64_t offset, uint64_t bytes, uint64_t size, std::string_view what);
/// Throws Error naming `label` when `given` is not the kernel's parameter count.
void checkParameters(const Kernel &kernel, size_t given, std::string_view label);

} // namespace m3c::hal
