// A device that computes nothing: it keeps memory, orders nothing, and records what it was asked.
// Tests use it as a double; a new driver may start from it.
#pragma once

#include "runtime/hal/Hal.h"

namespace m3c::hal {

/// One thing that a NullDevice was asked to do.
struct NullRecord {
  std::string what; ///< "launch", "copy", "fill", "write", "read", "replay", "synchronize"
  std::string label;
  Grid grid;
  std::vector<uint64_t> parameters;
  bool operator==(const NullRecord &other) const {
    return what == other.what && label == other.label && parameters == other.parameters &&
           grid.x == other.grid.x && grid.y == other.grid.y && grid.z == other.grid.z;
  }
};

class NullDevice final : public Device {
public:
  /// `features` are what the device claims to have; `memoryBytes` bounds its allocations.
  explicit NullDevice(std::vector<std::string> features = {}, uint64_t memoryBytes = UINT64_MAX);

  const DeviceInfo &info() const override { return description; }
  std::unique_ptr<Buffer> allocate(uint64_t bytes, MemoryKind kind, std::string_view what) override;
  std::unique_ptr<Module> load(std::span<const std::byte> code, std::string_view name) override;
  std::unique_ptr<Stream> createStream() override;
  std::unique_ptr<Event> createEvent() override;
  std::unique_ptr<Graph> createGraph() override;
  Counters &counters() override { return counts; }
  uint64_t availableBytes() const override;
  DeviceLimits measureLimits() override { return {}; }

  /// In the order of execution; a replay adds its own record and those of its nodes.
  const std::vector<NullRecord> &records() const { return log; }
  void clearRecords() { log.clear(); }
  /// The next execution of a launch with this label fails; `synchronize` reports it.
  void failAt(std::string label) { failing = std::move(label); }

  void execute(NullRecord record);
  void reportFailure();

private:
  DeviceInfo description;
  Counters counts;
  std::vector<NullRecord> log;
  std::string failing, failed;
};

} // namespace m3c::hal
