#include "runtime/drivers/host/HostDriver.h"

#include "runtime/base/Error.h"
#include "runtime/drivers/host/Cpu.h"
#include "runtime/drivers/host/HostDevice.h"

#include <fmt/format.h>
#include <unistd.h>

namespace m3c::hal {

namespace {

class HostDriver final : public Driver {
public:
  std::string_view name() const override { return "host"; }

  std::vector<DeviceInfo> devices() const override {
    DeviceInfo info;
    info.driver = "host";
    info.name = cpuName();
    info.features = cpuFeatures();
    info.workers = unsigned(usableCores().size());
    info.memoryBytes = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
    return {info};
  }

  std::unique_ptr<Device> open(size_t index, const DeviceOptions &options) const override {
    if (index != 0)
      throw Error(fmt::format("there is no host device {}", index), "host driver",
                  "the host is one device, number 0");
    if (options.threads > 1024)
      throw Error(fmt::format("{} threads are too many", options.threads), "host driver",
                  "at most 1024", "give fewer with --threads", ExitCode::Usage);
    std::vector<int> cores = usableCores();
    bool ownCores = options.threads <= cores.size();
    if (options.threads)
      cores.resize(options.threads, 0);
    return std::make_unique<HostDevice>(devices()[0], cores,
                                        ThreadPool::Options{options.pin && ownCores, ownCores});
  }
};

} // namespace

std::unique_ptr<Driver> createHostDriver() { return std::make_unique<HostDriver>(); }

} // namespace m3c::hal
