#include "runtime/drivers/host/HostLimits.h"

#include "runtime/base/Error.h"
#include "runtime/drivers/host/Cpu.h"
#include "runtime/drivers/host/HostDevice.h"
#include "runtime/drivers/host/LimitLoops.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bitset>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>

namespace m3c::hal {

namespace {

constexpr uint64_t memoryProbe = uint64_t(512) << 20; // bytes of main memory, at least
constexpr uint64_t memoryChunk = uint64_t(1) << 20;   // bytes of one work item
constexpr uint64_t cacheReads = uint64_t(2) << 30;    // bytes of one sample from a cache
constexpr uint64_t lineBytes = 64;

std::string firstWord(const std::string &path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

/// "512K", "32M" in bytes; 0 for anything else.
uint64_t sizeOf(const std::string &text) {
  std::istringstream stream(text);
  uint64_t value = 0;
  char unit = 0;
  stream >> value >> unit;
  return value << (unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0);
}

/// CPUs in "00000000,0000000f".
unsigned cpusIn(const std::string &mask) {
  unsigned count = 0;
  for (char digit : mask)
    if (digit != ',')
      count += unsigned(std::bitset<4>(std::stoul(std::string(1, digit), nullptr, 16)).count());
  return std::max(1u, count);
}

double secondsOf(const std::function<void()> &work) {
  auto begun = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

std::vector<int> firstCores(unsigned threads) {
  std::vector<int> cores = usableCores();
  if (threads && threads < cores.size())
    cores.resize(threads);
  return cores;
}

} // namespace

std::vector<MemoryLevel> memoryLevels(unsigned workers) {
  std::vector<MemoryLevel> levels;
  uint64_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    uint64_t bytes = sizeOf(firstWord(folder + "size"));
    std::string type = firstWord(folder + "type");
    if (bytes == 0 || type == "Instruction")
      continue;
    unsigned sharedBy = cpusIn(firstWord(folder + "shared_cpu_map"));
    // Half of a worker's share: the other half is room for everything else.
    uint64_t probe = bytes / 2 / std::min(sharedBy, workers) / lineBytes / 16 * lineBytes * 16;
    levels.push_back({"L" + firstWord(folder + "level"), bytes, sharedBy, probe});
    largest = std::max(largest, bytes);
  }
  uint64_t all = std::max(memoryProbe, 8 * largest);
  levels.push_back({"memory", 0, workers, all / workers / memoryChunk * memoryChunk});
  return levels;
}

std::vector<std::string> arithmeticSets() {
  std::vector<std::string> sets, features = cpuFeatures();
  auto has = [&](const char *feature) {
    return std::find(features.begin(), features.end(), feature) != features.end();
  };
  if (has("avx2") && has("fma"))
    sets.push_back("avx2");
  if (has("avx512f"))
    sets.push_back("avx512f");
  return sets;
}

/// Memory with large pages where the system gives them.
struct LimitMeter::Mapping {
  std::byte *bytes;
  uint64_t size;
  explicit Mapping(uint64_t size) : size(size) {
    void *address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED)
      throw Error("no memory to measure the machine's limits", "host driver",
                  fmt::format("{} bytes are needed", size));
    madvise(address, size, MADV_HUGEPAGE);
    bytes = static_cast<std::byte *>(address);
    std::memset(address, 1, size);
  }
  ~Mapping() { munmap(bytes, size); }
};

LimitMeter::LimitMeter(unsigned threads)
    : pool(firstCores(threads), {}), memory(memoryLevels(pool.workers())),
      data(std::make_unique<Mapping>(memory.back().probeBytes * pool.workers())) {}

LimitMeter::~LimitMeter() = default;

double LimitMeter::readBandwidth(const MemoryLevel &level) {
  // Main memory: the items share one area. A cache: each worker reads its own part, whichever items
  // it gets.
  struct Reads {
    std::byte *base;
    uint64_t bytes, stride;
    bool shared;
  } reads;
  bool shared = level.bytes == 0;
  reads = {data->bytes, shared ? memoryChunk : level.probeBytes, memory.back().probeBytes, shared};
  auto read = [](const void *context, uint64_t begin, uint64_t end, unsigned worker) {
    const Reads &reads = *static_cast<const Reads *>(context);
    for (uint64_t item = begin; item < end; ++item)
      readLines(reads.base + (reads.shared ? item * reads.bytes : worker * reads.stride),
                reads.bytes);
  };
  uint64_t items = shared ? data->size / memoryChunk : cacheReads / level.probeBytes;
  ThreadPool::Job job{read, &reads, items};
  if (!shared) { // brings the data into the cache
    ThreadPool::Job warm{read, &reads, uint64_t(4) * pool.workers()};
    pool.run(&warm, 1);
  }
  double seconds = secondsOf([&] { pool.run(&job, 1); });
  return double(items * reads.bytes) / seconds;
}

double LimitMeter::arithmeticPeak(const std::string &set) {
  const ArithmeticLoop loop = arithmeticLoop(set);
  if (!loop.run)
    throw Error(fmt::format("this processor has no {}", set), "host driver",
                fmt::format("it has {}", fmt::join(arithmeticSets(), ", ")));
  constexpr uint64_t rounds = 100000; // of one item: less than a millisecond
  auto work = [](const void *context, uint64_t begin, uint64_t end, unsigned) {
    for (uint64_t item = begin; item < end; ++item)
      static_cast<const ArithmeticLoop *>(context)->run(rounds);
  };
  uint64_t items = uint64_t(50) * pool.workers();
  ThreadPool::Job job{work, &loop, items};
  double seconds = secondsOf([&] { pool.run(&job, 1); });
  return double(items * rounds) * loop.operations / seconds;
}

double LimitMeter::clock() {
  constexpr uint64_t additions = 64 * 1000 * 1000;
  return double(additions) / secondsOf([] { chainAdditions(additions); });
}

DeviceLimits HostDevice::measureLimits() {
  LimitMeter meter(pool.workers());
  auto best = [](const std::function<double()> &sample) {
    double most = 0;
    for (int i = 0; i < 5; ++i) // interruptions only ever take time
      most = std::max(most, sample());
    return most;
  };
  DeviceLimits limits;
  limits.readBytesPerSecond = best([&] { return meter.readBandwidth(meter.levels().back()); });
  for (const std::string &set : arithmeticSets())
    limits.arithmetic.push_back({set, best([&] { return meter.arithmeticPeak(set); })});
  return limits;
}

} // namespace m3c::hal
